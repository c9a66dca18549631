"""The conditional random field over a sequence of tags, with its loss and accuracy for Keras."""

import weakref
from collections.abc import Callable
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.masking import set_keras_mask

from tfnlp.layers.base import Layer, carried, check_positive
from tfnlp.layers.kernels.chain import Chain, best_path, log_partition, marginals, path_score
from tfnlp.layers.types import Shape, Tensor

# The newest layer of each name. A file of Keras holds the layers of a model before its loss, which
# finds its layer here.
_newest: weakref.WeakValueDictionary[str, "CRF"] = weakref.WeakValueDictionary()


@keras.saving.register_keras_serializable(package="tfnlp")
class CRF(Layer):
    """Linear-chain CRF: `p(y | x) = exp(s(y)) / sum_y' exp(s(y'))`.

    `s(y) = start[y_1] + sum_t e_t[y_t] + sum_(t > 1) A[y_(t-1), y_t] + end[y_n]` for the emission
    scores e of the real positions 1 .. n, which may lie anywhere in a row. The sum is exact
    (forward algorithm). Lafferty, McCallum & Pereira 2001; on a network Lample et al. 2016,
    section 2.2.

    Args:
        num_tags: K.
        rate: factor of the learning rate of A, start and end. A fine-tuned encoder learns with
            rates at which they would not move.

    Call:
        inputs: e, `[B, T, K]`.
        tags: int `[B, T]` or None.
        mask: bool `[B, T]`, True at real positions; None: the mask that the inputs carry, or all.

    To train one with Keras's `compile`, as the last layer of a model of its scores, see `loss` and
    `accuracy`.

    Returns:
        with `tags` `log p(tags | x)`, float32 `[B]`, 0 for a row without real positions. Without
        tags e, float32 `[B, T, K]`: so a model that gives scores of tags has the weights of the
        chain, which `log_likelihood`, `marginals` and `decode` read.

    Raises:
        ValueError: for num_tags below 1, a rate that is not above 0, or inputs of another number of
            tags.
    """

    def __init__(
        self,
        num_tags: int,
        rate: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_tags=num_tags)
        if not rate > 0:
            raise ValueError(f"rate={rate} must be above 0")
        self.num_tags, self.rate = num_tags, rate
        self.supports_masking = True
        _newest[self.name] = self

    def build(self, inputs_shape: Shape) -> None:
        if inputs_shape[-1] != self.num_tags:
            raise ValueError(f"num_tags={self.num_tags}, but inputs have {inputs_shape[-1]} scores")
        one = (self.num_tags,)
        self._weights = {
            name: self.float32_weight(name, shape)
            for name, shape in (("transitions", one * 2), ("start", one), ("end", one))
        }

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return A `[K, K]`, start `[K]` and end `[K]`, float32."""
        found = [ops.copy(self._weights[name]) for name in ("transitions", "start", "end")]
        # The gradient of A itself: the factor is that of a step, not of the norm that is clipped.
        return tuple(w + ops.stop_gradient((self.rate - 1) * w) for w in found)

    def call(
        self, inputs: Tensor, tags: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        mask = carried(mask, inputs)
        if tags is not None:
            return self.log_likelihood(inputs, tags, mask)
        scores = ops.cast(inputs, "float32")
        if mask is not None:
            set_keras_mask(scores, mask)
        return scores

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: scores get their mask in the call, likelihoods of rows have none."""
        return None

    def loss(self) -> keras.losses.Loss:
        """Return a loss for `compile`: `-log p(tags | x)`, the mean over the rows of a batch.

        It takes tags int `[B, T]` and the scores that the layer returns for them. Positions that
        the scores' mask leaves out, and those with a tag below 0, are not real.
        """
        return TagLoss(self)

    def accuracy(self) -> keras.metrics.Metric:
        """Return a metric for `compile`: the share of real positions whose tag `decode` finds.

        It takes what the loss takes.
        """
        return TagAccuracy(self)

    def log_likelihood(self, inputs: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return `log p(tags | x)`, float32 `[B]`; see the class."""
        chain, live = self._chain(inputs, mask)
        return path_score(chain, live, ops.transpose(tags)) - log_partition(chain, live)

    def log_partition(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return `log sum_y exp(s(y))`, float32 `[B]`, 0 for a row without real positions."""
        return log_partition(*self._chain(inputs, mask))

    def marginals(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return `p(y_t = k | x)`, float32 `[B, T, K]`, 0 at padding."""
        return ops.transpose(marginals(*self._chain(inputs, mask)), (1, 0, 2))

    def decode(self, inputs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sequence of tags with the largest score, and that score (Viterbi).

        Returns:
            `(tags, score)`: int32 `[B, T]`, 0 at padding, and float32 `[B]`.
        """
        tags, score = best_path(*self._chain(inputs, mask))
        return ops.transpose(tags), score

    def _chain(self, inputs: Tensor, mask: Tensor | None) -> tuple[Chain, Tensor]:
        mask = carried(mask, inputs)
        emissions = ops.transpose(ops.cast(inputs, "float32"), (1, 0, 2))  # [T, B, K]
        if mask is None:
            live = ops.ones_like(emissions[:, :, 0], dtype="bool")
        else:
            live = ops.transpose(ops.cast(mask, "bool"))
        return Chain(emissions, *self.scores()), live

    def compute_output_spec(
        self, inputs: Tensor, tags: Tensor | None = None, mask: Tensor | None = None
    ) -> keras.KerasTensor:
        shape = inputs.shape if tags is None else inputs.shape[:1]
        return keras.KerasTensor(shape, dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class TagLoss(keras.losses.Loss):
    """See `CRF.loss`.

    Args:
        layer: a `CRF`, or the name of one.
    """

    def __init__(self, layer: CRF | str, name: str = "crf_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._layer = _kept(layer)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        tags = _real_tags(y_true, y_pred)
        # A copy, without the mask: Keras would weigh the losses `[B]` with it.
        return super().__call__(tags, ops.copy(y_pred), sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        real = y_true >= 0
        return -self._layer().log_likelihood(y_pred, ops.where(real, y_true, 0), real)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layer": self._layer().name}


@keras.saving.register_keras_serializable(package="tfnlp")
class TagAccuracy(keras.metrics.Mean):
    """See `CRF.accuracy`.

    Args:
        layer: a `CRF`, or the name of one.
    """

    def __init__(self, layer: CRF | str, name: str = "accuracy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._layer = _kept(layer)

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        tags = _real_tags(y_true, y_pred)
        real = ops.cast(tags >= 0, self.dtype)
        if sample_weight is not None:
            weights = ops.cast(sample_weight, self.dtype)  # [B] or [B, T]
            real = real * (weights if len(weights.shape) == 2 else weights[:, None])
        found, _ = self._layer().decode(y_pred, tags >= 0)
        super().update_state(ops.equal(found, tags), real)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layer": self._layer().name}


def _kept(layer: CRF | str) -> Callable[[], CRF]:
    """Return a function that returns a layer, given itself or by its name.

    In an attribute of a loss Keras would find the layer before it finds it in the model, and files
    would hold its weights there.
    """
    found = _newest[layer] if isinstance(layer, str) else layer
    return lambda: found


def _real_tags(tags: Tensor, scores: Tensor) -> Tensor:
    """Return tags as int32 `[B, T]`, -1 where the mask that scores carry leaves a position out."""
    tags, mask = ops.cast(tags, "int32"), carried(None, scores)
    return tags if mask is None else ops.where(ops.cast(mask, "bool"), tags, -1)

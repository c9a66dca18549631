"""The conditional random field over a sequence of tags."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, check_positive
from tfnlp.layers.kernels.chain import Chain, best_path, log_partition, marginals, path_score
from tfnlp.layers.types import Shape, Tensor


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
        mask: bool `[B, T]`, True at real positions; None: all are.

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
        if tags is None:
            return ops.cast(inputs, "float32")
        return self.log_likelihood(inputs, tags, mask)

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

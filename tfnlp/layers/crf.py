"""The conditional random field over a sequence of tags, with its loss and accuracy for Keras."""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops
from keras.src.backend.common.masking import set_keras_mask

from tfnlp.layers.base import Layer, Shape, Tensor, carried, check_positive
from tfnlp.layers.kernels.backend import beside, with_gradient
from tfnlp.layers.kernels.lstm_loop import scan

# The newest layer of each name. A file of Keras holds the layers of a model before its loss, which
# finds its layer here.
_newest: weakref.WeakValueDictionary[str, "CRF"] = weakref.WeakValueDictionary()


class Chain(NamedTuple):
    """The scores of a chain, float32, with the time first.

    Functions of a chain also take which positions are live, bool `[T, B]`, wherever they are in a
    row: the others are passed by.
    """

    emissions: Tensor  # e, `[T, B, K]`
    transitions: Tensor  # A, `[K, K]`, from a tag to the next
    start: Tensor  # `[K]`, of the first tag
    end: Tensor  # `[K]`, of the last tag


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


def first_live(live: Tensor) -> Tensor:
    """Return where a row's first live position is: bool `[T, B]` of bool `[T, B]`."""
    count = ops.cumsum(ops.cast(live, "int32"), axis=0)
    return ops.logical_and(live, ops.equal(count, 1))


def plain_log_partition(chain: Chain, live: Tensor) -> Tensor:
    """Return what `log_partition` returns, by its formula."""
    return _log_z(chain, live, _forward(chain, live)[0])


@beside(plain_log_partition)
def log_partition(chain: Chain, live: Tensor) -> Tensor:
    """Return `log sum_y exp(score(y))`, float32 `[B]`; 0 for a row without live positions.

    The gradient is hand-written: of e the marginals, of A the expected number of each pair. So no
    loop is differentiated, which XLA could not compile in TensorFlow.
    """

    @with_gradient
    def summed(*scores: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
        chain = Chain(*scores)
        last, sums = _forward(chain, live)
        log_z = _log_z(chain, live, last)

        def gradient(dy: Tensor) -> tuple[Tensor, ...]:
            betas, pairs = _backward(chain, live, log_z, sums, dy)
            marginals = _marginals(live, sums, betas, log_z) * dy[None, :, None]  # [T, B, K]
            first = ops.cast(first_live(live), "float32")[:, :, None]
            ends = ops.exp(last + chain.end - log_z[:, None])  # [B, K]
            real = ops.cast(ops.any(live, axis=0), "float32") * dy  # [B]
            d_start = ops.sum(marginals * first, axis=(0, 1))
            return marginals, pairs, d_start, ops.sum(ends * real[:, None], axis=0)

        return log_z, gradient

    return summed(*chain)


def marginals(chain: Chain, live: Tensor) -> Tensor:
    """Return `p(y_t = k)`, float32 `[T, B, K]`, 0 where not live."""
    last, sums = _forward(chain, live)
    log_z = _log_z(chain, live, last)
    betas, _ = _backward(chain, live, log_z, sums, None)
    return _marginals(live, sums, betas, log_z)


def best_path(chain: Chain, live: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tags with the largest score (Viterbi 1967) and the score.

    Tags are int32 `[T, B]`, 0 where not live; the score of a row without live positions is 0.
    """
    size = chain.start.shape[0]
    stay = ops.zeros_like(chain.emissions[0], dtype="int32") + ops.arange(size, dtype="int32")

    def step(carry: tuple[Tensor, Tensor], x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        ways = carry[0][:, :, None] + chain.transitions  # [B, K, K], from and to
        moved = ops.where(x["first"], chain.start, ops.max(ways, axis=1)) + x["emissions"]
        came_from = ops.cast(ops.argmax(ways, axis=1), "int32")
        return ops.where(x["live"], moved, carry[0]), ops.where(x["live"], came_from, stay)

    begin = (ops.zeros_like(chain.emissions[0]), stay)
    (scores, _), (_, back) = scan(step, begin, **_steps(chain, live))
    scores = scores + chain.end
    last = ops.cast(ops.argmax(scores, axis=-1), "int32")  # [B]

    def before(tag: Tensor, x: dict[str, Tensor]) -> Tensor:
        return ops.take_along_axis(x["back"], tag[:, None], axis=1)[:, 0]

    _, earlier = scan(before, last, backwards=True, back=back)  # [T, B]: of the position before
    tags = ops.concatenate([earlier[1:], last[None]], axis=0)
    some = ops.any(live, axis=0)
    best = ops.where(some, ops.max(scores, axis=-1), 0.0)
    return ops.where(live, tags, 0), best


def path_score(chain: Chain, live: Tensor, tags: Tensor) -> Tensor:
    """Return the score of sequences of tags `[T, B]`, float32 `[B]`; of live tags alone."""
    size = chain.start.shape[0]
    tags = ops.where(live, ops.cast(tags, "int32"), 0)

    def step(tag: Tensor, x: dict[str, Tensor]) -> Tensor:
        return ops.where(x["live"], x["tag"], tag)

    last, seen = scan(step, ops.zeros_like(tags[0]), live=live, tag=tags)
    before = ops.concatenate([ops.zeros_like(tags[:1]), seen[:-1]], axis=0)  # [T, B]
    first = first_live(live)
    moves = ops.take(ops.reshape(chain.transitions, (-1,)), before * size + tags)
    reached = ops.where(first, ops.take(chain.start, tags), moves)
    here = ops.take_along_axis(chain.emissions, tags[..., None], axis=-1)[..., 0]  # [T, B]
    total = ops.sum(ops.where(live, here + reached, 0.0), axis=0)
    return total + ops.where(ops.any(live, axis=0), ops.take(chain.end, last), 0.0)


def _steps(chain: Chain, live: Tensor) -> dict[str, Tensor]:
    return {
        "emissions": chain.emissions,
        "live": live[..., None],
        "first": first_live(live)[..., None],
    }


def _forward(chain: Chain, live: Tensor) -> tuple[Tensor, Tensor]:
    """Return log sums over all beginnings up to each position: the last, `[B, K]`, and all."""

    def step(before: Tensor, x: dict[str, Tensor]) -> Tensor:
        moved = ops.logsumexp(before[:, :, None] + chain.transitions, axis=1)  # [B, K]
        new = ops.where(x["first"], chain.start, moved) + x["emissions"]
        return ops.where(x["live"], new, before)

    return scan(step, ops.zeros_like(chain.emissions[0]), **_steps(chain, live))


def _log_z(chain: Chain, live: Tensor, last: Tensor) -> Tensor:
    total = ops.logsumexp(last + chain.end, axis=-1)  # [B]
    return ops.where(ops.any(live, axis=0), total, 0.0)


def _backward(
    chain: Chain, live: Tensor, log_z: Tensor, sums: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return log sums over all ends after each position, and `sum_b w_b E[pairs (i, j)]`."""
    start = {
        "beta": ops.zeros_like(chain.emissions[0]) + chain.end,
        "pairs": ops.zeros_like(chain.transitions),
    }
    # The sums of the position before; at the first one they are not read.
    before = ops.concatenate([ops.zeros_like(sums[:1]), sums[:-1]], axis=0)

    def step(carry: dict[str, Tensor], x: dict[str, Tensor]) -> dict[str, Tensor]:
        ways = chain.transitions + (x["emissions"] + carry["beta"])[:, None]  # [B, K, K]
        beta = ops.where(x["live"], ops.logsumexp(ways, axis=2), carry["beta"])
        if weights is None:
            return {"beta": beta, "pairs": carry["pairs"]}
        moves = ops.logical_and(x["live"], ops.logical_not(x["first"]))[:, :, None]
        logs = ways + x["before"][:, :, None] - log_z[:, None, None]
        odds = ops.exp(ops.where(moves, logs, -1e9)) * weights[:, None, None]
        return {"beta": beta, "pairs": carry["pairs"] + ops.sum(odds, axis=0)}

    arrays = {**_steps(chain, live), "before": before}
    last, found = scan(step, start, backwards=True, sums=("pairs",), **arrays)
    betas = ops.concatenate([found["beta"][1:], start["beta"][None]], axis=0)
    return betas, last["pairs"]


def _marginals(live: Tensor, sums: Tensor, betas: Tensor, log_z: Tensor) -> Tensor:
    logs = sums + betas - log_z[None, :, None]
    return ops.exp(ops.where(live[..., None], logs, -1e9))

"""Sums and maxima over all sequences of tags of a linear chain, and the gradient of the sums.

Arrays have the time first. Positions that are not live are passed by: the chain runs over the live
ones of a row, wherever they are.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from tfnlp.layers.kernels.backend import beside, with_gradient
from tfnlp.layers.kernels.lstm_loop import scan
from tfnlp.layers.types import Tensor


class Chain(NamedTuple):
    """The scores of a chain.

    Attributes:
        emissions: e, float32 `[T, B, K]`.
        transitions: A, float32 `[K, K]`, from a tag to the next.
        start, end: float32 `[K]`, of the first and of the last tag.
    """

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


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

    Args:
        chain: its scores.
        live: bool `[T, B]`.
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
    """Return `p(y_t = k)`, float32 `[T, B, K]`, 0 where not live. Args: as `log_partition`."""
    last, sums = _forward(chain, live)
    log_z = _log_z(chain, live, last)
    betas, _ = _backward(chain, live, log_z, sums, None)
    return _marginals(live, sums, betas, log_z)


def best_path(chain: Chain, live: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tags with the largest score (Viterbi 1967) and the score.

    Live positions are bool `[T, B]`. The tags are int32 `[T, B]`, 0 where not live; the score is
    float32 `[B]`, 0 for a row without live positions.
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
    """Return the score of sequences of tags, float32 `[B]`.

    Tags, int32 `[T, B]`, that are not live, bool `[T, B]`, are not read.
    """
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
    """Return log sums over all ends after each position, and expected pairs.

    They are `[T, B, K]`, and `sum_b w_b E[number of pairs (i, j)]`, `[K, K]`. The weights w `[B]`
    of the rows may be None: no pairs. `sums` `[T, B, K]` are those of `_forward`.
    """
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

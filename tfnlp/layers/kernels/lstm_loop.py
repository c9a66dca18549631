"""The recurrence of `ProjectedLSTM` over time, plain and with a hand-written gradient.

Automatic differentiation of a loop adds an outer product to each whole weight matrix at every
step. Here the loop backwards only computes the gradients of the gates; those of the weights are
then one matrix product over all steps.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from tfnlp.layers.base import DType, Tensor
from tfnlp.layers.kernels.backend import beside, by_target, with_gradient

Step = Callable[[Any, dict[str, Tensor]], Any]
_UNROLLED = 32  # the most steps that a program for a TPU has one after the other, without a loop


class Cell(NamedTuple):
    """The weights and constants of a cell."""

    recurrent: Tensor | Sequence[Tensor]  # `[P, 4U]`, or its four parts
    projection: Tensor | None = None  # `[U, P]`; None: P = U
    cell_clip: float | None = None
    projection_clip: float | None = None
    forget_bias: float = 1.0


def lstm_loop(
    gates: Tensor, c: Tensor, h: Tensor, cell: Cell, live: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run the cell over the first axis.

    Args:
        gates: `x_t W_x + b`, `[T, B, 4U]`.
        c, h: float32 `[B, U]` and `[B, P]`.
        cell: a `Cell`.
        live: bool `[T, B, 1]`, False where the state is not changed, or None.
        keep: float32 `[T, B, 1]`, 0 where the state is set to zero first, or None.

    Returns:
        h of all steps, float32 `[T, B, P]`, and the last c `[B, U]`.
    """
    if keras.backend.backend() == "tensorflow":
        # On a CPU products with up to 1 MB of numbers, as one gate's are, run on one thread, which
        # leaves the other threads to the other direction: more than to share every product.
        cell = cell._replace(recurrent=list(ops.split(cell.recurrent, 4, axis=-1)))

    def step(carry: tuple[Tensor, ...], x: dict[str, Tensor]) -> tuple[Tensor, ...]:
        return cell_step(*carry, x, cell)[:2]

    (c, _), (_, outputs) = scan(step, (c, h), gates=gates, live=live, keep=keep)
    return outputs, c


@beside(lstm_loop)
def trainable_lstm_loop(
    gates: Tensor, c: Tensor, h: Tensor, cell: Cell, live: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what `lstm_loop` returns, with a hand-written gradient for all but `live`, `keep`."""

    @with_gradient
    def loop(
        gates: Tensor, c_0: Tensor, h_0: Tensor, *weights: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Callable[..., tuple[Tensor, ...]]]:
        inside = Cell(*weights, *cell[len(weights) :])
        # In float32 the active gates are kept. Narrow numbers have no room for those near 1, but
        # the gates before activation are such numbers already.
        narrow = keras.backend.standardize_dtype(gates.dtype) != "float32"

        def step(carry: tuple[Tensor, ...], x: dict[str, Tensor]) -> tuple[Tensor, ...]:
            c, h, active, z = cell_step(carry[0], carry[1], x, inside)
            return c, h, z if narrow else ops.concatenate(active, -1)

        start = (c_0, h_0, ops.zeros_like(gates[0]))
        (c, _, _), (cells, outputs, kept) = scan(step, start, gates=gates, live=live, keep=keep)

        def activated(kept: Tensor) -> tuple[Tensor, ...]:
            return activate(kept, cell.forget_bias) if narrow else ops.split(kept, 4, axis=-1)

        def gradient(upstream: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            d_outputs, d_c = upstream
            before = [
                ops.concatenate([first[None], all_steps[:-1]]) * (1.0 if keep is None else keep)
                for first, all_steps in ((c_0, cells), (h_0, outputs))
            ]  # the start of each step: [T, B, U], [T, B, P]

            def back(carry: tuple[Tensor, ...], x: dict[str, Tensor]) -> tuple[Tensor, ...]:
                x = {**x, "active": activated(x["kept"])}
                d_c, d_h, d_gates, *others = cell_gradient(carry[0], carry[1], x, inside)
                return d_c, d_h, ops.cast(d_gates, gates.dtype), *others

            projected = [] if cell.projection is None else [ops.zeros_like(h_0)]
            (d_c, d_h, *_), (_, _, d_gates, *d_projected) = scan(
                back,
                (d_c, ops.zeros_like(h_0), start[2], *projected),
                backwards=True,
                kept=kept,
                c=cells,
                h=outputs,
                c_before=before[0],
                d_output=d_outputs,
                live=live,
                keep=keep,
            )
            d_weights = [outer(before[1], d_gates, inside.recurrent.dtype)]
            if projected:
                o = kept[..., 3 * c_0.shape[-1] :]
                o = ops.sigmoid(ops.cast(o, "float32")) if narrow else o
                unprojected = o * ops.tanh(cells)  # [T, B, U]
                d_weights.append(outer(unprojected, d_projected[0], inside.projection.dtype))
            return d_gates, d_c, d_h, *d_weights

        return (outputs, c), gradient

    return loop(gates, c, h, *(w for w in cell[:2] if w is not None))


def cell_step(
    c: Tensor, h: Tensor, x: dict[str, Tensor], cell: Cell
) -> tuple[Tensor, Tensor, tuple[Tensor, ...], Tensor | list[Tensor]]:
    """Return c, h and the active gates (i, j, f, o) of one step, float32, and the gates before.

    These are a list of four where `cell.recurrent` is one.
    """
    if "keep" in x:
        c, h = c * x["keep"], h * x["keep"]
    if isinstance(cell.recurrent, list):
        parts = ops.split(x["gates"], 4, axis=-1)
        gates = [z + matmul(h, w) for z, w in zip(parts, cell.recurrent, strict=True)]  # [B, U]
    else:
        gates = x["gates"] + matmul(h, cell.recurrent)  # [B, 4U]
    i, j, f, o = activate(gates, cell.forget_bias)
    new_c = _clip(f * c + i * j, cell.cell_clip)
    new_h = o * ops.tanh(new_c)
    if cell.projection is not None:
        new_h = ops.cast(matmul(new_h, cell.projection), "float32")  # [B, P]
    new_h = _clip(new_h, cell.projection_clip)
    if "live" in x:
        new_c, new_h = ops.where(x["live"], new_c, c), ops.where(x["live"], new_h, h)
    return new_c, new_h, (i, j, f, o), gates


def activate(gates: Tensor | list[Tensor], forget_bias: float) -> tuple[Tensor, ...]:
    """Return the active gates (i, j, f, o), float32 `[B, U]` each."""
    parts = gates if isinstance(gates, list) else ops.split(gates, 4, axis=-1)
    i, j, f, o = (ops.cast(part, "float32") for part in parts)
    return ops.sigmoid(i), ops.tanh(j), ops.sigmoid(f + forget_bias), ops.sigmoid(o)


def cell_gradient(d_c: Tensor, d_h: Tensor, x: dict[str, Any], cell: Cell) -> tuple[Tensor, ...]:
    """Return the gradients of c_{t-1}, h_{t-1}, the gates and, if projected, the unclipped h.

    `x["active"]` are the four active gates. With a = sigmoid or tanh of z: dz = da a (1 - a) or
    da (1 - a^2).
    """
    i, j, f, o = x["active"]
    d_h = d_h + x["d_output"]
    passed_c = passed_h = 0.0
    if "live" in x:
        zero = ops.zeros((), "float32")
        passed_c, passed_h = ops.where(x["live"], zero, d_c), ops.where(x["live"], zero, d_h)
        d_c, d_h = ops.where(x["live"], d_c, zero), ops.where(x["live"], d_h, zero)
    d_m = d_projected = _unclip(d_h, x["h"], cell.projection_clip)  # [B, P]
    if cell.projection is not None:
        d_m = ops.cast(matmul(d_projected, ops.transpose(cell.projection)), "float32")  # [B, U]
    tanh_c = ops.tanh(x["c"])
    d_c = _unclip(d_c + d_m * o * (1.0 - ops.square(tanh_c)), x["c"], cell.cell_clip)
    d_i = d_c * j * i * (1.0 - i)
    d_j = d_c * i * (1.0 - ops.square(j))
    d_f = d_c * x["c_before"] * f * (1.0 - f)
    d_o = d_m * tanh_c * o * (1.0 - o)
    d_gates = ops.concatenate([d_i, d_j, d_f, d_o], -1)  # [B, 4U]
    d_c = d_c * f + passed_c
    d_h = ops.cast(matmul(d_gates, ops.transpose(cell.recurrent)), "float32") + passed_h
    if "keep" in x:
        d_c, d_h = d_c * x["keep"], d_h * x["keep"]
    return (d_c, d_h, d_gates) if cell.projection is None else (d_c, d_h, d_gates, d_projected)


def scan(
    step: Step,
    start: Any,
    backwards: bool = False,
    sums: Sequence[str] = (),
    **arrays: Tensor | None,
) -> tuple[Any, Any]:
    """Apply `step(carry, {name: array[t]})` for all t; return the last carry and all carries.

    `sums` are names in a carry that is a dict, of which only the last value is needed: instead of
    the others `start` is kept, the same tensor every time, which takes no memory.

    The scan is over the index only: `ops.scan` takes several arrays only if T is static. A single
    step, as in generation token by token, runs without a loop, and so do few steps on a TPU.
    """
    arrays = {name: x for name, x in arrays.items() if x is not None}
    length = ops.shape(next(iter(arrays.values())))[0]
    if isinstance(length, int) and length == 1:
        last = step(start, {name: x[0] for name, x in arrays.items()})
        return last, keras.tree.map_structure(lambda x: x[None], last)

    def carried(carry: Any, start: Any) -> Any:
        return {**carry, **{name: start[name] for name in sums}} if sums else carry

    def looped(start: Any, unroll: bool | int = 1) -> tuple[Any, Any]:
        def at(carry: Any, t: Tensor) -> tuple[Any, Any]:
            new = step(carry, {name: x[t] for name, x in arrays.items()})
            return new, carried(new, start)

        return ops.scan(at, start, ops.arange(length), reverse=backwards, unroll=unroll)

    def unrolled(start: Any) -> tuple[Any, Any]:
        if keras.backend.backend() == "jax":  # which traces a step, and repeats it compiling
            return looped(start, unroll=True)
        carry, carries = start, []
        for t in reversed(range(length)) if backwards else range(length):
            carry = step(carry, {name: x[t] for name, x in arrays.items()})
            carries.append(carried(carry, start))
        if backwards:
            carries.reverse()
        return carry, keras.tree.map_structure(lambda *x: ops.stack(x), *carries)

    if isinstance(length, int) and length <= _UNROLLED:
        return by_target(unrolled, looped, start)
    return looped(start)


def matmul(x: Tensor, weights: Tensor) -> Tensor:
    """Return `x W` in the dtype of the weights."""
    return ops.matmul(ops.cast(x, weights.dtype), weights)


def outer(x: Tensor, y: Tensor, dtype: DType) -> Tensor:
    """Return `sum_tb x_tb y_tb^T` of `[T, B, X]` and `[T, B, Y]`."""
    x, y = (ops.cast(ops.reshape(z, (-1, z.shape[-1])), dtype) for z in (x, y))
    return ops.matmul(ops.transpose(x), y)


def _clip(x: Tensor, bound: float | None) -> Tensor:
    return x if bound is None else ops.clip(x, -bound, bound)


def _unclip(gradient: Tensor, clipped: Tensor, bound: float | None) -> Tensor:
    """Return the gradient before the clip: zero where the bound was reached."""
    if bound is None:
        return gradient
    return ops.where(ops.abs(clipped) < bound, gradient, ops.zeros((), "float32"))

"""The recurrence of `AttentionLSTM` over time, plain and with a hand-written gradient.

As in `lstm_loop`, the loop backwards only computes the gradients of each step's results; those of
the weights and of the source are then one matrix product over all steps.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers.attention_scores import TINY, energies, project_queries
from tfnlp.layers.base import DType, Tensor
from tfnlp.layers.kernels.backend import beside, with_gradient
from tfnlp.layers.kernels.lstm_loop import Cell, cell_gradient, cell_step, matmul, outer, scan

Tensors = dict[str, Any]  # tensors, lists and dicts of them by name
_SUMS = ("slopes", "vector")  # gradients of an additive score that are summed over the steps


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Settings and constants of the recurrence, which get no gradient.

    With `feeding` the attentional vector `h~ = tanh([c; h] W_o)` is fed to the next step, and is
    the output. Otherwise the context is fed to the cell, and `[c; h]` is the output.
    """

    feeding: bool
    unit_queries: bool  # see `project_queries`
    bias: Tensor  # float32 `[B, 1, S]` or 0.0, added to the energies
    drops: dict[str, Tensor]  # `drop_i`: factors of the input of layer i from below, `[T, B, U]`


def attention_loop(
    tensors: Tensors, fixed: Fixed
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Run the cells over the first axis of `tensors["gates"]`.

    Args:
        tensors: dict of
            gates: `x_t W + b` of the first layer, `[T, B, 4U]`.
            c, h: float32, lists of `[B, U]`, one for each layer.
            fed: float32 `[B, U]`, h~ of the step before (only where it is fed).
            keys, values: projected `[B, S, A]`, and `[B, S, D]`.
            weights: dict of `recurrent_0` `[D + U, 4U]` (`[2U, 4U]` where h~ is fed) and for
                the layers above `recurrent_i` `[2U, 4U]` and `bias_i` `[4U]`; `output` `[D + U, U]`
                where h~ is fed; of an additive score `query` `[U, A]` and `vector` `[A]`.
        fixed: a `Fixed`.

    Returns:
        float32 outputs `[T, B, U]` or `[T, B, D + U]`, attention weights `[T, B, S]`, and the last
        c and h, lists.
    """
    last, kept = _forward(tensors, fixed)
    return kept["output"], kept["attention"], last["c"], last["h"]


@beside(attention_loop)
def trainable_attention_loop(
    tensors: Tensors, fixed: Fixed
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Return what `attention_loop` returns, with a hand-written gradient for all of `tensors`."""

    @with_gradient
    def loop(*flat: Tensor) -> tuple[tuple[Tensor, ...], Callable[..., list[Tensor]]]:
        inside = keras.tree.pack_sequence_as(tensors, flat)
        last, kept = _forward(inside, fixed)

        def gradient(upstream: tuple[Tensor, ...]) -> list[Tensor]:
            d_output, d_attention, *d_last = upstream
            half = len(d_last) // 2
            d_last = {"c": d_last[:half], "h": d_last[half:]}
            found = _backward(inside, fixed, kept, d_output, d_attention, d_last)
            return keras.tree.flatten(found)

        return (kept["output"], kept["attention"], *last["c"], *last["h"]), gradient

    output, attention, *last = loop(*keras.tree.flatten(tensors))
    half = len(last) // 2
    return output, attention, last[:half], last[half:]


def _forward(tensors: Tensors, fixed: Fixed) -> tuple[Tensors, Tensors]:
    """Return the last carry and those of all steps; c, h and `active` are lists over the layers."""
    weights, values = tensors["weights"], tensors["values"]

    def step(before: Tensors, x: Tensors) -> Tensors:
        c, h, active = list(before["c"]), list(before["h"]), list(before["active"])
        if fixed.feeding:
            below = before["output"]
        else:
            below, attention, query = _attend(h[-1], tensors, fixed)
            context = below
        for i in range(len(c)):
            gates = weights[f"bias_{i}"] if i else x["gates"]
            if i:
                below = h[i - 1] * x.get(f"drop_{i}", 1.0)
            both = ops.concatenate([below, h[i]], -1)
            recurrent = Cell(weights[f"recurrent_{i}"])
            c[i], h[i], parts, _ = cell_step(c[i], both, {"gates": gates}, recurrent)
            active[i] = ops.concatenate(parts, -1)
        if fixed.feeding:
            context, attention, query = _attend(h[-1], tensors, fixed)
        output = ops.concatenate([context, h[-1]], -1)
        if fixed.feeding:
            output = ops.tanh(_float32(matmul(output, weights["output"])))
        new = {"c": c, "h": h, "active": active, "context": context, "attention": attention}
        return {**new, "query": query, "output": output}

    context = ops.zeros_like(values[:, 0], "float32")
    start = {
        "c": list(tensors["c"]),
        "h": list(tensors["h"]),
        "active": [ops.zeros_like(tensors["gates"][0], "float32") for _ in tensors["c"]],
        "context": context,
        "attention": ops.zeros_like(values[:, :, 0], "float32"),
        "query": ops.zeros_like(tensors["keys"][:, 0], "float32"),
    }
    if fixed.feeding:
        start["output"] = tensors["fed"]
    else:
        start["output"] = ops.concatenate([context, ops.zeros_like(tensors["h"][-1])], -1)
    return scan(step, start, gates=tensors["gates"], **fixed.drops)


def _backward(
    tensors: Tensors,
    fixed: Fixed,
    kept: Tensors,
    d_output: Tensor,
    d_attention: Tensor,
    d_last: Tensors,
) -> Tensors:
    """Return the gradients of `tensors`, in its structure."""
    c_before = [_shifted(*pair) for pair in zip(tensors["c"], kept["c"], strict=True)]
    h_before = [_shifted(*pair) for pair in zip(tensors["h"], kept["h"], strict=True)]
    queried = kept["h"][-1] if fixed.feeding else h_before[-1]  # what queries were made from
    by_layer = {"active": kept["active"], "c": kept["c"], "c_before": c_before}
    first, made = scan(
        lambda after, x: _step_back(after, x, tensors, fixed),
        _start_of_gradients(tensors, fixed, kept, d_last),
        backwards=True,
        sums=_SUMS if "vector" in tensors["weights"] else (),
        d_output=d_output,
        d_attention=d_attention,
        queried=queried,
        **{name: kept[name] for name in ("output", "attention", "query")},
        **{f"{name}_{i}": x for name, xs in by_layer.items() for i, x in enumerate(xs)},
        **fixed.drops,
    )

    keys, values, weights = tensors["keys"], tensors["values"], tensors["weights"]
    found = _weight_gradients(tensors, fixed, kept, made, h_before)
    if "vector" in weights:
        found["query"] = outer(queried, made["query"], weights["query"].dtype)
        found["vector"] = first["vector"]
        d_keys = first["slopes"] * _float32(weights["vector"])
    else:
        d_keys = _over_time(made["energy"], kept["query"], keys.dtype)
    gradients = {
        "gates": ops.cast(made["gates"][0], tensors["gates"].dtype),
        "c": first["c"],
        "h": first["h"],
        "keys": ops.cast(d_keys, keys.dtype),
        "values": _over_time(kept["attention"], made["context"], values.dtype),
        "weights": {name: ops.cast(found[name], weights[name].dtype) for name in weights},
    }
    return {**gradients, "fed": first["fed"]} if fixed.feeding else gradients


def _start_of_gradients(tensors: Tensors, fixed: Fixed, kept: Tensors, d_last: Tensors) -> Tensors:
    """Return the carry before the last step: the gradients of the last state, and zeros."""
    start = {
        "c": list(d_last["c"]),
        "h": list(d_last["h"]),
        "gates": [ops.zeros_like(x[0]) for x in kept["active"]],
        **{name: ops.zeros_like(kept[name][0]) for name in ("context", "query")},
        "energy": ops.zeros_like(kept["attention"][0]),
    }
    if fixed.feeding:
        start["fed"] = start["product"] = ops.zeros_like(tensors["fed"])
    if "vector" in tensors["weights"]:
        start["slopes"] = ops.zeros_like(tensors["keys"], "float32")
        start["vector"] = ops.zeros_like(tensors["weights"]["vector"], "float32")
    return start


def _step_back(after: Tensors, x: Tensors, tensors: Tensors, fixed: Fixed) -> Tensors:
    """Return the gradients that one step passes on, given those of the step after it.

    x are what the step computed, and the gradients of its outputs.
    """
    weights, width = tensors["weights"], tensors["values"].shape[-1]
    h, new = list(after["h"]), {}
    if fixed.feeding:
        d_fed = after["fed"] + x["d_output"]
        new["product"] = d_fed * (1.0 - ops.square(x["output"]))
        d_both = _float32(matmul(new["product"], ops.transpose(weights["output"])))
    else:
        d_both = x["d_output"]
    d_context = d_both[:, :width]
    h[-1] = h[-1] + d_both[:, width:]
    if fixed.feeding:
        attended = _attend_gradient(d_context, x, tensors, fixed)
        h[-1] = h[-1] + attended.pop("h")
    new["c"], h, new["gates"], d_below = _cells_back(after, h, x, weights)
    if fixed.feeding:
        new["fed"] = d_below
    else:
        d_context = d_context + d_below
        attended = _attend_gradient(d_context, x, tensors, fixed)
        h[-1] = h[-1] + attended.pop("h")
    sums = {name: after[name] + attended[name] for name in _SUMS if name in attended}
    return {**new, **attended, **sums, "h": h, "context": d_context}


def _cells_back(
    after: Tensors, h: list[Tensor], x: Tensors, weights: Tensors
) -> tuple[list[Tensor], list[Tensor], list[Tensor], Tensor]:
    """Return the gradients of c, h and gates of all layers, and of what the first one read."""
    c, h, gates, d_below = list(after["c"]), list(h), list(after["gates"]), None
    for i in reversed(range(len(c))):
        parts = {"c": x[f"c_{i}"], "c_before": x[f"c_before_{i}"], "d_output": 0.0, "h": None}
        parts["active"] = ops.split(x[f"active_{i}"], 4, axis=-1)
        recurrent = weights[f"recurrent_{i}"]
        c[i], d_both, gates[i] = cell_gradient(c[i], h[i], parts, Cell(recurrent))
        inner = recurrent.shape[0] - h[i].shape[-1]
        d_below, h[i] = d_both[:, :inner], d_both[:, inner:]
        if i:
            h[i - 1] = h[i - 1] + d_below * x.get(f"drop_{i}", 1.0)
    return c, h, gates, d_below


def _weight_gradients(
    tensors: Tensors, fixed: Fixed, kept: Tensors, made: Tensors, h_before: list[Tensor]
) -> Tensors:
    """Return the gradients of the weights of the cells and of the output, over all steps."""
    weights, found = tensors["weights"], {}
    for i, h in enumerate(h_before):
        if i:
            below = kept["h"][i - 1] * fixed.drops.get(f"drop_{i}", 1.0)
            found[f"bias_{i}"] = ops.sum(made["gates"][i], axis=(0, 1))
        else:
            below = _shifted(tensors["fed"], kept["output"]) if fixed.feeding else kept["context"]
        both = ops.concatenate([below, h], -1)
        found[f"recurrent_{i}"] = outer(both, made["gates"][i], weights[f"recurrent_{i}"].dtype)
    if fixed.feeding:
        both = ops.concatenate([kept["context"], kept["h"][-1]], -1)
        found["output"] = outer(both, made["product"], weights["output"].dtype)
    return found


def _shifted(first: Tensor, x: Tensor) -> Tensor:
    """Return each step's start: `first` `[B, U]`, then all of `x` `[T, B, U]` but the last."""
    return ops.concatenate([first[None], x[:-1]])


def _over_time(x: Tensor, y: Tensor, dtype: DType) -> Tensor:
    """Return `sum_t x_tb y_tb^T`: `[T, B, S]` and `[T, B, D]` to `[B, S, D]`."""
    x, y = ops.cast(ops.transpose(x, (1, 2, 0)), dtype), ops.cast(ops.swapaxes(y, 0, 1), dtype)
    return ops.matmul(x, y)


def _attend(h: Tensor, tensors: Tensors, fixed: Fixed) -> tuple[Tensor, Tensor, Tensor]:
    """Return the context float32 `[B, D]`, its weights `[B, S]` and the query `[B, A]`."""
    keys, values, weights = tensors["keys"], tensors["values"], tensors["weights"]
    query = project_queries(ops.cast(h, keys.dtype), weights.get("query"), fixed.unit_queries)
    scores = energies(query[:, None], keys, weights.get("vector"))  # [B, 1, S]
    attention = ops.softmax(scores + fixed.bias, axis=-1)
    context = ops.matmul(ops.cast(attention, values.dtype), values)  # [B, 1, D]
    return _float32(context[:, 0]), attention[:, 0], _float32(query)


def _attend_gradient(d_context: Tensor, x: Tensors, tensors: Tensors, fixed: Fixed) -> Tensors:
    """Return the gradients of h, of the query and of the energies.

    With an additive score also what the step adds to that of v, and to that of the keys but for
    its factor v: `slopes`.
    """
    keys, values, weights = tensors["keys"], tensors["values"], tensors["weights"]
    d_context = ops.cast(d_context, values.dtype)[:, :, None]
    d_attention = _float32(ops.matmul(values, d_context))[..., 0] + x["d_attention"]  # [B, S]
    a = x["attention"]
    d_energy = a * (d_attention - ops.sum(a * d_attention, -1, keepdims=True))
    narrow = ops.cast(d_energy, keys.dtype)
    if "vector" in weights:
        hidden = ops.tanh(ops.cast(x["query"], keys.dtype)[:, None] + keys)  # [B, S, A]
        slopes = _float32(narrow[:, :, None] * (1.0 - ops.square(hidden)))
        d_query = ops.sum(slopes, axis=1) * _float32(weights["vector"])  # [B, A]
        flat = ops.reshape(hidden, (-1, hidden.shape[-1]))
        d_vector = ops.matmul(ops.reshape(narrow, (1, -1)), flat)[0]
        more = {"slopes": slopes, "vector": _float32(d_vector)}
        d_h = _float32(matmul(d_query, ops.transpose(weights["query"])))
    else:
        d_h = d_query = _float32(ops.matmul(narrow[:, None], keys))[:, 0]
        more = {}
        if fixed.unit_queries:  # q = h / |h|
            query, h = x["query"], x["queried"]
            d_h = d_h - query * ops.sum(query * d_h, -1, keepdims=True)
            d_h = d_h * ops.rsqrt(ops.sum(h * h, -1, keepdims=True) + TINY)
    return {"h": d_h, "query": d_query, "energy": d_energy, **more}


def _float32(x: Tensor) -> Tensor:
    return ops.cast(x, "float32")

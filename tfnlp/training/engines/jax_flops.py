"""The floating-point operations of the matrix products in a function that JAX has traced.

They are counted as `tfnlp.training.flops` counts those of a TensorFlow graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def matmul_flops(jaxpr: Any) -> float | None:
    """Return the operations in the matrix products and convolutions of a jaxpr, on all devices.

    A multiply-add counts as two. The body of a loop counts for each pass, of several branches the
    one with the most operations, of several forms for different platforms the one for this.

    Args:
        jaxpr: a `jax.core.Jaxpr` or `ClosedJaxpr`.

    Returns:
        None, if a loop whose passes are not known has matrix products.
    """
    counts = [_operations(equation) for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns]
    return None if None in counts else sum(counts)


def _operations(equation: Any) -> float | None:
    kind, parameters = equation.primitive.name, equation.params
    if kind == "dot_general":
        ((contracted, _), _), left = parameters["dimension_numbers"], equation.invars[0].aval
        shared = math.prod(left.shape[axis] for axis in contracted)
        return 2.0 * math.prod(equation.outvars[0].aval.shape) * shared
    if kind == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        features = kernel[parameters["dimension_numbers"].rhs_spec[0]]
        return 2.0 * math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) / features
    if kind == "cond":
        branches = [matmul_flops(branch) for branch in _possible(parameters)]
        return None if None in branches else max(branches)
    inner = [matmul_flops(x) for x in parameters.values() if hasattr(x, "eqns") or _closed(x)]
    if None in inner:
        return None
    if kind == "while":
        return None if sum(inner) else 0.0
    if kind == "shard_map":
        return parameters["mesh"].size * sum(inner)
    return parameters.get("length", 1) * sum(inner) if kind == "scan" else sum(inner)


def _possible(parameters: dict[str, Any]) -> Sequence[Any]:
    """Return the branches of a condition that this process may run."""
    branches, platforms = parameters["branches"], parameters.get("branches_platforms")
    if platforms is None:
        return branches
    import jax

    here = jax.default_backend()
    own = [b for b, names in zip(branches, platforms, strict=True) if names and here in names]
    return own or [b for b, names in zip(branches, platforms, strict=True) if names is None]


def _closed(value: Any) -> bool:
    return hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns")

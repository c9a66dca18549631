"""Figures of a plan from the compiler's result, as a dict and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfnlp.plan.chips import GIB, Topology
from tfnlp.plan.compiler import Compiled

if TYPE_CHECKING:
    from tfnlp.plan.steps import PlannedStep


def figures(
    name: str,
    length: int,
    batch: int,
    step: PlannedStep,
    compiled: Compiled,
    topology: Topology,
) -> dict[str, Any]:
    """Return all figures of one step, numbers and strings, ready for JSON.

    Args:
        name: of the model.
        length: tokens or words per row.
        batch: rows per device.
        step: the `PlannedStep`.
        compiled: the `Compiled`.
        topology: the `Topology`.
    """
    chip, count = topology.chip, topology.devices
    result = {
        "model": name,
        "length": length,
        "topology": str(topology),
        "replicas": count,
        "batch_per_replica": batch,
        "global_batch": batch * count,
        "parameters": step.parameters,
        "expected_argument_bytes": step.argument_bytes,
        "verdict": "fits" if compiled.fits else "out of memory",
        "hbm_needed": compiled.total,
        "hbm_usable": chip.usable,
        "all_reduce_bytes": int(2 * step.gradient_bytes * (count - 1) / count),
    }
    if compiled.memory is None:
        return result
    intensity = compiled.flops / compiled.hbm_bytes
    compute, memory = compiled.flops / chip.flops, compiled.hbm_bytes / chip.bandwidth
    return {
        **result,
        "memory": compiled.memory,
        "flops": compiled.flops,
        "matrix_flops": compiled.matrix_flops,
        "hbm_bytes": compiled.hbm_bytes,
        "cycles": compiled.cycles,
        "compiler_analysis": compiled.analysis,
        "flops_per_byte": intensity,
        "ridge": chip.ridge,
        "bound_by": "compute" if intensity >= chip.ridge else "memory",
        "floor_seconds": max(compute, memory),
    }


def table(result: Mapping[str, Any]) -> str:
    """Return `figures` as a table to print."""
    rows = [
        ("model", f"{result['model']}, {result['parameters'] / 1e6:.2f} M weights"),
        (
            "batch",
            f"{result['global_batch']} x {result['length']} on {result['topology']}: "
            f"{result['batch_per_replica']} on each of {result['replicas']} replicas",
        ),
    ]
    needed, usable = _gib(result["hbm_needed"]), _gib(result["hbm_usable"])
    if result["verdict"] == "fits":
        rows.append(("verdict", f"fits: {needed} of {usable}"))
    else:
        needed = needed if "memory" in result else f"at least {needed}"
        rows.append(("verdict", f"OUT OF MEMORY: {needed}, available are {usable}"))
    if "memory" in result:
        rows += _work(result)
    rows.append(
        (
            "all-reduce",
            f"{result['all_reduce_bytes'] / 1e6:,.0f} MB to and from each replica for the "
            "gradients (an estimate: one replica is compiled)",
        )
    )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _work(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    m = result["memory"]
    kinds = (
        ("weights, slots, batch", m["argument"]),
        ("results, beside those in place", m["output"] - m["alias"]),
        ("temporaries", m["temp"]),
        ("program", m["generated_code"]),
    )
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in kinds if size >= GIB / 1000)
    intensity, ridge = result["flops_per_byte"], result["ridge"]
    return [
        ("HBM", parts),
        ("a step", f"{_short(result['flops'])}FLOP, {_short(result['hbm_bytes'])}B through HBM"),
        (
            "bound by",
            f"{result['bound_by']}: {intensity:,.0f} FLOP/byte, the chip's ridge is at "
            f"{ridge:,.0f}",
        ),
        ("at least", f"{1e3 * result['floor_seconds']:,.2f} ms a step"),
    ]


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"


def _short(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:,.2f} {unit}"
    return f"{number:,.0f} "

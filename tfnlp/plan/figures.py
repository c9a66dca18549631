"""Figures of a plan from the compiler's result, as a dict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfnlp.plan.chips import Topology
from tfnlp.plan.compiler import Compiled
from tfnlp.plan.presets import Preset


def figures(
    preset: Preset, parameters: int, compiled: Compiled, topology: Topology, engine: str
) -> dict[str, Any]:
    """Return all figures of one step of an engine, which trains so many weights, ready for JSON."""
    chip, count = topology.chip, topology.devices
    result = {
        "model": preset.name,
        "engine": engine,
        "length": preset.length,
        "topology": str(topology),
        "chips": topology.chips,
        "replicas": count,
        "batch_per_replica": preset.rows,
        "global_batch": preset.rows * count,
        "accumulation": preset.accumulation,
        "remat": preset.remat,
        "lora": preset.lora,
        "parameters": parameters,
        "verdict": "fits" if compiled.fits else "out of memory",
        "hbm_needed": compiled.total,
        "hbm_usable": chip.usable,
        # A ring; gradients are float32.
        "all_reduce_bytes": int(2 * 4 * parameters * (count - 1) / count),
    }
    if compiled.memory is None:
        return result
    intensity = compiled.flops / compiled.hbm_bytes
    compute, memory = compiled.flops / chip.flops, compiled.hbm_bytes / chip.bandwidth
    floor = max(compute, memory)
    return {
        **result,
        "memory": compiled.memory,
        "flops": compiled.flops,
        "hbm_bytes": compiled.hbm_bytes,
        "flops_per_byte": intensity,
        "ridge": chip.ridge,
        "bound_by": "compute" if intensity >= chip.ridge else "memory",
        "floor_seconds": floor,
        # The compiler has no estimate for some operations: their sum may be below the bound.
        "expected_seconds": max(floor, compiled.cycles / chip.clock),
    }


def run_hours(
    result: Mapping[str, Any], steps: int | None, tokens: int | None
) -> dict[str, float] | None:
    """Return the length of a run in steps, hours and chip-hours; None if neither is given.

    `result` are the figures of its step; `tokens` are those of all rows, padding included. Hours
    are expected ones and, with `floor_`, lower bounds.
    """
    if steps is None and tokens is None:
        return None
    a_step = result["global_batch"] * result["length"]
    count = steps or math.ceil(tokens / a_step)
    hours, floor = (count * result[k] / 3600 for k in ("expected_seconds", "floor_seconds"))
    return {
        "steps": count,
        "tokens": count * a_step,
        "hours": hours,
        "chip_hours": hours * result["chips"],
        "floor_hours": floor,
        "floor_chip_hours": floor * result["chips"],
    }

"""Plans of one batch and of the largest batch that fits."""

import sys
import time
from typing import Any

from tfnlp.plan.chips import Topology, parse_topology
from tfnlp.plan.config import PlanConfig
from tfnlp.plan.presets import Preset


def make_plan(config: PlanConfig) -> dict[str, Any]:
    """Compile the batch that a config asks for, or search for the largest that fits.

    Returns:
        the figures of that batch, with "compiled", those of all batches that were compiled, and
        "largest", the largest batch a replica that fits (0: none), where it was searched for.

    Raises:
        ValueError: for what can't be planned.
    """
    topology = parse_topology(config.topology)
    preset = _checked(config, topology)
    plans: dict[int, dict[str, Any]] = {}

    def plan(batch: int) -> dict[str, Any]:
        plans[batch] = _compile(config, preset, topology, batch)
        return plans[batch]

    shown, found = None, {}
    if config.batch is not None:
        shown = plan(config.batch // topology.devices)
    if config.search or shown is None:
        largest = _search(config, preset, topology, plan)
        if largest:
            shown = plans[largest]
        found = {"largest": largest}
    shown = shown or plans[min(plans)]
    return {**shown, "compiled": [plans[b] for b in sorted(plans)], **found}


def _checked(config: PlanConfig, topology: Topology) -> Preset:
    """Return the `Preset`, checked before anything is built."""
    parts = topology.devices * config.accumulation
    if config.batch is not None and config.batch % parts:
        raise ValueError(
            f"`batch` {config.batch} does not divide by the {topology.devices} replicas of "
            f"{topology} x `accumulation` {config.accumulation}; give a multiple of {parts}"
        )
    return Preset(
        config.model,
        config.length,
        config.vocab_size,
        config.predictions,
        config.samples,
        dropout=config.dropout,
        bf16=not config.float32,
        optimizer=config.optimizer,
        accumulation=config.accumulation,
    )


def _compile(config: PlanConfig, preset: Preset, topology: Topology, batch: int) -> dict[str, Any]:
    """Return the figures of `batch` rows on each replica."""
    from tfnlp.plan.compiler import compile_for
    from tfnlp.plan.figures import figures
    from tfnlp.plan.lowering import lower, refused

    start = time.time()
    what = f"{preset.name}, {batch} x {preset.length} on one replica of {topology}"
    print(f"compiling {what}: this takes minutes", file=sys.stderr, flush=True)
    step = preset.step(batch)
    compiled = compile_for(
        topology.chip,
        lower(step),
        cache=config.cache,
        time_limit=config.time_limit,
        keep=config.hlo,
    )
    if compiled.refusal is not None:
        raise refused(compiled.refusal, step.model)
    result = figures(preset.name, preset.length, batch, step, compiled, topology)
    size = f"{compiled.total / 2**30:.2f} GiB"
    verdict = f"fits with {size}" if compiled.fits else f"does not fit, needs {size}"
    print(f"{what}: {verdict} ({time.time() - start:.0f} s)", file=sys.stderr, flush=True)
    return result


def _search(config: PlanConfig, preset: Preset, topology: Topology, plan: Any) -> int:
    """Return the largest batch a replica that fits, a multiple of the micro-batches, or 0."""
    from tfnlp.plan.search import largest_batch, power_of_two

    fixed = sum(preset.step(config.accumulation).argument_bytes.values())
    usable = topology.chip.usable
    guess = power_of_two(config.guess or preset.guess(usable, fixed))

    def needed(batch: int) -> tuple[bool, int]:
        result = plan(batch * config.accumulation)
        return result["verdict"] == "fits", result["hbm_needed"]

    return largest_batch(needed, guess, fixed, usable) * config.accumulation

"""A plan: the figures of one batch, of the largest that fits, or of one that is cut to fit."""

from __future__ import annotations

import bisect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfnlp.plan.chips import GIB, Topology, parse_topology
from tfnlp.plan.compiler import Compiled, compile_for
from tfnlp.plan.lowering import lower_jax, lower_tensorflow
from tfnlp.plan.presets import Preset
from tfnlp.settings.plan import ENGINES, PlanSettings
from tfnlp.settings.training import REMAT

_FIRST = 32  # rows with which a search begins
_WEIGHT_BYTES = 12  # a weight and two slots, in float32
Figures = dict[str, Any]
Key = tuple[int, int, str]  # rows a replica, micro-batches, what is computed again
POWERS = [2**n for n in range(21)]  # rows that are tried


def make_plan(config: PlanSettings) -> dict[str, Any]:
    """Compile the batch that a config asks for, or search for the largest that fits.

    Returns:
        the figures of that batch, with "compiled", those of all batches that were compiled;
        "proposal", those of a step that fits and has the global batch that was asked for, or None;
        and "largest", the largest batch a replica that fits (0: none), where it was searched for.
        For the engine "both" a dict of "engines", such a plan by the engine's name, and "compared",
        the figures of the largest batch that both propose, or None.
    """
    if config.engine != "both":
        return _Planner(config, config.engine).plan()
    planners = [_Planner(config, engine) for engine in ENGINES]
    plans = {planner.engine: planner.plan() for planner in planners}
    proposals = [plan["proposal"] for plan in plans.values()]
    compared = None
    if None not in proposals:
        same = min((p["batch_per_replica"] / p["accumulation"], _key(p)) for p in proposals)[1]
        compared = {planner.engine: planner.figures(*same) for planner in planners}
    return {"engines": plans, "compared": compared}


class _Planner:
    def __init__(self, config: PlanSettings, engine: str) -> None:
        self.config, self.engine = config, engine
        self.topology = parse_topology(config.topology)
        self.known: dict[Key, Figures] = {}
        self.modes = REMAT if config.remat is None else (config.remat,)  # in order of work
        parts = self.topology.devices * config.accumulation
        if config.batch is not None and config.batch % parts:
            raise ValueError(
                f"`batch` {config.batch} does not divide by the {self.topology.devices} replicas "
                f"of {self.topology} x `accumulation` {config.accumulation}; give a multiple of "
                f"{parts}"
            )
        self._preset(1, config.accumulation, self.modes[0])  # raises for what does not fit

    def plan(self) -> dict[str, Any]:
        """Return what `make_plan` does."""
        config, shown, found = self.config, None, {}
        asked = None
        if config.batch is not None:
            rows = config.batch // self.topology.devices
            asked = shown = self.figures(rows, config.accumulation, self.modes[0])
        if config.search or shown is None:
            for remat in self.modes:  # with less memory where not even one row fits
                largest = self._search(remat)
                if largest:
                    shown = self.known[largest, config.accumulation, remat]
                    break
            found = {"largest": largest}
        shown = shown or self.known[min(self.known)]
        proposal = self._proposal(asked or shown)
        compiled = [self.known[key] for key in sorted(self.known)]
        return {**shown, "compiled": compiled, "proposal": proposal, **found}

    def _preset(self, rows: int, accumulation: int, remat: str) -> Preset:
        config = self.config
        same = ("length", "vocab_size", "predictions", "samples", "dropout", "optimizer", "lora")
        return Preset(
            name=config.model,
            rows=rows,
            dtype="float32" if config.float32 else "mixed_bfloat16",
            accumulation=accumulation,
            remat=remat,
            **{name: getattr(config, name) for name in same},
        )

    def figures(self, *key: Any) -> Figures:
        """Return the figures of a `Key`."""
        if key not in self.known:
            self.known[key] = self._compile(*key)
        return self.known[key]

    def _compile(self, rows: int, accumulation: int, remat: str) -> Figures:
        config, topology = self.config, self.topology
        preset = self._preset(rows, accumulation, remat)
        start = time.time()
        parts = f" in {accumulation} micro-batches" if accumulation > 1 else ""
        what = (
            f"{preset.name}, {rows} x {preset.length}{parts} on one replica of {topology}, "
            f"{self.engine}" + (f", remat {remat}" if remat != "none" else "")
        )
        print(f"compiling {what}: this takes minutes", file=sys.stderr, flush=True)
        in_jax = self.engine == "jax"
        if in_jax:
            step = lower_jax(preset, topology, config.shard_optimizer, config.time_limit)
        else:
            step = lower_tensorflow(preset)
        compiled = compile_for(
            topology.chip,
            step.text,
            topology=topology if in_jax else None,
            cache=config.cache,
            time_limit=config.time_limit,
            keep=config.hlo,
        )
        if compiled.refusal is not None:
            message = " ".join(compiled.refusal.split())
            raise ValueError(f"the TPU's compiler refuses the training step: {message:.300}")
        result = step_figures(preset, step.parameters, compiled, topology, self.engine)
        size = f"{compiled.total / GIB:.2f} GiB"
        verdict = f"fits with {size}" if compiled.fits else f"does not fit, needs {size}"
        print(f"{what}: {verdict} ({time.time() - start:.0f} s)", file=sys.stderr, flush=True)
        return result

    def _search(self, remat: str) -> int:
        """Return the largest batch a replica that fits, a multiple of the micro-batches, or 0."""
        accumulation = self.config.accumulation

        def figures_of(batch: int) -> Figures:
            return self.figures(batch * accumulation, accumulation, remat)

        guess = max(n for n in POWERS if n <= (self.config.guess or _FIRST))
        fixed = _WEIGHT_BYTES * figures_of(guess)["parameters"]
        usable = self.topology.chip.usable
        found = largest_fitting(lambda n: _memory(figures_of(n)), POWERS, guess, fixed, usable)
        return found * accumulation

    def _proposal(self, asked: Figures) -> Figures | None:
        """Return the figures of a step with the rows of `asked` that fits, or None.

        Where `asked` itself does not fit, it is that of the fewest micro-batches. If none fits,
        activations are computed again.
        """
        if _memory(asked)[0]:
            return asked
        for remat in self.modes[self.modes.index(asked["remat"]) :]:
            found = self._cut(asked, remat)
            if found is not None:
                return found
        return None

    def _cut(self, asked: Figures, remat: str) -> Figures | None:
        """Return the figures of the fewest micro-batches that fit, for the rows of `asked`."""
        rows, usable = asked["batch_per_replica"], asked["hbm_usable"]
        most = rows // asked["accumulation"]  # rows of a micro-batch
        tried = remat == asked["remat"]
        sizes = [n for n in range(1, most if tried else most + 1) if rows % n == 0]
        # The sums over the micro-batches are as large as the gradients.
        fixed = (_WEIGHT_BYTES + 4) * asked["parameters"]

        def needed(part: int) -> tuple[bool, int]:
            return _memory(self.figures(rows, rows // part, remat))

        guess = predicted({most: asked["hbm_needed"]}, fixed, usable)
        part = largest_fitting(needed, sizes, guess, fixed, usable)
        return self.known[rows, rows // part, remat] if part else None


def _key(result: Figures) -> Key:
    return result["batch_per_replica"], result["accumulation"], result["remat"]


def _memory(result: Figures) -> tuple[bool, int]:
    return result["verdict"] == "fits", result["hbm_needed"]


def step_figures(
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


def largest_fitting(
    needed: Callable[[int], tuple[bool, int]],
    sizes: Sequence[int],
    guess: float,
    fixed: float,
    usable: float,
) -> int:
    """Return the largest of `sizes` that fits according to `needed`, or 0.

    The memory of a step is nearly linear in the batch, so every result, also that of a batch which
    does not fit, improves the guess. At the end one batch was compiled and fits, and the next
    larger one was compiled and does not. The first is near `guess`; `fixed` are about the bytes
    that do not depend on the batch, `usable` about those that are available.
    """
    known = {}
    low, high = -1, len(sizes)  # places in `sizes`: fits, does not
    place = bisect.bisect_right(sizes, guess) - 1
    while high - low > 1:
        place = min(max(place, low + 1), high - 1)
        fits, known[sizes[place]] = needed(sizes[place])
        if fits:
            low = place
        else:
            high = place
        place = bisect.bisect_right(sizes, predicted(known, fixed, usable)) - 1
    return sizes[low] if low >= 0 else 0


def predicted(known: Mapping[int, int], fixed: float, usable: float) -> float:
    """Return the batch that should fill the memory, by the line through two known sizes.

    `known` has batches and the bytes that they need, at least one.
    """
    (batch, size), *others = sorted(known.items(), key=lambda item: abs(item[1] - usable))
    slope = (size - fixed) / batch
    if others and others[0][1] != size:
        slope = (size - others[0][1]) / (batch - others[0][0])
    if slope <= 0:
        return POWERS[-1] if size < usable else 1
    return batch + (usable - size) / slope

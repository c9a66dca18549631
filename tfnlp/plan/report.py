"""What `tfnlp plan` prints: a table for a step, the options of a run, and the better engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfnlp.families import FAMILIES
from tfnlp.plan.chips import GIB
from tfnlp.settings.plan import MODELS, PlanSettings

Figures = Mapping[str, Any]
_STEP = ("batch_per_replica", "accumulation", "remat")  # what tells two steps apart


def report(config: PlanSettings, result: Figures) -> str:
    """Return the text for what `make_plan` returned."""
    if "engines" not in result:
        return _plan(config, result)
    plans = [_plan(config, plan) for plan in result["engines"].values()]
    return "\n\n".join([*plans, "\n".join(comparison(result))])


def comparison(result: Figures) -> list[str]:
    """Return lines that say which of two engines needs less memory and less time."""
    plans, pair = result["engines"].values(), result["compared"]
    lines = []
    if pair is None:
        lines.append("there is no batch that fits with both engines")
    else:
        pair = list(pair.values())
        how = [f"with {pair[0]['batch_per_replica']} rows a replica", *_how(pair[0])]
        lines += [
            f"{', '.join(how)}:",
            "  memory: " + _less(pair, "hbm_needed", _gib),
            "  expected time: " + _less(pair, "expected_seconds", _milliseconds),
        ]
        if pair[0]["replicas"] > 1:
            lines.append(
                "  (jax with the sum of the gradients over the replicas, tensorflow without)"
            )
    if all("largest" in p for p in plans):
        found = " and ".join(f"{p['engine']} {p['largest']}" for p in plans)
        lines.append(f"largest batch a replica that fits: {found}")
    return lines


def _how(result: Figures) -> Iterator[str]:
    if result["accumulation"] > 1:
        yield f"in {result['accumulation']} micro-batches"
    if result["remat"] != "none":
        yield f"with remat {result['remat']}"


def _less(pair: list[Figures], name: str, text: Callable[[float], str]) -> str:
    less, more = sorted(pair, key=lambda r: r[name])
    if less[name] == more[name]:
        return f"equal, {text(less[name])}"
    share = 100 * (1 - less[name] / more[name])
    return (
        f"{less['engine']} needs {'hardly ' if share < 1 else ''}less, {text(less[name])}; "
        f"{more['engine']} {text(more[name])} ({share:.1f} % less)"
    )


def _plan(config: PlanSettings, result: Figures) -> str:
    lines = []
    if "largest" in result:
        largest = result["largest"]
        lines.append(
            f"largest batch that fits: {largest} a replica, {largest * result['replicas']} in all"
            if largest
            else "not even one row a replica fits"
        )
    lines.append(table(config, result))
    proposal = result["proposal"]
    if proposal is None:
        if config.batch is not None:
            remat = "" if config.remat is None else f" with remat {config.remat}"
            lines.append(
                f"no number of micro-batches makes this batch fit{remat}; give it more chips, or "
                "plan a shorter length"
            )
        return "\n".join(lines)
    if any(proposal[name] != result[name] for name in _STEP):
        what = ", ".join(["the batch asked for", *_how(proposal)])
        lines += ["", f"{what}:", table(config, proposal)]
    if config.lora is None:
        lines.append(f"to run it: {pretrain_command(config, proposal)}")
    else:
        lines.append(f"to train so: tfnlp finetune TASK --lora {config.lora}")
    return "\n".join(lines)


def pretrain_command(config: PlanSettings, result: Figures) -> str:
    """Return the command line that trains with the step of a plan, text and output left out."""
    name, size = MODELS[config.model]
    values = {key: getattr(config, key) for key in ("predictions", "samples")}
    values["length"] = result["length"]
    run = run_hours(result, config.steps, config.tokens)
    options = {
        "--engine": result["engine"],
        "--strategy": "tpu",
        "--size": size,
        **{flag: values[key] for key, flag in FAMILIES[name].plan_flags.items()},
        "--batch-size": result["global_batch"],
        "--accumulation": result["accumulation"] if result["accumulation"] > 1 else None,
        "--remat": result["remat"] if result["remat"] != "none" else None,
        "--optimizer": config.optimizer,
        "--dropout": config.dropout if "dropout" in config.given else None,
        "--steps": None if run is None else run["steps"],
    }
    words = ["tfnlp pretrain", name]
    words += [f"{flag} {value}" for flag, value in options.items() if value is not None]
    words += [] if config.float32 else ["--bf16"]
    words += ["--shard-optimizer"] if config.shard_optimizer else []
    return " ".join(words)


def table(config: PlanSettings, result: Figures) -> str:
    """Return the figures of one step as a table."""
    parts = result["accumulation"]
    trained = "weights" if result["lora"] is None else f"trained weights of rank {result['lora']}"
    rows = [
        ("model", f"{result['model']}, {result['parameters'] / 1e6:.2f} M {trained}"),
        ("engine", result["engine"]),
        (
            "batch",
            f"{result['global_batch']} x {result['length']} on {result['topology']}: "
            f"{result['batch_per_replica']} on each of {result['replicas']} replicas"
            + (f", in {parts} micro-batches" if parts > 1 else ""),
        ),
    ]
    if result["remat"] != "none":
        rows.append(("remat", result["remat"]))
    needed, usable = _gib(result["hbm_needed"]), _gib(result["hbm_usable"])
    if result["verdict"] == "fits":
        rows.append(("verdict", f"fits: {needed} of {usable}"))
    else:
        needed = needed if "memory" in result else f"at least {needed}"
        rows.append(("verdict", f"OUT OF MEMORY: {needed}, available are {usable}"))
    if "memory" in result:
        rows += _work(result)
        run = run_hours(result, config.steps, config.tokens)
        if run is not None:
            rows.append(
                (
                    "the run",
                    f"{run['steps']:,} steps, {run['tokens']:,} tokens: expected "
                    f"{run['hours']:,.2f} hours, {run['chip_hours']:,.2f} chip-hours; at least "
                    f"{run['floor_hours']:,.2f} and {run['floor_chip_hours']:,.2f}",
                )
            )
    if result["replicas"] > 1:
        in_it = result["engine"] == "jax"
        compiled = "the sum is in the compiled program" if in_it else "one replica is compiled"
        rows.append(
            (
                "all-reduce",
                f"{result['all_reduce_bytes'] / 1e6:,.0f} MB to and from each replica for the "
                f"gradients (an estimate: {compiled})",
            )
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


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


def _work(result: Figures) -> Iterator[tuple[str, str]]:
    m = result["memory"]
    kinds = (
        ("weights, slots, batch", m["argument"]),
        ("results, beside those in place", m["output"] - m["alias"]),
        ("temporaries", m["temp"]),
        ("program", m["generated_code"]),
    )
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in kinds if size >= GIB / 1000)
    intensity, ridge = result["flops_per_byte"], result["ridge"]
    yield "HBM", parts
    yield "a step", f"{_short(result['flops'])}FLOP, {_short(result['hbm_bytes'])}B through HBM"
    yield (
        "bound by",
        f"{result['bound_by']}: {intensity:,.0f} FLOP/byte, the chip's ridge is at {ridge:,.0f}",
    )
    for name, key in (("at least", "floor_seconds"), ("expected", "expected_seconds")):
        seconds = result[key]
        most = "at most " if key == "floor_seconds" else ""
        tokens = result["global_batch"] * result["length"] / seconds
        yield (
            name,
            f"{_milliseconds(seconds)} a step: {most}{1 / seconds:,.2f} steps/s, "
            f"{tokens:,.0f} tokens/s",
        )


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:.2f} MiB"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f} ms"


def _short(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:,.2f} {unit}"
    return f"{number:,.0f} "

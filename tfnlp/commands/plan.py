"""Compile a training step for a TPU, without one: its memory, its work, the batch that fits."""

import json
import sys
import time

from tfnlp.plan.chips import parse_topology
from tfnlp.plan.compiler import CACHE
from tfnlp.plan.presets import MODELS


def add_arguments(plan):
    """Arguments of `tfnlp plan`."""
    plan.add_argument(
        "--model",
        required=True,
        choices=list(MODELS),
        metavar="MODEL",
        help=f"published size: {', '.join(MODELS)}",
    )
    plan.add_argument("--topology", default="v5e:2x4", help="CHIP:SHAPE; v2, v3, v4, v5e, v5p, v6e")
    plan.add_argument("--batch", type=int, help="rows of the global batch (default: --search)")
    plan.add_argument("--search", action="store_true", help="find the largest that fits")
    plan.add_argument("--guess", type=int, help="rows a chip with which a search begins")
    plan.add_argument("--length", type=int, help="tokens or words a row (default: the paper's)")
    plan.add_argument("--vocab-size", type=int, help="instead of the published")
    plan.add_argument("--predictions", type=int, help="BERT: masked tokens a row (default 15 %%)")
    plan.add_argument("--samples", type=int, help="ELMo: sampled words (default 8192); 0: all")
    plan.add_argument("--dropout", type=float, default=0.1, help="rate")
    plan.add_argument("--float32", action="store_true", help="no bfloat16")
    plan.add_argument(
        "--optimizer", choices=["adamw", "lamb", "adagrad"], help="instead of the recipe's"
    )
    plan.add_argument("--accumulation", type=int, default=1, help="micro-batches an update")
    plan.add_argument("--time-limit", type=float, default=3600, help="seconds a compilation")
    plan.add_argument("--cache", default=CACHE, metavar="DIR", help="earlier answers")
    plan.add_argument("--json", metavar="FILE", help="write all figures there")
    plan.add_argument("--hlo", metavar="FILE", help="write the compiled program there, as text")


def run(args):
    """Prints a table for the batch that was asked for, or for the largest that fits."""
    from tfnlp.plan.figures import table

    topology = parse_topology(args.topology)
    preset = _checked(args, topology)
    plans = {}

    def plan(batch):
        plans[batch] = _plan(args, preset, topology, batch)
        return plans[batch]

    shown = None
    if args.batch is not None:
        shown = plan(args.batch // topology.devices)
    if args.search or shown is None:
        largest = _search(args, preset, topology, plan)
        if largest:
            shown = plans[largest]
        print(
            f"largest batch that fits: {largest} a replica, {largest * topology.devices} in all"
            if largest
            else "not even one row a replica fits"
        )
    shown = shown or plans[min(plans)]
    print(table(shown))
    if args.json:
        result = {**shown, "compiled": [plans[b] for b in sorted(plans)]}
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)


def _checked(args, topology):
    """The `Preset`; raises ValueError for what can't be planned, before anything is built."""
    from tfnlp.plan.presets import Preset

    for name in ("batch", "guess", "length", "vocab_size", "predictions", "accumulation"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least 1")
    if args.samples is not None and args.samples < 0:
        raise ValueError(f"--samples {args.samples} must be 0 (all words) or more")
    if not 0 <= args.dropout < 1:
        raise ValueError(f"--dropout {args.dropout} must be at least 0 and below 1")
    if args.time_limit <= 0:
        raise ValueError(f"--time-limit {args.time_limit:g} must be above 0")
    parts = topology.devices * args.accumulation
    if args.batch is not None and args.batch % parts:
        raise ValueError(
            f"--batch {args.batch} does not divide by the {topology.devices} replicas of "
            f"{topology} x --accumulation {args.accumulation}; give a multiple of {parts}"
        )
    return Preset(
        args.model,
        args.length,
        args.vocab_size,
        args.predictions,
        args.samples,
        dropout=args.dropout,
        bf16=not args.float32,
        optimizer=args.optimizer,
        accumulation=args.accumulation,
    )


def _plan(args, preset, topology, batch):
    """The figures of `batch` rows on each replica."""
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
        cache=args.cache,
        time_limit=args.time_limit,
        keep=args.hlo,
    )
    if compiled.refusal is not None:
        raise refused(compiled.refusal, step.model)
    result = figures(preset.name, preset.length, batch, step, compiled, topology)
    size = f"{compiled.total / 2**30:.2f} GiB"
    verdict = f"fits with {size}" if compiled.fits else f"does not fit, needs {size}"
    print(f"{what}: {verdict} ({time.time() - start:.0f} s)", file=sys.stderr, flush=True)
    return result


def _search(args, preset, topology, plan):
    """The largest batch a replica that fits, a multiple of the micro-batches, or 0."""
    from tfnlp.plan.search import largest_batch, power_of_two

    fixed = sum(preset.step(args.accumulation).argument_bytes.values())
    usable = topology.chip.usable
    guess = power_of_two(args.guess or preset.guess(usable, fixed))

    def needed(batch):
        result = plan(batch * args.accumulation)
        return result["verdict"] == "fits", result["hbm_needed"]

    return largest_batch(needed, guess, fixed, usable) * args.accumulation

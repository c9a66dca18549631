"""What labelled examples are, and what looks wrong with them, before anything is trained."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.runs.backbone import load_backbone
from tfnlp.runs.finetune_examples import left_out, limited, listed, read_rows, say, shown_source
from tfnlp.settings.options import one_of
from tfnlp.settings.tables import TASKS as SETTINGS
from tfnlp.settings.use import CheckSettings
from tfnlp.tasks import TASKS, HeadTask, Task
from tfnlp.tasks.sequences import encode_examples
from tfnlp.text.lines import shortened

_READERS = {name: task for name, task in TASKS.items() if hasattr(task, "form")}
_SHOWN = 3  # examples
_NAMES = 10  # classes
_LONGEST = 90  # characters of a line
_NOTHING = {"nan", "none", "null", "n/a", "na", "-", "."}
_AROUND = ('""', "''", "[]", "()", "{}")


@dataclasses.dataclass(frozen=True)
class Check:
    """What was found of labelled examples; printed it is a page of text.

    Attributes:
        lines: what was read.
        doubts: what looks wrong.
    """

    lines: list[str]
    doubts: list[str]

    def __str__(self) -> str:
        found = [f"looks wrong: {doubt}" for doubt in self.doubts]
        return "\n".join([*self.lines, *(found or ["nothing looks wrong"])])


def check_rows(config: CheckSettings) -> Check:
    """Return what labelled examples are; without a task, which tasks can read them.

    Rows that can't be read are counted.
    """
    if config.task is None:
        return Check(list(_of_every_task(config)), [])
    if config.task not in _READERS:
        raise ValueError(one_of("task", config.task, _READERS))
    task = TASKS[config.task]
    data, dev = read_rows(task.form, config.data, config, "data"), []
    source = shown_source(config.data)
    if config.dev is not None:
        config = config.replace(**data.labels_as)
        dev = limited(read_rows(task.form, config.dev, config, "dev").examples, config)
    lines = [
        f"{source}: {len(data.examples):,} examples of {task.name}",
        task.form.understood(data),
    ]
    if data.skipped:
        lines.append(left_out(data))
    reader = None
    if config.model is not None:
        backbone = load_backbone(config.model)
        reader = backbone.family.reader(backbone)
        if issubclass(task, HeadTask):
            length = {"max_length": config.max_length}
            asked = {"model": config.model, "train": config.data, "output": "checked"}
            settings = SETTINGS[config.task][0].make(**asked, **length)
            both = backbone.family.both_orders
            learnt = task.learnt_from(
                data.examples, settings, whole=True, both_orders=both, **length
            )
            cut = encode_examples(reader, learnt, data.examples).cut
            lines.append(f"{cut:,} of {len(data.examples):,} are longer than {learnt.limit}")
    lines += described(task, data.examples, reader, config.max_length)
    doubts = [*doubts_of(task, data.examples, dev), task.form.doubt(data.examples)]
    empty = sum(reason.endswith("is empty") for reason in data.skipped)
    if 10 * empty > len(data.examples) + len(data.skipped):
        doubts.append(f"{empty:,} rows have an empty text or label")
    return Check(list(filter(None, lines)), list(filter(None, doubts)))


def described(
    task: type[Task], examples: Sequence[Any], reader: Any = None, max_length: int = 128
) -> list[str]:
    """Return the classes of examples with their counts, and the first examples, as lines.

    With a `reader`, texts are what a model reads: the way back from their pieces.
    """
    counts = _counts(task, examples)
    lines = []
    if counts:
        named = [f"{shortened(name, 30)!r} {n:,}" for name, n in counts.most_common(_NAMES)]
        more = f" and {len(counts) - _NAMES:,} more" if len(counts) > _NAMES else ""
        lines.append(f"{len(counts):,} classes or tags: {', '.join(named)}{more}")
    for example in examples[:_SHOWN]:
        texts = _read_back(reader, task.texts_of(example), max_length)
        gold = getattr(example, task.form.label or "label")
        lines.append(f"  {shortened(' | '.join(texts), _LONGEST)}  -> {gold!r:.{_LONGEST}}")
    return lines


def say_read(
    task: type[Task],
    source: str,
    train: Sequence[Any],
    dev: Sequence[Any],
    reader: Any = None,
    max_length: int = 128,
) -> None:
    """Say on stderr what a training learns from, and what looks wrong with it."""
    for line in described(task, train, reader, max_length):
        print(line, file=sys.stderr)
    for doubt in doubts_of(task, train, dev):
        say(source, f"looks wrong: {doubt}")


def doubts_of(task: type[Task], train: Sequence[Any], dev: Sequence[Any]) -> list[str]:
    """Return what looks wrong with examples, a sentence each."""
    rows = [task.texts_of(example) for example in train]
    texts = list(itertools.chain.from_iterable(rows))
    counts, known, found = _counts(task, train), set(map(tuple, rows)), []

    def many(what: str, number: int, of: int, part: float, least: int = 1) -> None:
        if number >= max(least, part * of):
            found.append(f"{number:,} of {of:,} {what}")

    many(
        "texts hold __label__, a mark of fastText",
        sum("__label__" in x for x in texts),
        len(texts),
        0,
    )
    own = sum(_holds_own(row, task.classes_of(e)) for row, e in zip(rows, train, strict=True))
    many("texts begin or end with the name of their class", own, len(rows), 0.5, 4)
    seen = sum(tuple(task.texts_of(example)) in known for example in dev)
    many("examples to measure on have texts that are learnt from", seen, len(dev), 0)
    single = sorted(name for name, n in counts.items() if n == 1)
    if single:
        names = listed([*map(repr, single)])
        found.append(f"{len(single):,} classes or tags have one example: {names}")
    for number, column in enumerate(zip(*rows, strict=False), 1):
        digits = sum(text.isdecimal() for text in column)
        many(f"texts {number} are a number; are they the right column?", digits, len(rows), 0.9, 2)
    if _counts_up([getattr(example, task.form.label or "label") for example in train]):
        found.append("the labels count the rows; are they the right column?")
    wrapped = sum(x[:1] + x[-1:] in _AROUND or '""' in x or x[:2] in ("b'", 'b"') for x in texts)
    many("texts stand in quotation marks or brackets", wrapped, len(texts), 0.1, 2)
    names = [name for name in counts if name[:1] + name[-1:] in _AROUND or name[:1] in "\"'[("]
    if names:
        found.append(f"the class {names[0]!r} has quotation marks or brackets")
    empty = sum(text.lower() in _NOTHING for text in texts)
    many("texts say that there is none, as 'nan' does", empty, len(texts), 0.1)
    return found


def _counts(task: type[Task], examples: Sequence[Any]) -> collections.Counter:
    """Return how many examples have each class or tag."""
    return collections.Counter(name for e in examples for name in set(task.classes_of(e)))


def _holds_own(texts: Sequence[str], names: Collection[str]) -> bool:
    words = [word for text in texts for word in (text.split()[:1] + text.split()[-1:])]
    return any(name in words for name in names)


def _counts_up(labels: Sequence[Any]) -> bool:
    """Return whether labels are n, n + 1, n + 2, ..., ten or more."""
    try:
        numbers = list(map(float, labels))
    except (TypeError, ValueError):
        return False
    return len(numbers) >= 10 and all(b - a == 1 for a, b in itertools.pairwise(numbers))


def _read_back(reader: Any, texts: list[str], max_length: int) -> list[str]:
    tokenizer = getattr(reader, "tokenizer", None)
    if tokenizer is None or not texts:
        return texts
    (ids,), _, _ = reader.read([tf.constant(texts)])
    return [text.decode() for text in tokenizer.detokenize(ids[:, :max_length]).numpy()]


def _of_every_task(config: CheckSettings) -> Iterator[str]:
    """Yield a line for each task: how many examples it reads, or why it reads none."""
    source = shown_source(config.data)
    for name, task in _READERS.items():
        try:
            data = task.read(config.data, skip=True, name="data")
        except ValueError as error:
            yield f"{name:12s}no: {shortened(str(error), _LONGEST)}"
            continue
        out = f", {len(data.skipped):,} rows left out" if data.skipped else ""
        yield f"{name:12s}{len(data.examples):,} examples{out}  {task.form.understood(data)}"
    yield f"for more: tfnlp check {source} TASK"

"""A fine-tuned model: its measures, predictions and export."""

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from typing import Any

import keras

from tfnlp.cards import Card, shown_name
from tfnlp.data import TaskExample
from tfnlp.data.rows import files_of, held, is_text, rows_of
from tfnlp.families import FAMILIES
from tfnlp.families.fitting import adaptation_of
from tfnlp.files import write_lines
from tfnlp.formats import export
from tfnlp.published import push
from tfnlp.runs import task_folder
from tfnlp.runs.attention_maps import worst_attention
from tfnlp.runs.finetune_examples import (
    read_data,
    say,
    say_cut,
    say_labels,
    say_unmeasured,
    shown_source,
)
from tfnlp.runs.page import PAGE, of_rows, plotly, write_page
from tfnlp.settings.use import EvaluateTask, PredictTask
from tfnlp.tasks.baselines import plateau_of

_PART = 8192  # examples that are predicted at once


@contextlib.contextmanager
def _dtype_policy(name: str | None) -> Iterator[None]:
    """Build layers with a Keras dtype policy; None: the global one."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if name is None else name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


class TaskRun:
    """What fine-tuning left in a folder.

    Args:
        folder: Of a run of `tfnlp finetune`; of several runs in it the best is taken. Or of a
            fine-tuned checkpoint of Hugging Face.
        dtype: A Keras dtype policy, such as "mixed_bfloat16"; None: the global one.

    Attributes:
        folder: Of the run that was taken.
        task: "classify", "labels", "similarity", "scores", "choose", "answer", "tag", "roles"
            or "coref".
        labels: Names of the classes, labels or tags.
        results: The measures of training on the dev set: a dict with "metrics" and "metric", the
            measure that chose the checkpoint.
        history: Losses and measures of the training; None, like `results`, of a checkpoint.
        task_model: The `tfnlp.hub.TaskModel`.
        config: The run's `config.json`; of a checkpoint what is known of it.
    """

    title = "a fine-tuned model"
    prediction = PredictTask

    def __init__(self, folder: str | os.PathLike[str], dtype: str | None = None) -> None:
        self._dtype = dtype
        with _dtype_policy(dtype):
            found = task_folder.load_task(os.fspath(folder))
        self.task_model, self.config, self.history, self.results, self.folder = found
        self.path = os.fspath(folder)
        self.dev: Any = None  # the examples that the run was measured on, where they are known

    def __repr__(self) -> str:
        return f"TaskRun({self.path!r}, task={self.task!r})"

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.task_model.task.name

    @property
    def labels(self) -> list[str]:
        """Names of the classes or tags, in the order of the model's outputs."""
        return list(self.task_model.task.labels)

    def set_inputs(self, texts: int | None = None, choices: int | None = None) -> None:
        """Say how many texts or choices an example has, where a checkpoint does not.

        The first rows that are predicted or evaluated say it, too.

        Args:
            texts: 1 or 2, of "classify", "labels", "similarity" and "scores".
            choices: Of "choose".

        Raises:
            ValueError: for a model that says another number itself.
        """
        count = texts if choices is None else 1 + choices
        if count is None or count == self.task_model.task.count_of_texts:
            return
        if not self.config.get("open"):
            name, value = ("texts", texts) if choices is None else ("choices", choices)
            known = self.task_model.task.count_of_texts - (choices is not None)
            raise ValueError(f"`{name}` {value}: {self.path} reads {known}")
        self.suit_texts(count)

    def suit_texts(self, count: int) -> None:
        """Take the number of texts or choices from a row of texts, if it is not known."""
        task = self.task_model.task.suited_to(count)
        if self.config.get("open") and task != self.task_model.task:
            with _dtype_policy(self._dtype):
                self.task_model = task_folder.refitted(self.task_model, self.config, task)

    def read(self, source: Any, config: Any, name: str, labelled: bool = True) -> list[Any]:
        """Return the examples of what `tfnlp.finetune` takes as `train`, here as `name`.

        If they are not labelled, labels may be missing.
        """
        task, columns = self.task_model.task, self.with_columns(config)
        of_run = not (config.text_columns or config.label or config.label_columns)
        how = {"splitter": task.splitter, "of_run": of_run}
        data = read_data(task.form, source, columns, name, labelled, **how)
        examples = data.examples
        if examples and isinstance(examples[0], TaskExample):
            self.suit_texts(len(examples[0].segments) + len(examples[0].choices))
        return examples

    def predict(self, rows: Any, **settings: Any) -> Any:
        """Return a prediction for each row; of one text, a string, its prediction alone.

        A call of the object is the same: `task("so good")`, `task(["so good", "so bad"])`.

        Args:
            rows: A text; texts or tuples of texts (of pairs two, of "answer" a question and a
                document, of "choose" a text and its choices, of "roles" a text and its predicate);
                or what `tfnlp.finetune` takes as `train`, labels or not. Give files as
                `pathlib.Path`s. "tag" and "roles" split texts into words as in training: at
                spaces, or of texts with spans around marks, too. A list of words stays as it is.
            settings: `batch_size`, `text_columns`, `label`, `label_columns`, `separator`,
                `skip_bad_rows`.

        Returns:
            a list of dicts, of a string one dict: of "classify" `label` and `probabilities`, of
            "labels" `labels` and `probabilities`, of "similarity" `score`, of "scores" `scores` by
            name, of "choose" `choice` and `probabilities`, of "tag" and "roles" `tags`, of a text
            also its `words` and `spans`, lists of [start, end, type] in characters, of "answer"
            `answer` and `score`, of "coref" `clusters`, lists of [start, end] in characters (of a
            list of words in words), and `mentions`, their texts. Labels are numbers or bools if
            those of the training were.

        Raises:
            ValueError: for rows that the task can't read; names the row.
        """
        config = PredictTask.make(model=self, text=[], **settings)
        examples = self._examples(rows, config)
        source = shown_source(rows) if files_of(rows) else "rows"
        found = self.predictions(examples, config.batch_size, source, len(examples))
        found = list(map(self.task_model.task.returned, found))
        return found[0] if is_text(rows) else found

    __call__ = predict

    def predictions(
        self, examples: list[Any], batch_size: int, source: str, size: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield predictions for examples of a source, a part of `size` (8,192) at a time.

        Sequences are padded to lengths that fit their part, so that numbers may differ in their
        last digits. How many were cut is said on stderr.
        """
        cut, size = 0, size or _PART
        for first in range(0, len(examples), size):
            part = examples[first : first + size]
            (prepared,) = self.task_model.prepare([part])
            cut += prepared.encoded.cut
            yield from self.task_model.predict(part, batch_size, prepared)
        say_cut(source, self.task_model.task, cut, len(examples))

    def lines(self, config: PredictTask) -> Iterator[str]:
        """Yield what `tfnlp predict` prints: a line for each example, or where they are written."""
        config.check_texts()
        if config.input:
            if config.text:
                raise ValueError("give texts or `input`, not both")
            examples = self.read(config.input, config, "input", labelled=False)
            source = shown_source(config.input)
        else:
            if "text" in config.given:
                examples, source = self._of_arguments(config.text), "texts"
            else:  # each text is a line
                lines = [line.split("\t") for line in config.text]
                examples, source = self._of_texts(lines), "standard input"
        task = self.task_model.task
        predictions = self.predictions(examples, config.batch_size, source)
        pairs = zip(examples, predictions, strict=True)
        labelled = any(task.gold_of(example) not in (None, ()) for example in examples)
        rows = (f"{json.dumps(task.row(*pair, labelled), ensure_ascii=False)}\n" for pair in pairs)
        if config.output:
            write_lines(config.output, (row[:-1] for row in rows))
            yield f"{len(examples):,} predictions: {config.output}\n"
        elif config.json or config.input:
            yield from rows
        else:
            yield from (f"{task.shown(*pair)}\n" for pair in pairs)

    def _of_arguments(self, texts: list[str]) -> list[Any]:
        if self.task_model.task.sequences > 1:  # all texts are of one example
            self.suit_texts(len(texts))
        task = self.task_model.task
        count = task.count_of_texts
        if len(texts) % count:
            raise ValueError(
                f"got {len(texts)} texts; {task.name} takes {task.takes}, {count} for each example"
            )
        return task.examples_of([texts[i : i + count] for i in range(0, len(texts), count)])

    def _of_texts(self, rows: list[list[str]]) -> list[Any]:
        self.suit_texts(len(rows[0]))
        return self.task_model.task.examples_of(rows)

    def _examples(self, rows: Any, config: Any) -> list[Any]:
        rows = [rows] if is_text(rows) else held(rows)
        found = [] if files_of(rows) else [row for _, row in rows_of(rows, "rows")]
        if found and all(isinstance(row, str) for row in found):
            return self._of_texts([[row] for row in found])
        if found and isinstance(found[0], list) and all(isinstance(x, str) for x in found[0]):
            self.suit_texts(len(found[0]))
        task = self.task_model.task
        if found and all(_is_texts(task, row) for row in found):
            return task.examples_of(found)
        return self.read(rows, config, "rows", labelled=False)

    def with_columns(self, config: Any) -> Any:
        """Return a `ColumnSettings` with the columns that the run was trained with as defaults."""
        kept, changes = self.config["columns"], {}
        if not (config.label or config.label_columns):
            changes = {"label": kept["label"], "label_columns": kept.get("label_columns")}
        return config.replace(
            text_columns=config.text_columns or kept["text"],
            separator=config.separator or kept.get("separator"),
            **changes,
        )

    def evaluate(self, data: Any, **settings: Any) -> dict[str, float]:
        """Return the measures of the model on labelled examples.

        Args:
            data: What `tfnlp.finetune` takes as `train`.
            settings: `batch_size`, `text_columns`, `label`, `label_columns`, `separator`,
                `skip_bad_rows`, and `report`, a folder for `page.html` and `predictions.jsonl`.

        Returns:
            the field's measures of the task, floats by name.
        """
        return self.measured(EvaluateTask.make(data=data, **settings))

    def measured(self, config: EvaluateTask) -> dict[str, float]:
        """Return the measures; write the page if one is asked for."""
        if config.report is not None:
            plotly()
        examples = self.read(config.data, config, "data")
        task = self.task_model.task
        source = shown_source(config.data)
        say_labels(source, task, examples)
        predictions = self.predictions(examples, config.batch_size, source, len(examples))
        predictions = list(predictions)
        metrics = task.measures(examples, predictions)
        say_unmeasured(source, task, metrics)
        plateau = plateau_of(task, examples, predictions, metrics, task.main_measure)
        if plateau:
            say(source, plateau)
        if config.report is not None:
            self._write_page(config, examples, predictions, metrics)
        return metrics

    def _card(self) -> Card:
        task = self.task_model.task
        return task_folder.card_of_task(task, self.config, self.results, self.folder, self.path)

    def _write_page(
        self, config: Any, examples: list, predictions: list[dict], metrics: dict[str, float]
    ) -> None:
        """Write the page of other examples than those of the run, and all predictions."""
        task = self.task_model.task
        main = (self.results or {}).get("metric", task.main_measure)
        source = f"{shown_source(config.data)}, {len(examples):,} examples"
        rows = list(map(task.report_row, examples, predictions))
        attention = worst_attention(self.task_model, examples, rows)
        more = (task.baselines(task.golds(examples)), main, attention)
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        os.makedirs(config.report, exist_ok=True)
        write_lines(os.path.join(config.report, "predictions.jsonl"), lines)
        title = f"{shown_name(self.path)}: {task.name}, measured on {source}"
        sections = of_rows(task, rows, metrics, *more)
        path = os.path.join(config.report, PAGE)
        write_page(path, title, self._card(), settings=self.config, **sections)

    @property
    def family(self) -> Any:
        """Family of the model that was fine-tuned."""
        return FAMILIES[self.config["backbone"]["kind"]]

    @property
    def low_rank(self) -> dict[str, Any] | None:
        """Settings of the low-rank updates that were trained; None: there are none."""
        return adaptation_of(self.config).low_rank

    def with_adapters(self) -> "TaskRun":
        """Return this run with its low-rank updates apart from their matrices."""
        apart = copy.copy(self)
        with _dtype_policy(self._dtype):
            apart.task_model = task_folder.load_task(self.folder, merged=False)[0]
        return apart

    def dev_examples(self, count: int) -> list[dict[str, Any]]:
        """Return at most so many rows of the dev set, without labels: of each label first."""
        return task_folder.dev_examples(self.folder, count)

    def export(
        self,
        directory: str | os.PathLike[str],
        overwrite: bool = False,
        format: str | None = None,
        **settings: Any,
    ) -> dict[str, str]:
        """Write one SavedModel from strings to labels, scores, tags or answers.

        Args:
            directory: The folder to write.
            overwrite: Replace an earlier export.
            format: "huggingface" writes a folder that transformers reads instead, "peft" the
                low-rank updates alone, which PEFT reads; "onnx" and "litert" a graph of ids.
            settings: Those of `tfnlp export` for the format. Of a SavedModel `keep_adapters`:
                low-rank updates stay apart from their matrices, and they and the task's layers
                alone are trained; `examples`, how many rows of the dev set the module carries for
                `tfnlp serve`; `weights`, "bfloat16" or "int8": matrices are stored so, for
                inference alone; `litert`, `onnx`: where a graph of ids is written too, a file
                (`.tflite`, `.onnx`) or a folder with it, the vocabulary, the labels and an example
                of how to call it. Of "peft" `base`: name or path of the model that the updates
                belong to; None: that which was fine-tuned.

        Returns:
            `{"module": path}`, with the paths of `litert` and `onnx`; `{"checkpoint": path}` or
            `{"adapters": path}`.

        Raises:
            ValueError: for another format, a model that Hugging Face has no class for, or one that
                can't be such a graph.
            ImportError: for `onnx` without tf2onnx.
        """
        given = {"overwrite": overwrite, "format": format, **settings}
        return export(self, directory, given, self._card())

    def save(
        self, directory: str, format: str = "huggingface", overwrite: bool = False
    ) -> dict[str, str]:
        """Write the files of another library; see `export`."""
        return self.export(directory, overwrite, format)

    def push_to_hub(self, name: str, private: bool = False, **settings: Any) -> str:
        """Upload the files of Hugging Face to `hf://org/name`; see `Pretrained.push_to_hub`."""
        return push(self, name, private, settings)


def _is_texts(task: Any, row: Any) -> bool:
    return (
        isinstance(row, list)
        and len(row) == task.count_of_texts > 1  # a list alone may be words
        and all(isinstance(text, str) for text in row)
    )

"""A fine-tuned model: its measures, predictions, report and export."""

import copy
import os
from collections.abc import Iterator
from typing import Any

from tfnlp.cards import card_of_export
from tfnlp.data import TaskExample
from tfnlp.data.rows import files_of, held, is_text, rows_of
from tfnlp.families.adaptation import adaptation_of
from tfnlp.families.precision import dtype_policy
from tfnlp.in_tensorflow import in_tensorflow, is_elsewhere, models_of
from tfnlp.runs import task_folder
from tfnlp.runs.finetune_examples import read_data, say_cut, say_labels, shown_source
from tfnlp.runs.peft_export import export_adapters
from tfnlp.runs.task_card import card_of_task
from tfnlp.runs.task_checkpoint import refitted, save_checkpoint
from tfnlp.runs.task_export import check_tags_alone, export_task
from tfnlp.settings.use import EvaluateTask, PredictTask

_PART = 8192  # examples that are predicted at once


class TaskRun:
    """What fine-tuning left in a folder.

    Args:
        folder: Of a run of `tfnlp finetune`; of several runs in it the best is taken. Or of a
            fine-tuned checkpoint of Hugging Face.
        dtype: A Keras dtype policy, such as "mixed_bfloat16"; None: the global one.

    Attributes:
        folder: Of the run that was taken.
        task: "classify", "labels", "similarity", "choose", "answer", "tag" or "roles".
        labels: Names of the classes, labels or tags.
        results: The measures of training on the dev set: a dict with "metrics" and "metric", the
            measure that chose the checkpoint.
        history: Losses and measures of the training; None, like `results`, of a checkpoint.
        task_model: The `tfnlp.hub.TaskModel`.
        config: The run's `config.json`; of a checkpoint what is known of it.
    """

    def __init__(self, folder: str | os.PathLike[str], dtype: str | None = None) -> None:
        self._dtype = dtype
        with dtype_policy(dtype):
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
            texts: 1 or 2, of "classify", "labels" and "similarity".
            choices: Of "choose".

        Raises:
            ValueError: for a model that says another number itself.
        """
        count = texts if choices is None else 1 + choices
        if count is None or count == self.task_model.task.count_of_texts:
            return
        if not self.config.get("open"):
            raise ValueError(f"{self.path} takes {self.task_model.task.takes}")
        self.suit_texts(count)

    def suit_texts(self, count: int) -> None:
        """Take the number of texts or choices from a row of texts, if it is not known."""
        task = self.task_model.task.suited_to(count)
        if self.config.get("open") and task != self.task_model.task:
            with dtype_policy(self._dtype):
                self.task_model = refitted(self.task_model, self.config, task)

    def read(self, source: Any, config: Any, name: str, labelled: bool = True) -> list[Any]:
        """Return the examples of what `tfnlp.finetune` takes as `train`, here as `name`.

        If they are not labelled, labels may be missing.
        """
        columns = self.with_columns(config)
        examples = read_data(self.task, source, columns, name, labelled).examples
        if examples and isinstance(examples[0], TaskExample):
            self.suit_texts(len(examples[0].segments) + len(examples[0].choices))
        return examples

    def predict(self, rows: Any, **settings: Any) -> list[dict[str, Any]]:
        """Return a prediction for each row.

        Args:
            rows: Texts (for "tag" sentences whose words are separated by spaces) or tuples of texts
                (of pairs two, of "answer" a question and a document, of "choose" a text and its
                choices, of "roles" a sentence and its predicate); or what `tfnlp.finetune` takes
                as `train`, labels or not. A string is one text: give files as `pathlib.Path`s.
            settings: `batch_size`, `text_columns`, `label`, `label_columns`, `separator`,
                `skip_bad_rows`.

        Returns:
            a list of dicts: of "classify" `label` and `probabilities`, of "labels" `labels` and
            `probabilities`, of "similarity" `score`, of "choose" `choice` and `probabilities`, of
            "tag" and "roles" `tags`, of "answer" `answer` and `score`.

        Raises:
            ValueError: for rows that the task can't read; names the row.
        """
        config = PredictTask.make(model=self, text=[], **settings)
        return self.predicted(self._examples(rows, config), config.batch_size, shown_source(rows))

    def predicted(self, examples: list[Any], batch_size: int, source: str) -> list[dict[str, Any]]:
        """Return the predictions for examples of a source; say on stderr how many were cut."""
        if not examples:
            return []
        (prepared,) = self.task_model.prepare([examples])
        say_cut(source, self.task_model.task, prepared.encoded.cut, len(examples))
        return self.task_model.predict(examples, batch_size, prepared)

    def predictions(
        self, examples: list[Any], batch_size: int, source: str
    ) -> Iterator[dict[str, Any]]:
        """Yield what `predicted` returns, a part of the examples at a time.

        Sequences are padded to lengths that fit their part, so that numbers may differ in their
        last digits.
        """
        cut = 0
        for first in range(0, len(examples), _PART):
            part = examples[first : first + _PART]
            (prepared,) = self.task_model.prepare([part])
            cut += prepared.encoded.cut
            yield from self.task_model.predict(part, batch_size, prepared)
        say_cut(source, self.task_model.task, cut, len(examples))

    def _examples(self, rows: Any, config: Any) -> list[Any]:
        rows = [rows] if is_text(rows) else held(rows)
        found = [] if files_of(rows) else [row for _, row in rows_of(rows, "rows")]
        if found and all(isinstance(row, str) for row in found):
            self.suit_texts(1)
            return self.task_model.task.examples_of([[row] for row in found])
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
                `skip_bad_rows`, and `report`, a folder to write a page of the errors to.

        Returns:
            the field's measures of the task, floats by name.
        """
        config = EvaluateTask.make(data=data, **settings)
        metrics, _, _ = self.measured(config)
        return metrics

    def measured(self, config: Any) -> tuple[dict[str, float], list[Any], list[dict]]:
        """Return measures, examples and predictions; write the report if one is asked for."""
        if config.report is not None:
            from tfnlp.runs.report.page import check_packages

            check_packages()
        examples = self.read(config.data, config, "data")
        task = self.task_model.task
        source = shown_source(config.data)
        say_labels(source, task, examples)
        predictions = self.predicted(examples, config.batch_size, source)
        metrics = task.measures(examples, predictions)
        if config.report is not None:
            self._write_report(config, examples, predictions, metrics)
        return metrics, examples, predictions

    def report(self, directory: str, data: Any = None, **settings: Any) -> str:
        """Write a page of measures, charts and errors; return its path.

        Args:
            directory: Folder of the page.
            data: Labelled examples; None: the dev examples of the `tfnlp.finetune` that returned
                this object.
            settings: As of `evaluate`.

        Raises:
            ValueError: without data where the run was loaded from its folder, which does not keep
                its examples.
        """
        data = self.dev if data is None else data
        if data is None:
            raise ValueError("`data` is missing: the labelled examples that the page is about")
        self.evaluate(data, report=os.fspath(directory), **settings)
        return os.path.join(os.fspath(directory), "index.html")

    def _write_report(
        self, config: Any, examples: list, predictions: list[dict], metrics: dict[str, float]
    ) -> None:
        from tfnlp.runs.report.page import write_report

        task, run = self.task_model.task, self.config
        backbone, training = run["backbone"], run.get("training", {})
        names = ("epochs", "batch_size", "learning_rate", "seed")
        learnt = (
            {} if "data" not in run else {"trained on": f"{run['data']['examples']:,} examples"}
        )
        if "teacher" in run:
            learnt["teacher"] = run["teacher"]["path"]
        summary = {
            "model": self.path,
            "backbone": backbone["kind"].upper() + (" (SavedModel)" if backbone["saved"] else ""),
            "weights": self.task_model.model.count_params(),
            "features": run["features"] or "none: fine-tuned as a whole",
            **learnt,
            "measured on": f"{shown_source(config.data)}: {len(examples):,} examples",
            **{name: training[name] for name in names if name in training},
        }
        write_report(
            config.report,
            title=f"{task.name}: {self.path}",
            task=task,
            summary=summary,
            metrics=metrics,
            history=None if self.history is None else self.history.state(),
            baselines=task.baselines(task.golds(examples)),
            rows=[task.report_row(e, p) for e, p in zip(examples, predictions, strict=True)],
        )

    def export(
        self,
        directory: str,
        overwrite: bool = False,
        format: str | None = None,
        base: str | None = None,
        keep_adapters: bool = False,
        weights: str | None = None,
        litert: str | None = None,
        onnx: str | None = None,
    ) -> dict[str, str]:
        """Write one SavedModel from strings to labels, scores, tags or answers.

        Args:
            directory: The folder to write.
            overwrite: Replace an earlier export.
            format: "huggingface" writes a folder that transformers reads instead, "peft" the
                low-rank updates alone, which PEFT reads.
            base: With "peft": name or path of the model that they belong to; None: that which was
                fine-tuned.
            keep_adapters: Keep low-rank updates apart from their matrices in the SavedModel, of
                which they and the task's layers alone are trained then.
            weights: "bfloat16" or "int8": store matrices so, for inference alone.
            litert: Write a graph of ids for LiteRT too: a `.tflite` file, or a folder with it, the
                vocabulary, the labels and an example of how to call it.
            onnx: The same for ONNX Runtime.

        Returns:
            `{"module": path}`, with the paths of `litert` and `onnx`; `{"checkpoint": path}` or
            `{"adapters": path}`.

        Raises:
            ValueError: for another format, a model that Hugging Face has no class for, or one that
                can't be such a graph.
            ImportError: for `onnx` without tf2onnx.
        """
        if format not in (None, "savedmodel", "huggingface", "peft"):
            raise ValueError(
                f"`format` {format} is for pretrained models; {self.path} is fine-tuned, which "
                "savedmodel, huggingface and peft are for"
            )
        if base is not None and format != "peft":
            raise ValueError("`base` is for `format` peft; leave it out")
        given = {"weights": weights, "litert": litert, "onnx": onnx}
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if format in ("huggingface", "peft"):
                raise ValueError(f"`{name}` is for a SavedModel, not for `format` {format}")
            if keep_adapters:
                raise ValueError(f"`{name}` is for a model whose adapters are merged")
        apart = [name for name in ("litert", "onnx") if name in given]
        apart += ["format"] if format == "peft" else []
        if apart:
            check_tags_alone(self.task_model.task, self.path, apart[0])
        if format == "peft":
            with card_of_export(card_of_task(self)):
                return {"adapters": export_adapters(self, os.fspath(directory), base, overwrite)}
        if format == "huggingface":
            with card_of_export(card_of_task(self)):
                save_checkpoint(self.task_model, self.config, self.path, directory, overwrite)
            return {"checkpoint": os.fspath(directory)}
        if is_elsewhere():
            place = os.fspath(directory)
            more = (place, overwrite, format, base, keep_adapters)
            return in_tensorflow(self.path, models_of(self), "export", *more, **given)
        if keep_adapters:
            return self._with_adapters().export(directory, overwrite)
        with card_of_export(card_of_task(self)):
            return export_task(self, os.fspath(directory), overwrite, **given)

    def _with_adapters(self) -> "TaskRun":
        """Return this run with its low-rank updates apart from their matrices."""
        if adaptation_of(self.config).low_rank is None:
            raise ValueError(
                f"`keep_adapters`: {self.path} has no adapters; it was not trained with `lora`"
            )
        apart = copy.copy(self)
        with dtype_policy(self._dtype):
            apart.task_model = task_folder.load_task(self.folder, merged=False)[0]
        return apart

    def save(
        self, directory: str, format: str = "huggingface", overwrite: bool = False
    ) -> dict[str, str]:
        """Write the files of another library; see `export`."""
        return self.export(directory, overwrite, format)


def _is_texts(task: Any, row: Any) -> bool:
    return (
        isinstance(row, list)
        and len(row) == task.count_of_texts
        and all(isinstance(text, str) for text in row)
    )

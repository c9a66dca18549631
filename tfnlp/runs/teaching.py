"""What a fine-tuning run learns from a teacher: a larger model, fine-tuned on the same task."""

import dataclasses
import os
from typing import Any

import numpy as np

from tfnlp.families.distilbert import check_without_teacher, weights_checksum
from tfnlp.files import same_folder
from tfnlp.runs.finetune_examples import crc32, read_data, shown_source
from tfnlp.runs.task_run import TaskRun
from tfnlp.settings.finetune import FinetuneSettings
from tfnlp.tasks.sequences import same_windows
from tfnlp.training.run import is_run, read_config


def check_teacher(config: FinetuneSettings) -> None:
    """Check the arguments about the teacher."""
    check_without_teacher(config, ("distillation_weight", "temperature", "unlabelled"))
    path = getattr(config.teacher, "path", config.teacher)
    if path is not None and same_folder(path, config.output):
        raise ValueError(f"`output` {config.output} is the teacher; give a new folder")


class Teaching:
    """A teacher, and the examples that its student learns from.

    Attributes:
        task: The student's, with the labels of the teacher.
        examples: Those with labels and then those without, which have some label in its place.
    """

    def __init__(self, config: FinetuneSettings, task: Any, train: list[Any]) -> None:
        self._config, self._labelled = config, len(train)
        self._teacher = _loaded(config, task.name)
        self.task = self._fitted(task, train)
        unlabelled = []
        if config.unlabelled is not None:
            unlabelled = read_data(
                task.form, config.unlabelled, config, "unlabelled", labelled=False,
                splitter=task.splitter,
            ).examples  # fmt: skip
        self.unlabelled = [self.task.some_label(example) for example in unlabelled]
        self.examples = train + self.unlabelled
        self._soft: dict[str, np.ndarray] | None = None

    def _fitted(self, task: Any, train: list[Any]) -> Any:
        """Return the task with the labels of the teacher, once both are known to fit."""
        teacher, source = self._teacher, shown_source(self._config.train)
        theirs = teacher.task_model.task
        if type(theirs) is not type(task):
            raise ValueError(
                f"`teacher` {teacher.path} was fine-tuned on {theirs.name}; give a run of "
                f"`tfnlp finetune {task.name}`"
            )
        crf = task.crf or theirs.crf
        if crf:  # whose outputs are no distribution of each word
            raise ValueError(
                "`teacher` can't be given with `crf`, nor be a run with it; leave it out"
            )
        if teacher.config.get("open"):
            teacher.suit_texts(task.count_of_texts)
        elif theirs.count_of_texts != task.count_of_texts:
            raise ValueError(
                f"`teacher` {teacher.path} reads {theirs.count_of_texts} texts of "
                f"an example; those of `train` {source} have {task.count_of_texts}"
            )
        unknown = sorted(set(task.labels) - set(theirs.labels))
        if unknown:
            raise ValueError(
                f"`train` {source} has the label {unknown[0]!r}, which `teacher` {teacher.path} "
                f"does not know: {', '.join(theirs.labels[:10])}"
            )
        return dataclasses.replace(task, labels=theirs.labels) if task.labels else task

    def config(self, folder: str) -> dict[str, Any]:
        """Return what `config.json` says of the teacher.

        A run that goes on keeps its name: it may have moved.
        """
        teacher = self._teacher
        found = {
            "path": os.path.abspath(teacher.path),
            "crc32": weights_checksum(teacher.task_model.model),
            "unlabelled": {"examples": len(self.unlabelled), "crc32": crc32(self.unlabelled)},
        }
        before = read_config(folder).get("teacher") if is_run(folder) else None
        if isinstance(before, dict) and before.get("crc32") == found["crc32"]:
            found["path"] = before.get("path")
        return found

    def described(self) -> str:
        """Return the teacher and its examples in words."""
        size = self._teacher.task_model.model.count_params() / 1e6
        said = f"its teacher {self._teacher.path} has {size:.2f} M weights"
        count = len(self.unlabelled)
        return said + (f"; {count:,} examples have no label" if count else "")

    def columns(self, encoded: Any) -> tuple[Any, Any]:
        """Return what the teacher says of `examples`, as columns of the student's batches.

        It is computed once for all runs. `encoded` are the examples as the student reads them.
        """
        if self._soft is None:
            self._soft = self._computed(encoded)
        return self.task.soft_columns(encoded, self._soft, self._labelled)

    def _computed(self, encoded: Any) -> dict[str, np.ndarray]:
        model = self._teacher.task_model
        (prepared,) = model.prepare([self.examples])
        if self.task.of_windows and not same_windows(encoded, prepared.encoded):
            raise ValueError(
                f"`teacher` {self._teacher.path} reads the documents in other pieces or windows "
                f"than `model` {self._config.model}; give a model with its vocabulary, and the "
                f"teacher's max_length {model.task.max_length}, stride {model.task.stride} and "
                f"max_question {model.task.max_question}"
            )
        outputs = model.outputs(model.batches(prepared, 32))
        return model.task.soft_outputs(prepared.encoded, outputs)


def _loaded(config: FinetuneSettings, task: str) -> Any:
    if isinstance(config.teacher, TaskRun):
        return config.teacher
    try:
        return TaskRun(config.teacher)
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"`teacher` must be a run of `tfnlp finetune {task}`: {error}") from error

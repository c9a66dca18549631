"""Fine-tuned checkpoints of the encoders that `EncoderFiles` describes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfnlp.checkpoints.config import ConfigNames
from tfnlp.checkpoints.family_files import FamilyFiles
from tfnlp.checkpoints.folders import (
    MODEL_FILES,
    find_one,
    find_weights,
    new_folder,
    write_model,
)
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.heads import (
    ClassParts,
    FineTuned,
    TaskHead,
    read_task,
    task_config,
    written_head,
)
from tfnlp.checkpoints.mapping import TensorNames, tensors_from_weights
from tfnlp.checkpoints.tokenizers.files import TokenizerFiles


class EncoderTasks(FamilyFiles):
    """The half of `EncoderFiles`, which lists the attributes, that is about tasks."""

    title: str
    encoder: Callable[..., keras.Model]
    config: ConfigNames
    huggingface: TensorNames
    configurations: tuple[str, ...]
    tokenizer: TokenizerFiles
    tasks: Mapping[str, TaskHead]

    def read_task(self, path: str | os.PathLike, architecture: str, dtype: Any = None) -> FineTuned:
        backbone = self.load(path, dtype=dtype)
        weights_path = find_weights(path)
        config_path = find_one(weights_path.parent, self.configurations, "configuration")
        tensors = open_tensors(weights_path)
        return read_task(backbone, tensors, config_path, architecture, self.tasks, self.canonical)

    def write_task(
        self,
        directory: str | os.PathLike,
        task_model: Any,
        arguments: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        parts = self.class_parts(task_model, arguments)
        parameters = inspect.signature(self.encoder).parameters.values()
        # A run that was pretrained here keeps only the arguments that it was given.
        defaults = {each.name: each.default for each in parameters}
        arguments = {**defaults, **arguments}
        tensors = {**tensors_from_weights(parts.rows, task_model.model), **parts.heads}
        tokenizer = task_model.reader.tokenizer
        stated = self.written_config(arguments, parts.architecture, tokenizer)
        stated |= task_config(task_model.task)
        with new_folder(directory, (*MODEL_FILES, *self.tokenizer.names), overwrite) as folder:
            write_model(folder, stated, tensors)
            self.tokenizer.write(folder, tokenizer, arguments["max_positions"])

    def class_parts(self, task_model: Any, arguments: Mapping[str, Any]) -> ClassParts:
        task, form = task_model.task, self.huggingface
        head = self.tasks[task.output]
        if head.pooler and not arguments.get("pooler", True):
            raise ValueError(
                f"the model has no pooler, on which Hugging Face's {head.architecture} stands"
            )
        self._check_arguments(arguments)
        paths = {weight.path for weight in task_model.model.weights}
        rows = {
            path: row._replace(names=tuple(form.base + name for name in row.names))
            for path, row in form.rows(arguments, paths).items()
        }
        inside = form.pooler or "\0"  # a task's own layer may stand where others have the pooler
        heads = {
            form.base + name if name.startswith(inside) else name: array
            for name, array in written_head(task_model.model, head, task).items()
        }
        return ClassParts(head.architecture, rows, heads)

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that Hugging Face has no word for, as DistilBERT's epsilon."""
        stated = {*self.config.arguments, "pooler", "seq_length"}
        for name, parameter in inspect.signature(self.encoder).parameters.items():
            value = arguments.get(name, parameter.default)
            if name not in stated and value != parameter.default:
                raise ValueError(
                    f"Hugging Face's {self.title} has {name}={parameter.default}; this model has "
                    f"{value}"
                )

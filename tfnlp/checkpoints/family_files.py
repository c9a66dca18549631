"""What every family that Hugging Face knows has: how its files are read and written."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from tfnlp.checkpoints.heads import ClassParts, FineTuned, TaskHead
from tfnlp.checkpoints.pretrained import Pretrained


class FamilyFiles(abc.ABC):
    """The files of a family's models in Hugging Face's format, and in that of its authors.

    Attributes:
        takes_adapters: whether `class_parts` can tell where PEFT's adapters belong.
    """

    takes_adapters: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def model_types(self) -> tuple[str, ...]:
        """What `config.json` calls the kind of model."""

    @property
    @abc.abstractmethod
    def task_heads(self) -> dict[str, TaskHead]:
        """The classes of transformers that are fine-tuned, to their heads."""

    @abc.abstractmethod
    def canonical(self, name: str) -> str | None:
        """Return the name of a tensor without what only some classes put before it.

        None for a tensor that is no weight.
        """

    @property
    @abc.abstractmethod
    def outside(self) -> tuple[str, ...]:
        """What the canonical names of the tensors of all heads begin with."""

    @abc.abstractmethod
    def load(self, path: str | os.PathLike, *, dtype: Any = None) -> Pretrained:
        """Return the model in a folder, or of a weight file in it."""

    @abc.abstractmethod
    def save(
        self, model: keras.Model, directory: str, tokenizer: Any = None, overwrite: bool = False
    ) -> None:
        """Write a model in Hugging Face's format."""

    @abc.abstractmethod
    def write_tokenizer(self, folder: str, reader: Any, arguments: Mapping[str, Any]) -> None:
        """Write `tokenizer.json` and the like, of the reader and the encoder's arguments."""

    @abc.abstractmethod
    def read_task(self, path: str | os.PathLike, architecture: str, dtype: Any = None) -> FineTuned:
        """Return the fine-tuned checkpoint in a folder, which is of a class of transformers."""

    @abc.abstractmethod
    def write_task(
        self,
        directory: str | os.PathLike,
        task_model: Any,
        arguments: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        """Write the folder of a `TaskModel` that the Auto classes of transformers and tfnlp read.

        `arguments` are those that made the encoder, without the tokens of the task.
        """

    def class_parts(self, task_model: Any, arguments: Mapping[str, Any]) -> ClassParts:
        """Return a fine-tuned model in the names of its class of transformers."""
        raise NotImplementedError(type(self).__name__)

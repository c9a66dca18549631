"""What every family that Hugging Face knows has: how its files are read and written."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.checkpoints.heads import TaskFiles
from tfnlp.checkpoints.pretrained import Pretrained


class FamilyFiles(abc.ABC):
    """The files of a family's models in Hugging Face's format, and in that of its authors.

    Attributes:
        model_types: What `config.json` calls the kind of model; the first is written.
        task_files: How fine-tuned models are read and written.
    """

    @property
    @abc.abstractmethod
    def model_types(self) -> tuple[str, ...]: ...

    @property
    @abc.abstractmethod
    def task_files(self) -> TaskFiles: ...

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
    def load(self, path: str, dtype: str | None = None) -> Pretrained:
        """Return the model in a folder, or of a weight file in it."""

    @abc.abstractmethod
    def save(
        self, model: keras.Model, directory: str, tokenizer: Any = None, overwrite: bool = False
    ) -> None:
        """Write a model in Hugging Face's format."""

    @abc.abstractmethod
    def write_tokenizer(self, folder: str, reader: Any, arguments: Mapping[str, Any]) -> None:
        """Write `tokenizer.json` and the like, of the reader and the encoder's arguments."""

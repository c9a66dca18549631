"""What a format is: a way to write a model and, where it can be, to read it again."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.settings.formats import FormatSettings

# What `Format.takes` returns where a format is for models of another kind.
ANOTHER_KIND = "is a model of another kind"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a model may be: a folder, a file, or a published repository before it is downloaded.

    Attributes:
        path: On this machine; "" of a repository.
        folder: `path` or the folder that it is in; of a repository that of its `config.json`.
        names: Of the files in the folder.
        families: All families by name, in the order in which they are asked.
        opened: Context manager of the path or the published name of another model, such as that
            which adapters belong to, to a `tfnlp.published.Fetched`.
    """

    path: str
    folder: str
    names: tuple[str, ...]
    families: Mapping[str, Any]
    opened: Callable[[str], Any] | None = None

    @classmethod
    def at(cls, path: str, families: Mapping[str, Any], opened: Callable[[str], Any]) -> Place:
        """Return the place of a path on this machine."""
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        names = tuple(sorted(os.listdir(folder))) if os.path.isdir(folder) else ()
        return cls(path, folder, names, families, opened)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """Contents of `config.json`; {} if there is none."""
        path = pathlib.Path(self.folder, "config.json")
        return read_json(path) if "config.json" in self.names and path.is_file() else {}

    @property
    def model_type(self) -> str | None:
        """What Hugging Face's configuration says of the kind of model."""
        found = self.config.get("model_type")
        return found if isinstance(found, str) else None


class Format:
    """One way to write a model, to read it, or both: a class has the methods of what it can do.

    Attributes:
        name: The value of `--format`; "" of those that are only read.
        title: What is written, in sentences.
        settings: The class of what it takes.
        option: The setting that chooses it among formats of the same name.
        in_tensorflow: Whether it is written with Keras on TensorFlow alone.
        pretrained: Whether `read` returns a `Pretrained`.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    settings: ClassVar[type[FormatSettings]] = FormatSettings
    option: ClassVar[str] = ""
    in_tensorflow: ClassVar[bool] = False
    pretrained: ClassVar[bool] = True

    def is_for(self, model: Any) -> bool:
        """Return whether a `Pretrained`, a `TaskRun` or an `Index` is of the kind to write so."""
        return False

    def why_not(self, model: Any) -> str:
        """Return why a model of that kind can't be written, in words after its path; "": it can."""
        return ""

    def takes(self, model: Any) -> str | None:
        """Return why a model can't be written so, None if it can; see `ANOTHER_KIND`."""
        return (self.why_not(model) or None) if self.is_for(model) else ANOTHER_KIND

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        """Write a model that `takes` has accepted.

        Returns:
            what was written, such as "checkpoint", to its path.
        """
        raise NotImplementedError(self.name)

    def recognises(self, place: Place) -> bool:
        """Return whether `read` can read what is at a place."""
        return False

    def read(self, place: Place, dtype: str | None = None) -> Any:
        """Return the `Pretrained` or `Module` at a place, under a Keras dtype policy."""
        raise NotImplementedError(self.name)

    def recognises_task(self, place: Place) -> bool:
        """Return whether what is at a place is fine-tuned, so that `read_task` can read it."""
        return False

    def read_task(self, place: Place) -> Any:
        """Return the `tfnlp.checkpoints.heads.FineTuned` at a place."""
        raise NotImplementedError(self.name)

"""What a page shows of a module of a task: its form, and its outputs for people."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from tfnlp.text.words import SPACES


@dataclass(frozen=True)
class Field:
    """A part of a row.

    Attributes:
        name: its key.
        label: the label of its input.
        kind: "lines": a string, each line of the input is a row; "line" and "text": a string of
            one line or several; "list": strings, one a line; "number": a whole number from 0.
        example: what the input holds at first.
        may_be_empty: whether the empty string is allowed.
    """

    name: str
    label: str
    kind: str
    example: str = ""
    may_be_empty: bool = False


class Playground(abc.ABC):
    """A module of a task on a page, see `tfnlp serve`.

    Args:
        inputs: those of the module's signature by name.
        labels: the names of its labels; None if it has none.
        splitter: how it splits texts into words, see `tfnlp.text.words.words_with_offsets`.

    Attributes:
        title: the text of its tab.
        button: the text of its button.
        help: one sentence.
        takes: the names of the inputs that a module of the task may have.
        gives: the names of its outputs.
    """

    title: ClassVar[str]
    button: ClassVar[str]
    help: ClassVar[str]
    takes: ClassVar[tuple[Set[str], ...]]
    gives: ClassVar[Set[str]]

    def __init__(
        self,
        inputs: Mapping[str, tf.TensorSpec],
        labels: Sequence[str] | None = None,
        splitter: str = SPACES,
    ) -> None:
        self.inputs, self.labels, self.splitter = inputs, labels, splitter

    @classmethod
    def fits(cls, inputs: Set[str], outputs: Set[str]) -> bool:
        """Return whether a module is one of the task, by what it takes and returns."""
        return inputs in cls.takes and outputs == cls.gives

    @property
    @abc.abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The parts of a row, named as the module's inputs."""

    def check(self, row: Mapping[str, Any]) -> None:  # noqa: B027
        """Raise ValueError for a row that the module can't take."""

    @abc.abstractmethod
    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the module found for a row, both as plain Python, for people."""

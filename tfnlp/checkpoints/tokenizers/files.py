"""How a family's tokenizer is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class FoundTokenizer(NamedTuple):
    """The tokenizer of a checkpoint.

    Attributes:
        make: function without arguments that returns it, or raises ValueError if there is none or
            tfnlp has none that gives the same ids.
        path: file or folder of the vocabulary, or None.
        lowercase: whether text is lower-cased; None if that is unknown.
    """

    make: Callable[[], Any]
    path: str | None = None
    lowercase: bool | None = None


class TokenizerFiles(NamedTuple):
    """The reader and the writer of a family's tokenizer.

    Attributes:
        find: function of (the checkpoint's folder, `vocab`: the vocabulary if it is elsewhere,
            `lowercase`: instead of what the files say, the model's vocab_size, name of the loader
            for messages) to a `FoundTokenizer`.
        write: function of (folder, tokenizer, longest sequence) that writes the files which
            `find` and transformers read.
        names: names of those files.
    """

    find: Callable[..., FoundTokenizer]
    write: Callable[[str, Any, int], None]
    names: tuple[str, ...]


def check_size(where: str, tokens: int, vocab_size: int) -> None:
    """Refuse a vocabulary that is longer than the model's table."""
    if tokens > vocab_size:
        raise ValueError(
            f"vocabulary {where} has {tokens} tokens, but the model's vocab_size is "
            f"{vocab_size}; it belongs to another checkpoint"
        )


def refused(reason: str, path: str | None = None, lowercase: bool | None = None) -> FoundTokenizer:
    """Return what stands for a vocabulary that is absent or can't be read.

    The weights are as good as ever; who asks for the tokenizer is told.
    """

    def make() -> Any:
        raise ValueError(reason)

    return FoundTokenizer(make, path, lowercase)

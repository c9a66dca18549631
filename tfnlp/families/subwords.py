"""Vocabularies of pieces of words: how a family learns, keeps and compares them."""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfnlp.families.preparation import (
    VOCABULARY,
    Documents,
    Vocabulary,
    read_or_learnt,
)


def _of_text(name: str) -> Callable[..., Any]:
    """Return a function or class of `tfnlp.text`, which is imported when it is needed."""
    from tfnlp import text

    return getattr(text, name)


def _make(tokenizer: str, tokens: Any, settings: dict[str, Any]) -> Any:
    return _of_text(tokenizer)(tokens, **settings)


@dataclasses.dataclass(frozen=True)
class Subwords:
    """The vocabulary of a family that reads sentences; names are of `tfnlp.text`."""

    kind: str  # tells its files in the cache from those of others
    tokenizer: str  # the class, of tokens and, by name, settings
    train: str  # the function of (strings, size) and, by name, settings to tokens
    read_file: str  # that of a path to the tokens, which can be compared and pickled
    write: Callable[[str, Any], None]  # of a path and tokens
    cased: bool = True  # settings have `cased`, and tokenizers the setting `lowercase`
    tokens: Callable[[Any], Any] = lambda tokenizer: tokenizer.vocabulary
    key: Callable[[Any], Any] = lambda tokens: tokens  # JSON that tells tokens from others
    name: str = VOCABULARY  # of the file or folder in a run

    def read(self, path: str) -> Any:
        """Return the tokens of a file or folder."""
        return _of_text(self.read_file)(path)

    def settings(self, config: Any) -> dict[str, Any]:
        """Return the settings of the tokenizer, which are attributes of it."""
        return {"lowercase": not config.cased} if self.cased else {}

    def maker(self, tokens: Any, settings: dict[str, Any]) -> Callable[[], Any]:
        """Return a function that makes the tokenizer and can be pickled."""
        return functools.partial(_make, self.tokenizer, tokens, settings)

    def kept(self, tokens: Any) -> Vocabulary:
        """Return the tokens as a run keeps them."""
        return Vocabulary(tokens, self.read, self.write, self.name)

    def keep(self, tokenizer: Any, folder: str) -> None:
        """Write the tokens of a tokenizer into a run's folder."""
        path = os.path.join(folder, self.name)
        if not os.path.isdir(path):
            self.write(path, self.tokens(tokenizer))

    def restore(self, folder: str, lowercase: bool | None) -> Any:
        """Return the tokenizer of a run's folder."""
        settings = {"lowercase": lowercase is not False} if self.cased else {}
        return _make(self.tokenizer, self.read(os.path.join(folder, self.name)), settings)

    def facts(self, tokenizer: Any, names: Iterable[str]) -> tuple[Any, dict[str, Any]]:
        """Return the tokens and the settings `names` of a tokenizer, to compare with others."""
        return self.tokens(tokenizer), {name: getattr(tokenizer, name) for name in names}

    def given_or_learnt(
        self, config: Any, texts: Callable[[], Iterator[str]], documents: Documents = ()
    ) -> Any:
        """Return the tokens of `config.vocab`, of the run's folder, or those learnt from texts.

        `documents` are what the texts are made of, if that is stored.
        """
        settings = self.settings(config)

        def learn() -> Any:
            print(f"building a vocabulary of {config.vocab_size} tokens", file=sys.stderr)
            return _of_text(self.train)(texts(), config.vocab_size, **settings)

        decides = [self.kind, config.vocab_size, *settings.values()]
        return read_or_learnt(config, documents, decides, learn, self.read, self.write, self.name)


def _write_vocabulary(path: str, tokens: list[str]) -> None:
    _of_text("write_vocabulary")(path, tokens)


WORDPIECE = Subwords(
    kind="wordpiece",
    tokenizer="WordPieceTokenizer",
    train="train_wordpiece",
    read_file="read_vocabulary",
    write=_write_vocabulary,
)

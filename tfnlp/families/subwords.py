"""Vocabularies of pieces of words: how a family learns, keeps and compares them."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfnlp.families.preparation import (
    VOCABULARY,
    Documents,
    Vocabulary,
    learnt_once,
    sentences,
    vocabulary_tokens,
)


@dataclasses.dataclass(frozen=True)
class Subwords:
    """The vocabulary of a family that reads sentences.

    Attributes:
        kind: Tells its files in the cache from those of others.
        read: Function of a path to the tokens, which can be compared and pickled.
        write: Function of a path and tokens.
        learn: Function of (strings, config) to tokens.
        decides: Function of the config to what decides the tokens beside the text, as JSON.
        make: Function of tokens and, by name, settings to the tokenizer; workers get it by pickle.
        settings: Function of the config to the settings, which are attributes of the tokenizer.
        tokens: Function of a tokenizer to its tokens.
        key: Function of tokens to JSON that tells them from others.
        name: Of the file or folder in a run.
    """

    kind: str
    read: Callable[[str], Any]
    write: Callable[[str, Any], None]
    learn: Callable[[Iterable[str], Any], Any]
    decides: Callable[[Any], list[Any]]
    make: Callable[..., Any]
    settings: Callable[[Any], dict[str, Any]]
    tokens: Callable[[Any], Any] = lambda tokenizer: tokenizer.vocabulary
    key: Callable[[Any], Any] = lambda tokens: tokens
    name: str = VOCABULARY

    def maker(self, tokens: Any, settings: dict[str, Any]) -> Callable[[], Any]:
        """Return a function that makes the tokenizer and can be pickled."""
        return functools.partial(self.make, tokens, **settings)

    def kept(self, tokens: Any) -> Vocabulary:
        """Return the tokens as a run keeps them."""
        return Vocabulary(tokens, self.read, self.write, self.name)

    def facts(self, tokenizer: Any, names: Iterable[str]) -> tuple[Any, dict[str, Any]]:
        """Return the tokens and the settings `names` of a tokenizer, to compare with others."""
        return self.tokens(tokenizer), {name: getattr(tokenizer, name) for name in names}

    def given_or_learnt(
        self, config: Any, texts: Callable[[], Iterator[str]], documents: Documents = ()
    ) -> Any:
        """Return the tokens of `config.vocab`, of the run's folder, or those learnt from texts.

        Args:
            config: A `SubwordTextConfig` or the config of examples.
            texts: Function that returns the strings to learn from.
            documents: What they are made of, if that is stored.
        """

        def learn() -> Any:
            print(f"building a vocabulary of {config.vocab_size} tokens", file=sys.stderr)
            return self.learn(texts(), config)

        def make() -> Any:
            decides = [self.kind, *self.decides(config)]
            return learnt_once(documents, decides, learn, self.read, self.write)

        return vocabulary_tokens(config, self.read, make, self.name)

    def of_documents(self, config: Any, documents: Documents) -> Any:
        """Return the tokens given by the config, or learnt from documents."""
        return self.given_or_learnt(config, lambda: sentences(documents), documents)


def _read(path: str) -> list[str]:
    from tfnlp.text import read_vocabulary

    return read_vocabulary(path)


def _write(path: str, tokens: list[str]) -> None:
    from tfnlp.text import write_vocabulary

    write_vocabulary(path, tokens)


def _learn(texts: Iterable[str], config: Any) -> list[str]:
    from tfnlp.text import train_wordpiece

    return train_wordpiece(texts, config.vocab_size, lowercase=not config.cased)


def _make(tokens: list[str], lowercase: bool) -> Any:
    from tfnlp.text import WordPieceTokenizer

    return WordPieceTokenizer(tokens, lowercase=lowercase)


# WordPiece, of configs with `cased`.
WORDPIECE = Subwords(
    kind="wordpiece",
    read=_read,
    write=_write,
    learn=_learn,
    decides=lambda config: [config.vocab_size, config.cased],
    make=_make,
    settings=lambda config: {"lowercase": not config.cased},
)

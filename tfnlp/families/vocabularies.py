"""Vocabularies: how a family learns, keeps and compares the tokens of its text."""

from __future__ import annotations

import abc
import functools
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfnlp.checkpoints.tokenizers.tokenizer_json import plain_tokenizer
from tfnlp.data import frequent_words
from tfnlp.files import local_copy, write_lines, written_whole
from tfnlp.text import (
    PipelineTokenizer,
    WordPieceTokenizer,
    gpt_tokenizer,
    read_bpe,
    read_vocabulary,
    read_words,
    train_bpe,
    train_wordpiece,
    train_words,
    write_bpe,
    write_vocabulary,
    write_words,
)
from tfnlp.text.lines import read_lines, shown
from tfnlp.text.pipeline import FILE

# Files and folders of pieces of words in a run.
PIECES = ("vocab.txt", "vocab", "spiece.model", "tokenizer.json")
MARKS = "marks.txt"  # the tokens beside them that are read where a text has them written
_UNUSED = re.compile(r"\[unused\d+\]|<unused\d+>|<\|unused ?\d+\|>|madeupword\d+")


class Vocabulary(abc.ABC):
    """How a run keeps its tokens, which can be compared, and how they are learnt.

    Attributes:
        name: Of the file or folder in a run.
        learnt_with: Settings that decide what is learnt.
    """

    name: ClassVar[str] = "vocab.txt"
    learnt_with: ClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def read(self, path: str) -> Any:
        """Return the tokens of a file or folder."""

    @abc.abstractmethod
    def write(self, path: str, tokens: Any) -> None:
        """Write tokens as a file or folder."""

    @abc.abstractmethod
    def learn(self, texts: Iterable[str], settings: Any) -> Any:
        """Return the tokens of texts."""

    @abc.abstractmethod
    def decides(self, settings: Any) -> list[Any]:
        """Return what decides the tokens beside the text, as JSON."""

    def kept(self, settings: Any) -> Any:
        """Return the tokens of `settings.vocab` or of an earlier start of the run, else None."""
        if settings.vocab:
            settings.refuse(self.learnt_with, "is for a run without `vocab`, which is learnt then")
            return self.read(settings.vocab)
        path = tf.io.gfile.join(settings.output, self.name)
        if settings.restart or not tf.io.gfile.exists(path):
            return None
        with local_copy(path) as local:
            return self.read(local)


class Words(Vocabulary):
    """The words of language models, with those that stand for ends and unknown ones."""

    learnt_with = ("max_vocab", "min_count")
    read, write = staticmethod(read_words), staticmethod(write_words)

    def learn(self, texts: Iterable[str], settings: Any) -> list[str]:
        """Return the words, the most frequent first."""
        print("counting words", file=sys.stderr)
        return train_words(texts, settings.max_vocab, settings.min_count)

    def decides(self, settings: Any) -> list[Any]:
        return ["words", settings.max_vocab, settings.min_count]


class FrequentWords(Words):
    """The frequent words of a text, without any that stand for others."""

    write = staticmethod(write_lines)

    def read(self, path: str) -> list[str]:
        """Return the words of a run, or of any file with one word a line."""
        words = read_lines(path, "vocabulary file")
        for number, word in enumerate(words, 1):
            if word.split() != [word]:
                raise ValueError(
                    f"vocabulary file {path} has {shown(word)} in line {number}; expected one word"
                )
        if not words:
            raise ValueError(f"vocabulary file {path} is empty; expected one word a line")
        return words

    def learn(self, texts: Iterable[str], settings: Any) -> list[str]:
        """Return the words, the most frequent first."""
        print("counting words", file=sys.stderr)
        return frequent_words(texts, settings.min_count, settings.max_vocab)

    def decides(self, settings: Any) -> list[Any]:
        return ["frequent words", settings.min_count, settings.max_vocab]


class Subwords(Vocabulary):
    """Pieces of words.

    Attributes:
        kind: Tells its files in the cache from those of others.
        tokenizer: What makes a tokenizer of tokens and, by name, settings.
        cased: Whether settings have `cased`, and tokenizers the setting `lowercase`.
    """

    kind: ClassVar[str]
    tokenizer: ClassVar[Callable[..., Any]]
    cased: ClassVar[bool] = True
    learnt_with = ("vocab_size", "bpe")

    @abc.abstractmethod
    def train(self, texts: Iterable[str], size: int, **settings: Any) -> Any:
        """Return `size` tokens learnt from texts; the settings are those of `training`."""

    def training(self, settings: Any) -> dict[str, Any]:
        """Return what decides the tokens beside text and size, by name."""
        return self._casing(settings)

    def tokens(self, tokenizer: Any) -> Any:
        """Return the tokens of a tokenizer."""
        return tokenizer.vocabulary

    def key(self, tokens: Any) -> Any:
        """Return JSON that tells tokens from others."""
        return tokens

    def settings(self, settings: Any) -> dict[str, Any]:
        """Return the settings of a run's tokenizer, which are attributes of it."""
        found = self._casing(settings)
        marks = getattr(settings, "marks", None)  # prepared examples have none
        return {**found, "marks": marks} if marks else found

    def _casing(self, settings: Any) -> dict[str, Any]:
        return {"lowercase": not settings.cased} if self.cased else {}

    def marked(self, tokens: Any, marks: Collection[str], grows: bool = True) -> Any:
        """Return tokens with those of `marks` that are missing.

        They take the places of unused tokens, then, if the vocabulary grows, those at its end.
        """
        found = self.names(tokens)
        places = [i for i, t in enumerate(found) if t and _UNUSED.fullmatch(t)]
        unused = (i for i in places if found[i] not in marks)
        for mark in dict.fromkeys(marks):
            if mark in found:
                continue
            place = next(unused, len(found))
            if place == len(found) and not grows:
                raise ValueError(f"`marks` {mark}: the vocabulary has no unused token left for it")
            found[place : place + 1] = [mark]
        return self.renamed(tokens, found)

    def names(self, tokens: Any) -> list[str | None]:
        """Return the names of tokens in the order of their ids."""
        return list(tokens)

    def renamed(self, tokens: Any, names: list[str | None]) -> Any:
        """Return tokens with other names."""
        return names

    def begun(self, tokenizer: Any, settings: Any) -> Any:
        """Return the tokenizer of a model to go on from, with the marks of a run."""
        tokenizer = plain_tokenizer(tokenizer)
        if not settings.marks:
            return tokenizer
        marks = list(dict.fromkeys([*tokenizer.marks, *settings.marks]))
        tokens = self.marked(self.tokens(tokenizer), marks, grows=False)
        names = {"lowercase": tokenizer.lowercase} if self.cased else {}
        return self.tokenizer(tokens, **names, marks=marks)

    def maker(self, tokens: Any, settings: dict[str, Any]) -> Callable[[], Any]:
        """Return a function that makes the tokenizer and can be pickled."""
        return functools.partial(self.tokenizer, tokens, **settings)

    def learn(self, texts: Iterable[str], settings: Any) -> Any:
        print(f"building a vocabulary of {settings.vocab_size} tokens", file=sys.stderr)
        return self.train(texts, settings.vocab_size, **self.training(settings))

    def decides(self, settings: Any) -> list[Any]:
        return [self.kind, settings.vocab_size, *self.training(settings).values()]

    def keep(self, tokenizer: Any, folder: str) -> None:
        """Write the tokens of a tokenizer into a run's folder."""
        if isinstance(tokenizer, PipelineTokenizer):
            return tokenizer.write(folder)
        path = os.path.join(folder, self.name)
        if not os.path.isdir(path):
            self.write(path, self.tokens(tokenizer))
        if tokenizer.marks:
            write_lines(os.path.join(folder, MARKS), tokenizer.marks)

    def restore(self, folder: str, lowercase: bool | None) -> Any:
        """Return the tokenizer of a run's folder."""
        if os.path.exists(os.path.join(folder, FILE)):
            return PipelineTokenizer.read(folder)
        settings: dict[str, Any] = {"lowercase": lowercase is not False} if self.cased else {}
        path = os.path.join(folder, MARKS)
        if os.path.exists(path):
            settings["marks"] = read_lines(path, "list of marks")
        return self.tokenizer(self.read(os.path.join(folder, self.name)), **settings)

    def facts(self, tokenizer: Any, names: Iterable[str]) -> tuple[Any, dict[str, Any]]:
        """Return the tokens and the settings `names` of a tokenizer, to compare with others."""
        names = dict.fromkeys([*names, *(["marks"] if tokenizer.marks else [])])
        return self.tokens(tokenizer), {name: getattr(tokenizer, name) for name in names}


class WordPieces(Subwords):
    """BERT's."""

    kind = "wordpiece"
    tokenizer = WordPieceTokenizer
    read, write = staticmethod(read_vocabulary), staticmethod(write_vocabulary)
    train = staticmethod(train_wordpiece)


class BytePairs(Subwords):
    """GPT's and GPT-2's: tokens and merges."""

    kind = "bpe"
    tokenizer = staticmethod(gpt_tokenizer)
    cased = False
    name = "vocab"
    read, train = staticmethod(read_bpe), staticmethod(train_bpe)

    def write(self, path: str, tokens: tuple[Any, Any]) -> None:
        """Write a folder, whole or not at all."""
        with written_whole(path) as partial:
            os.makedirs(partial)
            write_bpe(partial, *tokens)

    def training(self, settings: Any) -> dict[str, Any]:
        return {"kind": settings.bpe}

    def tokens(self, tokenizer: Any) -> tuple[Any, Any]:
        return tokenizer.vocabulary, tokenizer.merges

    def names(self, tokens: tuple[Any, Any]) -> list[str | None]:
        return list(tokens[0])

    def renamed(self, tokens: tuple[Any, Any], names: list[str | None]) -> tuple[Any, Any]:
        return names, tokens[1]


class TokenizerJson(Subwords):
    """Those of a `tokenizer.json`, which is given: its text, and what is beside it."""

    kind = FILE
    name = "vocab"
    cased = False
    learnt_with = ("vocab_size",)

    @staticmethod
    def tokenizer(tokens: tuple[str, Mapping[str, Any]], marks: Any = None) -> PipelineTokenizer:
        """Return the tokenizer; its file says itself which `marks` it reads."""
        return PipelineTokenizer(*tokens)

    def read(self, path: str) -> tuple[str, Mapping[str, Any]]:
        """Return the contents of the files of a folder."""
        if not os.path.isfile(os.path.join(path, FILE)):
            raise ValueError(f"{path} has no {FILE}, which this model's vocabulary is read from")
        return self.tokens(PipelineTokenizer.read(path))

    def write(self, path: str, tokens: tuple[str, Mapping[str, Any]]) -> None:
        """Write a folder, whole or not at all."""
        with written_whole(path) as partial:
            os.makedirs(partial)
            PipelineTokenizer(*tokens).write(partial)

    def train(self, texts: Iterable[str], size: int, **settings: Any) -> Any:
        raise ValueError(
            f"the vocabulary of this model is not learnt: give `start`, a model to go on from, or "
            f"`vocab`, a folder with a {FILE}"
        )

    learn = train  # before it is said that it is built

    def decides(self, settings: Any) -> list[Any]:
        return [self.kind]

    def tokens(self, tokenizer: PipelineTokenizer) -> tuple[str, Mapping[str, Any]]:
        return tokenizer.contents, tokenizer.config

    def marked(self, tokens: Any, marks: Collection[str], grows: bool = True) -> Any:
        if marks:
            raise ValueError(f"`marks` {', '.join(marks)}: write them into {FILE} (added_tokens)")
        return tokens

    def begun(self, tokenizer: PipelineTokenizer, settings: Any) -> PipelineTokenizer:
        self.marked(None, settings.marks)
        return tokenizer

    def restore(self, folder: str, lowercase: bool | None) -> PipelineTokenizer:
        """Return the tokenizer of a run's folder: of a pretrained one's, or of a task's."""
        pretrained = os.path.join(folder, self.name)
        return PipelineTokenizer.read(pretrained if os.path.exists(pretrained) else folder)


WORDS, FREQUENT_WORDS = Words(), FrequentWords()
WORD_PIECES, BYTE_PAIRS, TOKENIZER_JSON = WordPieces(), BytePairs(), TokenizerJson()


def kept_pieces(folder: str) -> str | None:
    """Return the path of the vocabulary of pieces in a run's folder, or None."""
    paths = (os.path.join(folder, name) for name in PIECES)
    return next((path for path in paths if os.path.exists(path)), None)

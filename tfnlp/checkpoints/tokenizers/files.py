"""How a family's tokenizer is stored: its own files, or `tokenizer.json` alone."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from tokenizers import Tokenizer, processors

from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.tensors import Refused, reading
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME, TokenizerJson, read_tokenizer_json
from tfnlp.text import PipelineTokenizer
from tfnlp.text.pipeline import CONFIG, NotExact, lowercases

_AROUND = ("cls", "sep", "pad", "unk")  # the tokens that an encoder's tokenizer needs


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


class TokenizerFiles:
    """The reader and the writer of tokenizers that `tokenizer.json` describes.

    Attributes:
        own: names of the files that a family has beside `tokenizer.json`, or in its place.
        needs: the special tokens that the model can't do without.
    """

    own: ClassVar[tuple[str, ...]] = ()
    needs: tuple[str, ...] = _AROUND

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files that `write` writes."""
        return (*self.own, NAME, CONFIG)

    def find(
        self,
        folder: pathlib.Path,
        vocab: str | os.PathLike | None,
        lowercase: bool | None,
        vocab_size: int,
    ) -> FoundTokenizer:
        """Return the tokenizer of a checkpoint.

        Args:
            folder: the checkpoint's.
            vocab: the vocabulary, if it is elsewhere.
            lowercase: instead of what the files say.
            vocab_size: rows of the model's table.
        """
        path = pathlib.Path(vocab) if vocab is not None else folder / NAME
        if vocab is None and not path.is_file():
            names = " or ".join([*self.own, NAME])
            absent = f"the checkpoint has no {names} beside it; pass vocab="
            return refused(absent, lowercase=lowercase)
        found = self.find_json(path, vocab_size)
        if lowercase in (None, found.lowercase):
            return found
        reason = f"lowercase={lowercase}: {path} says itself how text is read; leave it out"
        return refused(reason, str(path), lowercase)

    def find_json(self, path: pathlib.Path, vocab_size: int) -> FoundTokenizer:
        """Return the tokenizer that a `tokenizer.json` describes, whatever it is made of.

        Settings are read from `tokenizer_config.json` beside it.
        """
        try:
            found = read_tokenizer_json(path)
        except ValueError as error:
            return refused(str(error), str(path))
        check_size(f"in {path}", len(found.tokens), vocab_size)
        try:
            lowercase = lowercases(found.contents)
        except ValueError as error:
            return refused(f"{path} has a normalizer that can't be read: {error}", str(path))
        return FoundTokenizer(functools.partial(_pipeline, found, self.needs), str(path), lowercase)

    def write(self, folder: str, tokenizer: Any, max_length: int) -> None:
        """Write the files which `find` and transformers read; texts have at most `max_length`."""
        if isinstance(tokenizer, PipelineTokenizer):
            write_pipeline(folder, tokenizer, max_length)
        else:
            self.write_own(folder, tokenizer, max_length)

    def write_own(self, folder: str, tokenizer: Any, max_length: int) -> None:
        """Write the files of a tokenizer that tfnlp has made."""
        raise NotImplementedError(type(self).__name__)


def _pipeline(found: TokenizerJson, needs: Sequence[str]) -> PipelineTokenizer:
    beside = found.path.with_name(CONFIG)
    config = read_json(beside) if beside.is_file() else {}
    with reading(found.path):
        found.merges()
        try:
            made = PipelineTokenizer(found.contents, config)
        except NotExact as error:
            raise Refused(f"{found.path} has {error}, which tfnlp can't do exactly") from error
    if "cls" in needs and made.cls_id < 0:
        after = found.contents.get("post_processor")
        kind = after and after.get("type")
        found.refuse("post_processor", kind, "one token before a text and one or two after it")
    if "cls" in needs and made.separators == 1 and not found.tells_second():
        found.refuse("post_processor", "TemplateProcessing", "type 1 for the second text")
    missing = [f"{name}_token" for name in needs if getattr(made, f"{name}_id") < 0]
    if missing:
        raise Refused(
            f"{found.path} tells no {', '.join(missing)}, which the model needs; expected one "
            f"in {CONFIG}"
        )
    return made


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


def is_usual(path: pathlib.Path, check: Callable[[TokenizerJson], None]) -> bool:
    """Return whether there is no `tokenizer.json`, or one that a check accepts."""
    try:
        if path.is_file():
            check(read_tokenizer_json(path))
    except ValueError:
        return False
    return True


def write_pipeline(folder: str, tokenizer: PipelineTokenizer, max_length: int) -> None:
    """Write the two files of a tokenizer that was read from them."""
    tokenizer.write(folder)
    names = {
        f"{name}_token": tokenizer.vocabulary[getattr(tokenizer, f"{name}_id")]
        for name in (*_AROUND, "mask")
        if getattr(tokenizer, f"{name}_id") >= 0
    }
    # The class that takes all from tokenizer.json.
    write_config(folder, "PreTrainedTokenizerFast", max_length, names | tokenizer.config)


def write_config(folder: str, kind: str, max_length: int, settings: Mapping[str, Any]) -> None:
    """Write `tokenizer_config.json`."""
    stated = {"tokenizer_class": kind, "model_max_length": max_length, **settings}
    write_json(os.path.join(folder, CONFIG), stated)


def put_around(made: Tokenizer, cls: str, sep: str) -> None:
    """Let a tokenizer put BERT's tokens around texts and pairs."""
    made.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, made.token_to_id(token)) for token in (cls, sep)],
    )


# Of families whose tokenizers are of no kind that tfnlp learns.
TOKENIZER_JSON = TokenizerFiles()

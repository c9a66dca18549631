"""Reading `tokenizer.json` of the tokenizers library: all that transformers 5 writes.

A file is checked part by part, and what tfnlp's tokenizers would do in another way is refused, so
that a tokenizer which is made gives the ids of the file's own.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.tensors import Refused, reading
from tfnlp.checkpoints.tokenizers.files import (
    FoundTokenizer,
    TokenizerFiles,
    check_size,
    refused,
)
from tfnlp.text import ROBERTA_TOKENS, GPT2Tokenizer, RobertaTokenizer, WordPieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.pipeline import CONFIG, FILE, NotExact, PipelineTokenizer, lowercases, steps_of
from tfnlp.text.wordpiece import CONTINUATION

NAME = FILE
AROUND = ("cls", "sep", "pad", "unk")  # the tokens that an encoder's tokenizer needs
_BERT_NORMALIZER = {
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
_NO_BPE = {
    "dropout": (None, 0.0),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
    "continuing_subword_prefix": (None, ""),
}


@dataclass(frozen=True)
class TokenizerJson:
    """A `tokenizer.json`, its parts checked when they are asked for.

    Attributes:
        path: the file, for messages.
        contents: the JSON object.
        model: its model.
        tokens: by id, those that were added to the model's included.
    """

    path: pathlib.Path
    contents: Mapping[str, Any]
    model: Mapping[str, Any]
    tokens: list[str]

    def check_kind(self, kind: str, model: str) -> None:
        """Raise ValueError if the model is not of the kind ("WordPiece", "BPE", "Unigram")."""
        if self.model.get("type") != kind:
            self.refuse("model.type", self.model.get("type"), f"{kind}, which {model} has")

    def refuse(self, part: str, found: Any, expected: str) -> None:
        """Raise the `Refused` of a part that tfnlp's tokenizers can't do."""
        raise Refused(
            f"{self.path} has {part}={shown(found)}, which tfnlp can't do exactly; expected "
            f"{expected}"
        )

    def lowercase(self) -> bool:
        """Return whether BERT's text cleaning lower-cases."""
        steps = list(steps_of(self.contents.get("normalizer"), "normalizers"))
        bert = next((step for step in steps if step.get("type") == "BertNormalizer"), None)
        if bert is None:
            self.refuse("normalizer", [s.get("type") for s in steps] or None, "BertNormalizer")
        found = {key: bert.get(key, usual) for key, usual in _BERT_NORMALIZER.items()}
        lowercase, strips = found["lowercase"], found["strip_accents"]
        strips = lowercase if strips is None else strips
        for step in steps:
            if step is not bert and step.get("type") not in ("Lowercase", "StripAccents"):
                self.refuse("normalizer", step.get("type"), "BertNormalizer alone")
            lowercase = lowercase or step.get("type") == "Lowercase"
            strips = strips or step.get("type") == "StripAccents"
        if not (found["clean_text"] and found["handle_chinese_chars"]):
            self.refuse("normalizer", bert, "clean_text and handle_chinese_chars")
        if lowercase != strips:
            self.refuse(
                "normalizer",
                {"lowercase": lowercase, "strip_accents": strips},
                "both or neither, as BERT's uncased and cased models",
            )
        self._check_only("pre_tokenizer", "pretokenizers", {"type": "BertPreTokenizer"})
        return bool(lowercase)

    def check_wordpieces(self) -> None:
        """Check that text is cleaned and cut as by a `WordPieceTokenizer`."""
        with reading(self.path):
            self.check_kind("WordPiece", "this model")
            self.lowercase()
            self.check_added()
            prefix = self.model.get("continuing_subword_prefix", CONTINUATION)
            if prefix != CONTINUATION:
                self.refuse("model.continuing_subword_prefix", prefix, CONTINUATION)

    def check_bytes(self) -> None:
        """Check that text is cut and encoded as GPT-2 does it."""
        self.check_kind("BPE", "this model")
        self._check_bpe()
        if self.model.get("end_of_word_suffix"):
            self.refuse("model.end_of_word_suffix", self.model["end_of_word_suffix"], "none")
        if self.contents.get("normalizer") is not None:
            self.refuse("normalizer", self.contents["normalizer"], "none, as in GPT-2")
        usual = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
        self._check_only("pre_tokenizer", "pretokenizers", usual)

    def check_words(self) -> None:
        """Check that words are merged as GPT does it; its text cleaning is known by this alone."""
        self._check_bpe()
        self.lowercase() or self.refuse("normalizer", "a cased one", "a lower-cased one, as GPT")

    def tells_second(self) -> bool:
        """Return whether the second text of a pair is told by its type, as in BERT."""
        for step in steps_of(self.contents.get("post_processor"), "processors"):
            if step["type"] == "TemplateProcessing":
                types = [next(iter(part.values()))["type_id"] for part in step["pair"]]
                return types == [0, 0, 0, 1, 1]
        return True

    def template(self, name: str) -> list[str | int]:
        """Return what stands around "single" or "pair": "A" and "B" for texts, ids for tokens."""
        after = self.contents.get("post_processor")
        if after is None or after.get("type") == "ByteLevel":  # which changes no ids
            return ["A"] if name == "single" else ["A", "B"]
        parts, special = after.get(name), after.get("special_tokens")
        if after.get("type") != "TemplateProcessing" or not isinstance(parts, list):
            self.refuse("post_processor", after.get("type"), "TemplateProcessing")
        found: list[str | int] = []
        for part in parts:
            if "Sequence" in part:
                found.append(part["Sequence"].get("id"))
            else:
                ids = (special or {}).get(part["SpecialToken"].get("id"), {}).get("ids")
                found += ids if isinstance(ids, list) else [-1]
        return found

    def merges(self) -> list[tuple[str, str]]:
        """Return the merges of a BPE."""
        found = []
        for number, merge in enumerate(_of(self.model, "merges", list) or []):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            is_pair = isinstance(pair, list) and len(pair) == 2
            if not is_pair or not all(isinstance(symbol, str) and symbol for symbol in pair):
                raise Refused(
                    f"{self.path} has {shown(merge)} as merge {number}; expected two symbols"
                )
            found.append((pair[0], pair[1]))
        return found

    def check_added(self) -> None:
        """Check that the tokens that were added are special: text with others is cut at them."""
        for token in _of(self.contents, "added_tokens", list) or []:
            if token.get("special") is not True:
                self.refuse("added_tokens", token.get("content"), "special tokens only")

    def _check_bpe(self) -> None:
        for key, allowed in _NO_BPE.items():
            if self.model.get(key, allowed[0]) not in allowed:
                self.refuse(f"model.{key}", self.model[key], f"{allowed[0]}")
        self.check_added()

    def _check_only(self, part: str, several: str, usual: Mapping[str, Any]) -> None:
        """Refuse a part that is not the usual one, in a `Sequence` or not."""
        steps = list(steps_of(self.contents.get(part), several))
        wrong = len(steps) != 1 or any(steps[0].get(k, v) != v for k, v in usual.items())
        if wrong:
            found = steps[0] if len(steps) == 1 else [step.get("type") for step in steps]
            self.refuse(part, found, ", ".join(f"{k}={v}" for k, v in usual.items()))


def read_tokenizer_json(path: pathlib.Path) -> TokenizerJson:
    """Read a `tokenizer.json`."""
    contents = read_json(path)
    model = contents.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise Refused(f"{path} has no model with a vocab; is it of the tokenizers library?")
    vocab = model["vocab"]
    if isinstance(vocab, list):  # of a Unigram: pairs of token and score
        ok = all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in vocab)
        if not ok:
            raise Refused(f"{path} has a vocab that is no list of tokens with their scores")
        ids = {i: pair[0] for i, pair in enumerate(vocab)}
    else:
        ids = {}
        for token, i in vocab.items():
            _set(path, ids, token, i)
    added = _of(contents, "added_tokens", list) or []
    for token in added:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise Refused(f"{path} has {shown(token)} in added_tokens; expected a token")
        _set(path, ids, token["content"], token.get("id"))
    absent = next((i for i in range(len(ids)) if i not in ids), None)
    if absent is not None or not ids:
        raise Refused(f"{path} gives no token the id {absent or 0}; expected 0, 1, 2, ...")
    return TokenizerJson(path, contents, model, [ids[i] for i in range(len(ids))])


def _set(path: pathlib.Path, ids: dict[int, str], token: str, i: Any) -> None:
    if type(i) is not int or i < 0:
        raise Refused(f"{path} gives {shown(token)} the id {shown(i)}; expected 0 or more")
    if ids.setdefault(i, token) != token:
        raise Refused(f"{path} gives the id {i} to {shown(ids[i])} and to {shown(token)}")


def _of(contents: Mapping[str, Any], key: str, kind: type) -> Any:
    value = contents.get(key)
    return value if isinstance(value, kind) else None


def find_json(
    folder: pathlib.Path,
    vocab: str | os.PathLike | None,
    lowercase: bool | None,
    vocab_size: int,
    loader: str,
    *others: str,
) -> FoundTokenizer:
    """Return the tokenizer of a `tokenizer.json`: see `TokenizerFiles`.

    `others` are names of files that could be there instead, for messages.
    """
    path = pathlib.Path(vocab) if vocab is not None else folder / NAME
    if vocab is None and not path.is_file():
        names = " or ".join([*others, NAME])
        absent = f"the checkpoint has no {names} beside it; pass vocab= to {loader}"
        return refused(absent, lowercase=lowercase)
    found = find_pipeline(path, vocab_size)
    if lowercase in (None, found.lowercase):
        return found
    reason = f"lowercase={lowercase}: {path} says itself how text is read; leave it out"
    return refused(reason, str(path), lowercase)


def find_pipeline(
    path: pathlib.Path, vocab_size: int, needs: Sequence[str] = AROUND
) -> FoundTokenizer:
    """Return the tokenizer that a `tokenizer.json` describes, whatever it is made of.

    Args:
        path: the file; settings are read from `tokenizer_config.json` beside it.
        vocab_size: rows of the model's table.
        needs: the special tokens that the model can't do without.
    """
    try:
        found = read_tokenizer_json(path)
    except ValueError as error:
        return refused(str(error), str(path))
    check_size(str(path), len(found.tokens), vocab_size)
    make = functools.partial(_pipeline, found, tuple(needs))
    try:
        return FoundTokenizer(make, str(path), lowercases(found.contents))
    except ValueError as error:
        return refused(f"{path} has a normalizer that can't be read: {error}", str(path))


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


def plain_tokenizer(tokenizer: PipelineTokenizer) -> Any:
    """Return tfnlp's own tokenizer of word pieces or bytes that stands for a `tokenizer.json`.

    Raises:
        Refused: there is none; the message names the part that is different.
    """
    contents = json.loads(tokenizer.contents)
    tokens = tokenizer.vocabulary
    found = TokenizerJson(pathlib.Path(NAME), contents, contents["model"], tokens)
    if tokenizer.kind == "WordPiece":
        found.check_wordpieces()
        return WordPieceTokenizer(tokens, tokenizer.lowercase)
    found.check_bytes()
    kind = RobertaTokenizer if {*ROBERTA_TOKENS} <= {*tokens} else GPT2Tokenizer
    return kind((tokens, tokenizer.merges))


def write_pipeline(folder: str, tokenizer: PipelineTokenizer, max_length: int) -> None:
    """Write the two files of a tokenizer that was read from them."""
    tokenizer.write(folder)
    names = {
        f"{name}_token": tokenizer.vocabulary[getattr(tokenizer, f"{name}_id")]
        for name in (*AROUND, "mask")
        if getattr(tokenizer, f"{name}_id") >= 0
    }
    # The class that takes all from tokenizer.json.
    write_config(folder, "PreTrainedTokenizerFast", max_length, names | tokenizer.config)


def write_config(folder: str, kind: str, max_length: int, settings: Mapping[str, Any]) -> None:
    """Write `tokenizer_config.json`."""
    stated = {"tokenizer_class": kind, "model_max_length": max_length, **settings}
    write_json(os.path.join(folder, CONFIG), stated)


# Of families whose tokenizers are of no kind that tfnlp learns.
TOKENIZER_JSON = TokenizerFiles(find_json, write_pipeline, (NAME, CONFIG))

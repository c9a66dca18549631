"""Reading `tokenizer.json` of the tokenizers library: all that transformers 5 writes.

A file is executed as it stands, or tfnlp's own tokenizer of the kind stands for it: where the two
would not give the same ids, the part that is different is refused.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import normalizers

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Refused, reading
from tfnlp.text import ROBERTA_TOKENS, GPT2Tokenizer, RobertaTokenizer, WordPieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.pipeline import FILE, PipelineTokenizer, steps_of
from tfnlp.text.pipeline.library import made
from tfnlp.text.wordpiece import CONTINUATION

NAME = FILE
_BERT_STEPS = {"BertNormalizer", "Lowercase", "StripAccents"}
_CLEANED = " \tÁe\u0301\u200d\x00北İ ﬁ "  # what normalizers of other settings change otherwise
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
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
        tokens: by id, those that were added to the model's included.
    """

    path: pathlib.Path
    contents: Mapping[str, Any]
    tokens: list[str]

    @property
    def model(self) -> Mapping[str, Any]:
        """Its model."""
        return self.contents["model"]

    def refuse(self, part: str, found: Any, expected: str) -> None:
        """Raise the `Refused` of a part that tfnlp's tokenizers can't do."""
        raise Refused(
            f"{self.path} has {part}={shown(found)}, which tfnlp can't do exactly; expected "
            f"{expected}"
        )

    def check_wordpieces(self) -> None:
        """Check that text is cleaned and cut as by a `WordPieceTokenizer`."""
        with reading(self.path):
            self._check_kind("WordPiece")
            self._lowercase()
            self._check_added()
            prefix = self.model.get("continuing_subword_prefix", CONTINUATION)
            if prefix != CONTINUATION:
                self.refuse("model.continuing_subword_prefix", prefix, CONTINUATION)

    def check_bytes(self) -> None:
        """Check that text is cut and encoded as GPT-2 does it."""
        with reading(self.path):
            self._check_bpe()
            if self.model.get("end_of_word_suffix"):
                self.refuse("model.end_of_word_suffix", self.model["end_of_word_suffix"], "none")
            if self.contents.get("normalizer") is not None:
                self.refuse("normalizer", self.contents["normalizer"], "none, as in GPT-2")
            self._check_cut(_BYTE_LEVEL)

    def words(self) -> tuple[list[str | None], list[tuple[str, str]]]:
        """Return tokens and merges; check that words are merged as GPT does it.

        Its text cleaning is known by that alone.
        """
        with reading(self.path):
            self._check_bpe()
            self._lowercase() or self.refuse("normalizer", "a cased one", "a lower-cased one")
            return list(self.tokens), self.merges()

    @property
    def of_words(self) -> bool:
        """Whether it is that of a GPT, whose text cleaning it does not tell."""
        return self.model.get("end_of_word_suffix") == "</w>"

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
        for number, merge in enumerate(self.model.get("merges") or ()):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            is_pair = isinstance(pair, list) and len(pair) == 2
            if not is_pair or not all(isinstance(symbol, str) and symbol for symbol in pair):
                raise Refused(
                    f"{self.path} has {shown(merge)} as merge {number}; expected two symbols"
                )
            found.append((pair[0], pair[1]))
        return found

    def _check_kind(self, kind: str) -> None:
        if self.model.get("type") != kind:
            self.refuse("model.type", self.model.get("type"), f"{kind}, which this model has")

    def _check_bpe(self) -> None:
        self._check_kind("BPE")
        for key, allowed in _NO_BPE.items():
            if self.model.get(key, allowed[0]) not in allowed:
                self.refuse(f"model.{key}", self.model[key], f"{allowed[0]}")
        self._check_added()

    def _check_added(self) -> None:
        """Check that the tokens that were added are special: text with others is cut at them."""
        for token in self.contents.get("added_tokens") or ():
            if token.get("special") is not True:
                self.refuse("added_tokens", token.get("content"), "special tokens only")

    def _check_cut(self, usual: Mapping[str, Any]) -> None:
        """Check that the pre-tokenizer is the usual one, in a `Sequence` or not."""
        steps = list(steps_of(self.contents.get("pre_tokenizer"), "pretokenizers"))
        if len(steps) != 1 or any(steps[0].get(key, x) != x for key, x in usual.items()):
            self.refuse("pre_tokenizer", steps, ", ".join(f"{k}={v}" for k, v in usual.items()))

    def _lowercase(self) -> bool:
        """Return whether BERT's text cleaning lower-cases; check that text is cleaned by it."""
        part = self.contents.get("normalizer")
        self._check_cut({"type": "BertPreTokenizer"})
        if {step.get("type") for step in steps_of(part, "normalizers")} <= _BERT_STEPS and part:
            found = made({"normalizer": part}).normalizer.normalize_str(_CLEANED)
            for lowercase in (True, False):
                bert = normalizers.BertNormalizer(lowercase=lowercase)
                if found == bert.normalize_str(_CLEANED):
                    return lowercase
        self.refuse("normalizer", part, "that of BERT's uncased or cased models")


def read_tokenizer_json(path: pathlib.Path) -> TokenizerJson:
    """Read a `tokenizer.json`."""
    contents = read_json(path)
    model = contents.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise Refused(f"{path} has no model with a vocab; is it of the tokenizers library?")
    vocab, added = model["vocab"], contents.get("added_tokens") or []
    if isinstance(vocab, list):  # of a Unigram: pairs of token and score
        ok = all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in vocab)
        if not ok:
            raise Refused(f"{path} has a vocab that is no list of tokens with their scores")
        pairs = [(pair[0], i) for i, pair in enumerate(vocab)]
    else:
        pairs = [*vocab.items()]
    for token in added if isinstance(added, list) else [added]:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise Refused(f"{path} has {shown(token)} in added_tokens; expected a token")
        pairs.append((token["content"], token.get("id")))
    ids: dict[int, str] = {}
    for token, i in pairs:
        if type(i) is not int or i < 0:
            raise Refused(f"{path} gives {shown(token)} the id {shown(i)}; expected 0 or more")
        if ids.setdefault(i, token) != token:
            raise Refused(f"{path} gives the id {i} to {shown(ids[i])} and to {shown(token)}")
    absent = next((i for i in range(len(ids)) if i not in ids), None)
    if absent is not None or not ids:
        raise Refused(f"{path} gives no token the id {absent or 0}; expected 0, 1, 2, ...")
    return TokenizerJson(path, contents, [ids[i] for i in range(len(ids))])


def plain_tokenizer(tokenizer: Any) -> Any:
    """Return tfnlp's own tokenizer of word pieces or bytes that stands for one, mostly itself.

    Raises:
        Refused: for a `tokenizer.json` there is none; the message names the part that is different.
    """
    if not isinstance(tokenizer, PipelineTokenizer):
        return tokenizer
    tokens = tokenizer.vocabulary
    found = TokenizerJson(pathlib.Path(NAME), json.loads(tokenizer.contents), tokens)
    if tokenizer.kind == "WordPiece":
        found.check_wordpieces()
        return WordPieceTokenizer(tokens, tokenizer.lowercase)
    found.check_bytes()
    kind = RobertaTokenizer if {*ROBERTA_TOKENS} <= {*tokens} else GPT2Tokenizer
    return kind((tokens, tokenizer.merges))

"""All steps of a `tokenizer.json`, one after the other."""

import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tokenizers import Tokenizer

from tfnlp.text.packing import merge_words
from tfnlp.text.pipeline.added_tokens import AddedTokens
from tfnlp.text.pipeline.characters import read_text
from tfnlp.text.pipeline.gpt2_words import WordBytes, kinds_of_library
from tfnlp.text.pipeline.models import Cut, byte_model, make_model
from tfnlp.text.pipeline.normalizers import make_normalizers, steps_of
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.pre_tokenizers import make_splitters, words_of
from tfnlp.text.wordpiece import (
    CASED_WORD,
    CONTINUATION,
    MAX_TOKEN_BYTES,
    UNCASED_WORD,
    fast_wordpiece,
    simple,
)

Fast = tuple[str, Callable[[tf.Tensor], tf.RaggedTensor]]

_MOST_CHARACTERS = 200  # of a word, in the pattern: its automaton grows with them


class Pipeline:
    """Strings to ids, by the parts of a JSON object, of which the library's tokenizer is `made`.

    With `split_special_tokens` those that a text has written are text. A part that is not executed
    exactly raises `NotExact`.
    """

    def __init__(
        self, parts: Mapping[str, Any], made: Tokenizer, split_special_tokens: bool = False
    ) -> None:
        found = [token for token in parts.get("added_tokens") or () if token["content"]]
        raw = [token for token in found if not token["normalized"]]
        others = [token for token in found if token["normalized"]]
        self._steps = (
            *_added(raw, None, split_special_tokens),
            *make_normalizers(parts.get("normalizer")),
            *_added(others, made.normalizer, split_special_tokens),
        )
        self._splitters = make_splitters(parts.get("pre_tokenizer"))
        single = _single_words(made)
        self._model, cut = make_model(_model(parts, made), single)
        spellings = [*_spellings(raw, None), *_spellings(others, made.normalizer)]
        self._fast = _fast_bert(parts, spellings) or _fast_bytes(parts, spellings, single, cut)

    def encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        if self._fast is None:
            return self._all_steps(strings)
        pattern, encode = self._fast
        fast = tf.strings.regex_full_match(strings, pattern)
        quick = encode(tf.where(fast, strings, "")).with_row_splits_dtype(tf.int64)

        def both() -> tuple[tf.Tensor, tf.Tensor]:
            other = self._all_steps(tf.where(fast, "", strings))
            ids = tf.concat([quick, other], 1)
            return ids.values, ids.row_splits

        values, splits = tf.cond(
            tf.reduce_all(fast), lambda: (quick.values, quick.row_splits), both
        )
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def _all_steps(self, strings: tf.Tensor) -> tf.RaggedTensor:
        text = read_text(strings)
        for step in self._steps:
            text = step(text)
        words = words_of(text)
        for split in self._splitters:
            words = split(words)
        starts = tf.where(words.begins)[:, 0]
        stops = tf.concat([starts[1:], words.splits[-1:]], 0)[: tf.size(starts)]
        ids = self._model.encode(words.chars, starts, stops)
        rows = tf.searchsorted(starts, tf.gather(words.splits, text.rows), out_type=tf.int64)
        return merge_words(tf.RaggedTensor.from_row_splits(ids, rows, validate=False))


def _model(parts: Mapping[str, Any], made: Tokenizer) -> Mapping[str, Any]:
    """Return the model, its scores those that the library has: it may round others by a bit."""
    if parts["model"].get("type") != "Unigram":
        return parts["model"]
    return parts["model"] | {"vocab": json.loads(made.to_str())["model"]["vocab"]}


def _added(tokens: Sequence[Mapping[str, Any]], normalizer: Any, as_text: bool) -> list[Any]:
    if not tokens:
        return []
    spellings = _spellings(tokens, normalizer)
    if "" in spellings or len(set(spellings)) < len(spellings):
        raise NotExact("added_tokens of which two are looked for as the same text, or one as none")
    return [AddedTokens(tokens, spellings, as_text).find]


def _spellings(tokens: Sequence[Mapping[str, Any]], normalizer: Any) -> list[str]:
    """Return what is looked for in texts, which for some tokens are normalized before."""
    spellings = [token["content"] for token in tokens]
    return spellings if normalizer is None else [*map(normalizer.normalize_str, spellings)]


def _single_words(made: Tokenizer) -> dict[str, int]:
    """Return the tokens that are one token as words, too."""
    cut = made.model.tokenize
    vocab = made.get_vocab(with_added_tokens=False)
    return {t: i for t, i in vocab.items() if t and [found.id for found in cut(t)] == [i]}


def _fast_bert(parts: Mapping[str, Any], spellings: Sequence[str]) -> Fast | None:
    """Return how BERT's own tokenizer cuts some texts in a fraction of the time, if it can.

    Nearly all rows of English text are such. Their pattern, which comes first, is narrow enough
    that it and the tokenizers library can't differ. `spellings` are the added tokens in texts.
    """
    model = parts["model"]
    normalizers = list(steps_of(parts.get("normalizer"), "normalizers"))
    splitters = list(steps_of(parts.get("pre_tokenizer"), "pretokenizers"))
    if (
        [step["type"] for step in normalizers] != ["BertNormalizer"]
        or not normalizers[0]["handle_chinese_chars"]
        or [step["type"] for step in splitters] != ["BertPreTokenizer"]
        or model["type"] != "WordPiece"
        or model.get("continuing_subword_prefix", CONTINUATION) != CONTINUATION
    ):
        return None
    firsts = {text[0] for text in spellings}
    tokens = tuple(sorted(model["vocab"], key=model["vocab"].get))
    usual = all(0 < len(token.encode()) <= MAX_TOKEN_BYTES for token in tokens)
    usual &= sorted(model["vocab"].values()) == list(range(len(tokens)))
    longest = min(model.get("max_input_chars_per_word", 100), _MOST_CHARACTERS)
    if not usual or longest < 1 or not all(c.isascii() and not c.isalnum() for c in firsts):
        return None
    try:
        cut = fast_wordpiece(tokens, model["unk_token"])
    except RuntimeError:
        return None
    lowercase = normalizers[0]["lowercase"]
    changes = lowercase or normalizers[0]["strip_accents"]
    pattern = simple(UNCASED_WORD if changes else CASED_WORD, longest, firsts)
    return pattern, lambda x: cut.tokenize(tf.strings.lower(x) if lowercase else x)


def _fast_bytes(
    parts: Mapping[str, Any], spellings: Sequence[str], single: Mapping[str, int], cut: Cut
) -> Fast | None:
    """Return how GPT-2's words are cut in the bytes of UTF-8 without added tokens, as `_fast_bert`.

    `single` are the tokens that are one token as words, too.
    """
    splitters = list(steps_of(parts.get("pre_tokenizer"), "pretokenizers"))
    firsts = {text[0] for text in spellings}
    if (
        parts["model"]["type"] != "BPE"
        or parts["model"].get("ignore_merges")
        or parts.get("normalizer") is not None
        or [step["type"] for step in splitters] != ["ByteLevel"]
        or not splitters[0].get("use_regex", True)
        or not all(char in string.punctuation for char in firsts)
    ):
        return None
    words, model = WordBytes(kinds_of_library()), byte_model(single, cut)

    def encode(strings: tf.Tensor) -> tf.RaggedTensor:
        if splitters[0]["add_prefix_space"]:
            first = tf.strings.substr(strings, 0, 1)
            bare = (first != "") & (first != " ")
            strings = tf.strings.join([tf.where(bare, " ", ""), strings])
        data, starts, stops, splits = words.cut(strings)
        ids = model.encode(data, starts, stops)
        return merge_words(tf.RaggedTensor.from_row_splits(ids, splits, validate=False))

    return rf"[^{re.escape(''.join(sorted(firsts)))}\x{{D800}}-\x{{DFFF}}]*", encode

"""All steps of a `tokenizer.json`, one after the other."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tokenizers import Tokenizer

from tfnlp.text.pipeline.added_tokens import AddedTokens
from tfnlp.text.pipeline.characters import read_text
from tfnlp.text.pipeline.fast import fast_bert, fast_bytes
from tfnlp.text.pipeline.models import make_model
from tfnlp.text.pipeline.normalizers import make_normalizers
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.pre_tokenizers import make_splitters, words_of


class Pipeline:
    """Strings to ids.

    Args:
        parts: the JSON object.
        made: the library's tokenizer of it.
        split_special_tokens: read special tokens that a text has written as text.

    Raises:
        NotExact: a part is not executed exactly.
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
        self._model = make_model(_model(parts, made), _single_words(made))
        spellings = [*_spellings(raw, None), *_spellings(others, made.normalizer)]
        self._fast = fast_bert(parts, spellings) or fast_bytes(parts, spellings)

    def encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        if self._fast is None:
            return self._all_steps(strings)
        fast = self._fast.can(strings)
        quick = self._fast.encode(tf.where(fast, strings, "")).with_row_splits_dtype(tf.int64)

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
        ids, starts = self._model.encode(words.chars, words.begins)
        rows = tf.searchsorted(starts, tf.gather(words.splits, text.rows), out_type=tf.int64)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, rows), validate=False
        )


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

"""Texts that BERT's and GPT-2's own tokenizers cut in a fraction of the time.

Nearly all rows of English text are such. The patterns of them are narrow enough that these and the
tokenizers library can't differ.
"""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfnlp.text.gpt2_tokenizer import ByteEncoder, byte_characters
from tfnlp.text.pipeline.normalizers import steps_of
from tfnlp.text.wordpiece import (
    CASED_WORD,
    CONTINUATION,
    MAX_TOKEN_BYTES,
    UNCASED_WORD,
    fast_wordpiece,
    simple,
)

_MOST_CHARACTERS = 200  # of a word, in the pattern: its automaton grows with them


class Fast(NamedTuple):
    """A way to cut some texts.

    Attributes:
        can: function of strings `[B]` to whether it cuts them, bool `[B]`.
        encode: function of strings `[B]` to ids, int32 ragged `[B, (tokens)]`.
    """

    can: Callable[[tf.Tensor], tf.Tensor]
    encode: Callable[[tf.Tensor], tf.RaggedTensor]


def fast_bert(parts: Mapping[str, Any], spellings: Sequence[str]) -> Fast | None:
    """Return the fast way of a `tokenizer.json`, or None.

    Args:
        parts: the JSON object.
        spellings: the added tokens that are looked for, as they are found in texts.
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
    strips = normalizers[0]["strip_accents"]
    changes = lowercase or strips
    pattern = simple(UNCASED_WORD if changes else CASED_WORD, longest, firsts)

    def can(strings: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_full_match(strings, pattern)

    def encode(strings: tf.Tensor) -> tf.RaggedTensor:
        return cut.tokenize(tf.strings.lower(strings) if lowercase else strings)

    return Fast(can, encode)


def fast_bytes(parts: Mapping[str, Any], spellings: Sequence[str]) -> Fast | None:
    """Return the fast way of a `tokenizer.json` of GPT-2's kind, or None: see `fast_bert`."""
    model = parts["model"]
    splitters = list(steps_of(parts.get("pre_tokenizer"), "pretokenizers"))
    if (
        parts.get("normalizer") is not None
        or [step["type"] for step in splitters] != ["ByteLevel"]
        or not splitters[0].get("use_regex", True)
        or model["type"] != "BPE"
        or any(model.get(name) for name in ("ignore_merges", "end_of_word_suffix"))
        or not {*byte_characters()} <= model["vocab"].keys()
    ):
        return None
    firsts = {text[0] for text in spellings}
    if not all(c in string.punctuation for c in firsts):
        return None
    ids = model["vocab"]
    tokens: list[str | None] = [None] * (max(ids.values()) + 1)
    for token, i in ids.items():
        tokens[i] = token
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    encoder = ByteEncoder(tokens, merges, in_turn=True)
    marks = re.escape("".join(char for char in string.punctuation if char not in firsts))
    # Letters, digits and marks that all versions of Unicode know as such.
    pattern = rf"[ \t\n\r0-9A-Za-z{marks}\x{{A1}}-\x{{17F}}\x{{2010}}-\x{{2027}}]*"
    prefixed = splitters[0]["add_prefix_space"]

    def encode(strings: tf.Tensor) -> tf.RaggedTensor:
        if prefixed:
            bare = ~tf.strings.regex_full_match(strings, r"(?: (?s:.*))?")
            strings = tf.strings.join([tf.where(bare, " ", ""), strings])
        return encoder.encode(strings)

    return Fast(lambda strings: tf.strings.regex_full_match(strings, pattern), encode)

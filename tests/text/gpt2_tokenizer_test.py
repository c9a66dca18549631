import functools
import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tests.text import bpe_reference as reference
from tfnlp.text import GPT2Tokenizer
from tfnlp.text.pipeline.gpt2_words import WordBytes


@functools.cache
def published():
    return GPT2Tokenizer(reference.published("gpt2"))


def test_equals_openais_encoder():
    items = json.loads(golden("tokenizer_golden.json").read_text(encoding="utf-8"))["items"]
    texts = [item["text"] for item in items]
    expected = [item["gpt2_ids"] for item in items]
    assert len(texts) > 100
    assert published().tokenize(texts).to_list() == expected
    back = published().detokenize(tf.ragged.constant(expected, tf.int32)).numpy().tolist()
    assert back == [text.encode() for text in texts]


def test_attributes():
    tokens, merges = reference.published("gpt2")
    tokenizer = published()
    assert tokenizer.kind == "gpt2" and tokenizer.vocab_size == 50257
    assert tokenizer.end_id == 50256 and tokens[50256] == "<|endoftext|>"
    assert tokenizer.vocabulary == tokens and tokenizer.merges == merges
    special = {k: int(v) for k, v in tokenizer.special_tokens_dict().items()}
    assert special == dict(vocab_size=50257, end_of_text_id=50256)
    ids = tokenizer.tokenize(["<|endoftext|>"])
    assert ids.dtype == tf.int32 and 50256 not in ids.to_list()[0]
    assert tokenizer.detokenize(ids).numpy() == [b"<|endoftext|>"]
    assert tokenizer.detokenize(tf.constant([[50256, 31373, 50256]])).numpy() == [b"hello"]


PIECES = st.sampled_from(
    [b" ", b"  ", b"\n", b"\t", b"\r\n", "\u3000".encode(), b"\xc2\xa0", b"\xc2\x85", b"'", b"''"]
    + [b"'s", b"'t", b"'re", b"'ve", b"'m", b"'ll", b"'d", b"'l", b"'S", b"r", b"ab", b"aa", b"Ba"]
    + [c.encode() for c in "é博ß😀Ж१½²—\u0301\u200d\ufeff\x1c\x00"]
    + [b"7", b"12", b"!", b"...", b"\xff", b"\xc3", b"\xe4\xb8", b"\x80", b"\xed\xa0\x80"]
    + [b"\xc0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xe3\x80"]
)
BYTES = st.one_of(st.binary(max_size=12), st.lists(PIECES, max_size=12).map(b"".join))
ROWS = st.lists(BYTES, min_size=1, max_size=8)
FUZZ = hypothesis.settings(derandomize=True, max_examples=150, deadline=None, database=None)


@pytest.mark.slow
@FUZZ
@hypothesis.given(rows=ROWS)
def test_fuzz_against_plain_python(rows):
    tokens, merges = reference.published("gpt2")
    ids = published().tokenize(rows)
    expected = [reference.gpt2_tokens(row, merges) for row in rows]
    assert [[tokens[i] for i in row] for row in ids.to_list()] == expected
    assert published().detokenize(ids).numpy().tolist() == rows


def test_every_byte_and_every_token_comes_back():
    every = [bytes([i]) for i in range(256)] + [bytes(range(256)), b"\0\0", b""]
    assert published().detokenize(published().tokenize(every)).numpy().tolist() == every
    # Also for a token whose text is split into other tokens.
    ids = tf.range(50256)[:, None]
    texts = published().detokenize(ids)
    again = published().detokenize(published().tokenize(texts))
    np.testing.assert_array_equal(again, texts)
    assert len(set(texts.numpy().tolist())) == 50256


@pytest.mark.slow
def test_every_character_is_cut_as_its_kind():
    """Between two letters: a letter joins them, all else makes three words, or two."""
    chars = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    *_, splits = WordBytes().cut(tf.constant([f"a{c}a" for c in chars]))
    counts = np.diff(splits)
    expected = [1 if reference.kind_of(c) == "letter" else 2 if c == " " else 3 for c in chars]
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.slow
def test_parts_of_a_vocabulary():
    tokenizer = GPT2Tokenizer(golden("gpt2_openai_tf"))
    assert tokenizer.vocab_size == 13435 and tokenizer.end_id is None
    text = "Power, give me more power!"
    ids = tokenizer.tokenize([text])
    assert ids.to_list() == [[13434, 11, 1577, 502, 517, 1176, 0]]
    assert tokenizer.detokenize(ids).numpy() == [text.encode()]
    assert tokenizer.vocabulary[1] is None and tokenizer.vocabulary[502] == "Ġme"
    assert tokenizer.detokenize(tf.constant([[1, 0]])).numpy() == ["\ufffd!".encode()]
    for text in ("Power, give me more tea!", " gi", "\xff"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="tokens that the vocabulary lac"):
            tokenizer.tokenize([text])
    whole = GPT2Tokenizer((["a", "b", "ab"], [("a", "b")]))  # also where the ids have no holes
    assert whole.tokenize(["abba"]).to_list() == [[2, 1, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="tokens that the vocabulary lacks"):
        whole.tokenize(["abc"])

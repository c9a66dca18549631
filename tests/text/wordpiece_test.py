import functools
import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tests.text import reference
from tests.text.normalize_test import OLD
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, read_vocabulary


@functools.cache
def bert(casing):
    return WordPieceTokenizer(reference.bert_vocabulary(casing), lowercase=casing == "uncased")


@pytest.fixture(params=["uncased", "cased"])
def casing(request):
    return request.param


def test_equals_googles_tokenizer(casing):
    items = json.loads(golden("tokenizer_golden.json").read_text(encoding="utf-8"))["items"]
    texts = [item["text"] for item in items]
    expected = [item[f"bert_{casing}_ids"] for item in items]
    assert len(texts) > 100
    assert bert(casing).tokenize(texts).to_list() == expected
    tokens = bert(casing).id_to_token(bert(casing).tokenize(texts)).to_list()
    assert [[t.decode() for t in row] for row in tokens] == [i[f"bert_{casing}"] for i in items]


def test_googles_unit_tests():
    cases = json.loads(golden("google_bert_tokenization_cases.json").read_text(encoding="utf-8"))
    full = cases["full"]
    tokenizer = WordPieceTokenizer([*full["vocab"], "[PAD]", "[MASK]"])
    ids = tokenizer.tokenize([full["text"]])
    assert ids.to_list() == [full["ids"]]
    assert tokenizer.id_to_token(ids).to_list() == [[t.encode() for t in full["tokens"]]]
    for text, tokens in cases["wordpiece"]:
        pieces = tokenizer.id_to_token(tokenizer.tokenize([text])).to_list()[0]
        assert [t.decode() for t in pieces] == tokens

    def words(text, lowercase, expected):
        whole = WordPieceTokenizer([*SPECIAL_TOKENS, *dict.fromkeys(expected)], lowercase)
        return [t.decode() for t in whole.id_to_token(whole.tokenize([text])).to_list()[0]]

    for lowercase, key in ((True, "basic_lower"), (False, "basic_no_lower")):
        for text, expected in cases[key]:
            assert words(text, lowercase, expected) == expected
    chinese = cases["chinese"]
    assert words(chinese["text"], True, chinese["tokens"]) == chinese["tokens"]

    # The kind of a character follows from the result for it between two letters.
    letters = WordPieceTokenizer([*SPECIAL_TOKENS, "x", "##x", "A", "##A", "-"], lowercase=False)

    def between(char):
        return letters.tokenize([f"x{char}x"]).to_list()[0]

    for char, white in cases["is_whitespace"].items():
        assert (between(char) == [5, 5]) == white, repr(char)
    for char, control in cases["is_control"].items():
        assert (between(char) == [5, 6]) == control, repr(char)
    for char, punctuation in cases["is_punctuation"].items():
        splits = len(between(char)) == 3 and between(char) != [5, 8, 6]
        assert splits == punctuation, repr(char)


SCRIPTS = [
    [char for char in OLD if first <= ord(char) <= last]
    for first, last in [
        (0x0, 0x20), (0x20, 0x7F), (0x7F, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF),
        (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F),
        (0x20A0, 0x27BF), (0x3000, 0x30FF), (0x4E00, 0x4EFF), (0xAC00, 0xACFF), (0xE000, 0xE00F),
        (0xF900, 0xF9FF), (0xFB00, 0xFB4F), (0xFE00, 0xFFFD), (0x1D100, 0x1D1FF),
        (0x1D400, 0x1D4FF), (0x20000, 0x200FF), (0x2F800, 0x2F8FF), (0xE0001, 0xE007F),
    ]
]  # fmt: skip
EMOJI = list(map(chr, range(0x1F600, 0x1F640)))
FRAGMENTS = st.one_of(
    st.sampled_from(["The", "unaffable", "Straße", "ΣΊΣΥΦΟΣ", "ΌΔΟΣ", "İstanbul", "ﬁne", "naïve"]),
    st.sampled_from([" ", "\t", "\u3000", "\u2028", "\u200d", "\ufeff", "##", "[MASK]", "'", "\0"]),
    st.sampled_from(["東京", "か\u3099", "e\u0301", "\u0301", "½", "K", "Å", "œ", "ʼn", "\xad"]),
    st.sampled_from(SCRIPTS + [EMOJI]).flatmap(
        lambda script: st.text(st.sampled_from(script), min_size=1, max_size=6)
    ),
    st.builds(lambda unit, n: unit * n, st.sampled_from("aéж1"), st.integers(195, 205)),
)
TEXTS = st.lists(st.lists(FRAGMENTS, max_size=12).map("".join), min_size=1, max_size=6)


@pytest.mark.slow
@hypothesis.settings(derandomize=True, max_examples=60, deadline=None, database=None)
@hypothesis.given(texts=TEXTS)
def test_fuzz_against_plain_python(texts):
    for casing in ("uncased", "cased"):
        tokenizer = bert(casing)
        ids = {token: index for index, token in enumerate(tokenizer.vocabulary)}
        expected = [reference.tokenize(text, ids, casing == "uncased") for text in texts]
        assert tokenizer.tokenize_words(texts).to_list() == expected
        assert tokenizer.tokenize(texts).to_list() == [sum(row, []) for row in expected]


def test_attributes(casing):
    tokenizer = bert(casing)
    vocabulary = reference.bert_vocabulary(casing)
    assert tokenizer.vocabulary == vocabulary and tokenizer.vocab_size == len(vocabulary)
    assert tokenizer.lowercase == (casing == "uncased")
    named = dict(pad_id=0, unk_id=100, cls_id=101, sep_id=102, mask_id=103)
    assert {name: getattr(tokenizer, name) for name in named} == named
    np.testing.assert_array_equal(
        tokenizer.is_continuation, [t.startswith("##") for t in vocabulary]
    )
    special = tokenizer.special_tokens_dict()
    assert all(value.dtype == tf.int32 and value.shape == () for value in special.values())
    assert {name: int(value) for name, value in special.items()} == dict(
        vocab_size=len(vocabulary),
        padding_id=0,
        start_of_sequence_id=101,
        end_of_segment_id=102,
        mask_id=103,
    )


SMALL = [*SPECIAL_TOKENS, "un", "##want", "##ed", "#", "run", "##ning", ",", "¿", "##!"]


def test_detokenize():
    tokenizer = WordPieceTokenizer(SMALL)
    ids = tf.ragged.constant([[5, 6, 7, 11, 9, 10], [], [8, 8, 9], [7, 9], [1, 4]], dtype=tf.int32)
    expected = [b"unwanted , running", b"", b"# # run", b"ed run", b"[UNK] [MASK]"]
    assert tokenizer.detokenize(ids).numpy().tolist() == expected
    words = tokenizer.tokenize_words(["unwanted, running", "", "##run"])
    assert tokenizer.detokenize(words).numpy().tolist() == expected[:3]
    dense = tf.constant([[2, 5, 6, 7, 3, 9, 3], [2, 8, 9, 3, 0, 0, 0]])
    assert tokenizer.detokenize(dense).numpy().tolist() == [b"unwanted run", b"# run"]


def test_vocabulary_from_file_keeps_its_own_copy(tmp_path):
    path = tmp_path / "crlf.txt"
    path.write_bytes("\r\n".join(SMALL).encode())
    tokenizer = WordPieceTokenizer(path)
    path.unlink()
    copy = tokenizer.vocabulary_asset.asset_path.numpy().decode()
    assert tokenizer.vocabulary == SMALL == read_vocabulary(copy)


def test_faulty_vocabularies(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.txt"):
        WordPieceTokenizer(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="^vocabulary has 7 as token 14"):
        WordPieceTokenizer([*SMALL, 7])

"""Readers: layout, truncation and ids against plain Python."""

import numpy as np
import pytest
import tensorflow as tf

from tests.hub import gpt_toy
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer
from tfnlp.text.task_readers import BertReader, GPTReader, WordReader

TOKENIZER = WordPieceTokenizer([*SPECIAL_TOKENS, "the", "cat", "##s", "sat", "a", ".", "é"], False)
TEXTS = (["the cats sat.", "", "a é"], ["cats", "a cat sat a cat .", "\u200b"])


def gpt(kind):
    tokenizer = gpt_toy.tokenizer(kind)
    special = [tokenizer.vocab_size + i for i in range(3)]
    return GPTReader(tokenizer, special), special


def fair(sizes, room):
    """How many tokens of each are kept, given one at a time to each in turn."""
    kept = [0] * len(sizes)
    while room and kept != list(sizes):
        for i, size in enumerate(sizes):
            if kept[i] < size and room:
                kept[i], room = kept[i] + 1, room - 1
    return kept


def check_layout(reader, segments, max_length, first, ends, padding, null):
    got = {name: x.numpy() for name, x in reader.pack(segments, max_length).items()}
    rows = list(zip(*(s.to_list() for s in segments), strict=True))
    longest = max(1 + sum(map(len, row)) + len(row) for row in rows)
    width = min(max_length, longest)
    of_rows, of_tokens = {"null_positions", "is_cut"}, {"input_word_ids", "input_mask"}
    assert set(got) == {*of_rows, *of_tokens, "input_type_ids"}
    for name, column in got.items():
        assert column.dtype == np.int32, name
        assert column.shape == ((len(rows),) if name in of_rows else (len(rows), width))
    for n, row in enumerate(rows):
        kept = fair([len(s) for s in row], max_length - 1 - len(row))
        ids, types = [first], [0]
        for index, (segment, size, end) in enumerate(zip(row, kept, ends, strict=True)):
            ids += [*segment[:size], end]
            types += [index] * (size + 1)
        rest = width - len(ids)
        assert got["is_cut"][n] == (kept != [len(s) for s in row])
        assert got["input_word_ids"][n].tolist() == ids + [padding] * rest
        assert got["input_mask"][n].tolist() == [1] * len(ids) + [0] * rest
        assert got["input_type_ids"][n].tolist() == types + [0] * rest
        assert got["null_positions"][n] == (len(ids) - 1 if null == "last" else 0)


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
@pytest.mark.parametrize("max_length", [4, 5, 6, 7, 8, 9, 64])
def test_bert_layout(texts, max_length):
    reader = BertReader(TOKENIZER)
    assert (reader.head, reader.style) == ("first", "bert")
    segments, pieces, words = reader.read([tf.constant(t) for t in texts])
    assert pieces is None and words is None
    assert segments[0].to_list() == [[5, 6, 7, 8, 10], [], [9, 11]]
    ends = [TOKENIZER.sep_id] * len(texts)
    check_layout(reader, segments, max_length, TOKENIZER.cls_id, ends, TOKENIZER.pad_id, "first")


@pytest.mark.slow
@pytest.mark.parametrize("kind", gpt_toy.KINDS)
@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_gpt_layout(kind, texts):
    reader, (start, delimiter, extract) = gpt(kind)
    assert reader.head == "last"
    assert reader.style == {"gpt": "treebank", "gpt2": "gpt"}[kind]
    segments, pieces, words = reader.read([tf.constant(t) for t in texts])
    assert pieces is None and words is None
    for got, text in zip(segments, texts, strict=True):
        assert got.to_list() == reader.tokenizer.tokenize(text).to_list()
    ends = [delimiter] * (len(texts) - 1) + [extract]
    for max_length in (4, 7, 64):
        check_layout(reader, segments, max_length, start, ends, 0, "last")


def test_words_are_numbered_through_all_texts():
    reader = WordReader()
    assert (reader.head, reader.style) == ("first", "treebank")
    texts = [["The cat didn't.", "", "a b"], ["x-y 1,5", "c", ""]]
    extra = tf.ragged.constant([["one", "two"], [], ["three"]])
    spaced = tf.ragged.constant([[False, True], [], [False]])
    segments, pieces, words = reader.read([tf.constant(t) for t in texts], extra, spaced)
    want = [["The", "cat", "did", "n't", "."], [], ["a", "b"], ["x-y", "1,5"], ["c"], []]
    want += [["one", "two"], [], ["three"]]
    assert [[w.decode() for w in row] for row in words.to_list()] == want
    assert [s.to_list() for s in segments] == [[[1, 2, 3, 4, 5], [], [6, 7]], [[8, 9], [10], []]]
    assert pieces.to_list() == [[[11], [12]], [], [[13]]]
    for max_length in (4, 6, 64):
        check_layout(reader, segments, max_length, 0, [0, 0], 0, "first")
    # The ids are rows of a table of these words.
    table = ["", *(w for row in want for w in row)]
    ids = reader.pack(segments, 64)["input_word_ids"].numpy()
    assert [table[i] for i in ids[0]] == ["", *want[0], "", *want[3], ""]


@pytest.mark.slow
def test_every_word_has_a_piece():
    words = tf.ragged.constant([["cats", "\u200b", "é"], [], ["\u0301dog", ""]])
    spaced = tf.ragged.constant([[False, True, True], [], [False, True]])
    _, pieces, _ = BertReader(TOKENIZER).read([], words, spaced)
    unknown = TOKENIZER.unk_id
    assert pieces.to_list() == [[[6, 7], [unknown], [11]], [], [[unknown], [unknown]]]
    for kind in gpt_toy.KINDS:
        reader, _ = gpt(kind)
        _, pieces, _ = reader.read([], words, spaced)
        assert [len(row) for row in pieces.to_list()] == [3, 0, 2]
        assert all(len(word) for row in pieces.to_list() for word in row)


@pytest.mark.parametrize(
    "make", [lambda: BertReader(TOKENIZER), lambda: gpt("gpt2")[0], WordReader]
)
def test_no_text_at_all(make):
    reader = make()
    segments, _, _ = reader.read([tf.constant([], "string")] * 2)
    packed = reader.pack(segments, 16)
    assert packed["input_word_ids"].shape == (0, 3) and packed["null_positions"].shape == (0,)

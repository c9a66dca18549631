"""ALBERT beside Hugging Face's: hidden states, heads, tokens, and files both ways.

`tests/goldens/huggingface_encoders.py` made the files that this compares with.
"""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.checkpoints.checkpoints import copied
from tests.support import golden
from tfnlp import checkpoints
from tfnlp.text import SentencePieceTokenizer

GOLDEN = golden("albert_huggingface")


@pytest.fixture(scope="module")
def loaded():
    return checkpoints.load_albert(GOLDEN)


@pytest.fixture(scope="module")
def tokens():
    return json.loads((GOLDEN / "tokens.json").read_text())


@pytest.mark.parametrize(("lowercase", "key"), [(True, "ids"), (False, "cased_ids")])
def test_ids_are_those_of_huggingface(tokens, lowercase, key):
    tokenizer = SentencePieceTokenizer(GOLDEN / "spiece.model", lowercase)
    assert tokenizer.vocabulary == tokens["pieces"]
    ids = tokenizer.tokenize(tf.constant(tokens["texts"]))
    assert ids.to_list() == tokens[key]
    words = tokenizer.tokenize_words(tf.constant(tokens["texts"]))
    assert words.merge_dims(1, 2).to_list() == tokens[key]
    for row in words.to_list():
        for word in row:
            pieces = [tokens["pieces"][i] for i in word]
            assert pieces[0][0] == "▁" and not any(p.startswith("▁") for p in pieces[1:])


def test_masks_in_texts(loaded, tokens):
    from tfnlp.families.encoder import encode

    found, places = encode(loaded, tokens["masked"]["text"])
    assert found["input_word_ids"].numpy().tolist() == [tokens["masked"]["ids"]]
    assert [tokens["masked"]["ids"][place] for place in places] == [4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_tokenizer_json_is_written_and_read(tokens, lowercase, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    loaded = checkpoints.load_albert(GOLDEN, lowercase=lowercase)
    checkpoints.save_albert(loaded.pretrainer, tmp_path / "out", loaded.tokenizer)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    wanted = tokens["ids" if lowercase else "cased_ids"]
    for text, ids in zip(tokens["texts"], wanted, strict=True):
        assert theirs.encode(text, add_special_tokens=False).ids == ids
    assert theirs.encode(tokens["masked"]["text"]).ids == tokens["masked"]["ids"]
    (tmp_path / "out" / "spiece.model").unlink()
    (tmp_path / "out" / "tokenizer_config.json").unlink()
    again = checkpoints.load_albert(tmp_path / "out").tokenizer
    assert again.lowercase == lowercase
    assert again.tokenize(tf.constant(tokens["texts"])).to_list() == wanted


@pytest.mark.parametrize("damaged", [
    {"spiece.model": b""}, {"spiece.model": b"\x0a\xff\xff\xff\xff\x0f not a model"},
    {"spiece.model": None, "tokenizer.json": b"{}"},
    {"spiece.model": None, "tokenizer.json": b'{"model": {"type": "Unigram", "vocab": [["a"'},
    {"tokenizer_config.json": b"\xff"}, {"spiece.model": None},
], ids=str)  # fmt: skip
def test_a_damaged_tokenizer_leaves_the_weights(damaged, loaded, tmp_path):
    """They are as good as ever; who asks for the tokenizer is told."""
    folder = copied(GOLDEN, tmp_path / "x")
    for name, contents in damaged.items():
        (folder / name).unlink(missing_ok=True)
        if contents is not None:
            (folder / name).write_bytes(contents)
    found = tfnlp.load(folder)
    for ours, theirs in zip(found.pretrainer.weights, loaded.pretrainer.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="|".join(map(re.escape, ["no spiece.model", *damaged]))):
        found.tokenizer  # noqa: B018

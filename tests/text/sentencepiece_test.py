"""SentencePiece models: learning them, refusals, and tokenizers in SavedModels."""

import json

import pytest
import tensorflow as tf

from tfnlp.checkpoints.tokenizers.sentencepiece import SENTENCEPIECE
from tfnlp.text import SentencePieceTokenizer, train_sentencepiece

TEXTS = [f"the {colour} garden of {name} ..." for colour in ("red", "green") for name in "abcdef"]


@pytest.fixture(scope="module")
def model():
    return train_sentencepiece(TEXTS, 40)


def test_a_model_has_the_special_ids_of_the_published_ones(model):
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.vocabulary[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    ids = [getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]
    assert ids == [0, 1, 2, 3, 4] and 20 <= tokenizer.vocab_size <= 40
    assert train_sentencepiece(iter(TEXTS), 40) == model


def test_text_comes_back(model):
    tokenizer = SentencePieceTokenizer(model)
    texts = tf.constant(["The  RED gárden", "of a", ""])
    found = tokenizer.detokenize(tokenizer.tokenize(texts))
    assert found.numpy().tolist() == [b"the red garden", b"of a", b""]
    assert tokenizer.tokenize(tf.constant(["[MASK]"])).numpy().ravel().tolist() != [4]


def test_tokens_do_not_depend_on_what_tensorflow_forgets(model):
    tokenizer = SentencePieceTokenizer(model)
    texts = tf.constant(["the red garden"])
    before = tokenizer.tokenize(texts).to_list()
    tf.random.set_seed(1)  # clears the cache of kernels
    assert tokenizer.tokenize(texts).to_list() == before


def test_a_vocabulary_without_room_for_the_characters():
    with pytest.raises(ValueError, match="vocab_size=8 makes no SentencePiece model"):
        train_sentencepiece(TEXTS, 8)
    with pytest.raises(ValueError, match="makes no SentencePiece model"):
        train_sentencepiece([], 40)


@pytest.mark.parametrize("score", [None, float("nan"), "x", [1], 10**400])
def test_a_score_that_is_none(model, tmp_path, score):
    SENTENCEPIECE.write(str(tmp_path), SentencePieceTokenizer(model), 512)
    (tmp_path / "spiece.model").unlink()
    path = tmp_path / "tokenizer.json"
    contents = json.loads(path.read_text())
    contents["model"]["vocab"][7][1] = score
    path.write_text(json.dumps(contents))
    with pytest.raises(ValueError, match=f"^{path} is truncated, corrupt") as error:
        SENTENCEPIECE.find(tmp_path, None, None, 1000).make()
    assert "\n" not in str(error.value)

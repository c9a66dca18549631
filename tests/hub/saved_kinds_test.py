"""Tokenizers, ELMos and kinds of exported modules, and errors of damaged ones."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.hub import gpt_toy
from tfnlp import hub
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, read_vocabulary, write_vocabulary

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "to", "##s", "Cat", "cafe", "café", "."]


# --- Tokenizers


TEXTS = ["The Cat sat.", "a dogs café CAFÉ", "", "naïve 北京 🙂 the mat", "THE DOG RAN"]


@pytest.mark.parametrize("kind", ["cased", "uncased", *gpt_toy.KINDS])
def test_tokenizers_come_back(tmp_path, kind):
    if kind in gpt_toy.KINDS:
        want, module = gpt_toy.tokenizer(kind), hub.GPTPreprocessorModule
    else:
        want = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS], kind == "uncased")
        module = hub.BertPreprocessorModule
    hub.save(module(want, 8), tmp_path / "preprocessor")
    got = hub.saved_tokenizer(tmp_path / "preprocessor" if kind == "gpt" else tmp_path)
    assert type(got) is type(want) and got.vocabulary == want.vocabulary
    assert getattr(got, "lowercase", None) is getattr(want, "lowercase", None)
    assert got.tokenize(TEXTS).to_list() == want.tokenize(TEXTS).to_list()


def test_a_vocabulary_that_is_not_the_modules_is_refused(tmp_path):
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS], lowercase=False)
    hub.save(hub.BertPreprocessorModule(tokenizer, 8), tmp_path / "preprocessor")
    (path,) = (tmp_path / "preprocessor" / "assets").iterdir()
    tokens = read_vocabulary(path)
    ran, sat = tokens.index("ran"), tokens.index("sat")
    tokens[ran], tokens[sat] = "sat", "ran"
    write_vocabulary(path, tokens)
    with pytest.raises(ValueError, match="vocab.txt was changed"):
        hub.saved_tokenizer(tmp_path)
    (tmp_path / "preprocessor" / "assets.extra" / "tfnlp.json").unlink()  # as of other libraries
    with pytest.raises(ValueError, match="cannot be rebuilt: .*lowercase=False. makes .* not"):
        hub.saved_tokenizer(tmp_path)


# --- Which is which


def test_elmo_with_signatures_alone(tmp_path):
    specs = [
        tf.TensorSpec([None, None], "string", name="tokens"),
        tf.TensorSpec([None], "int32", name="sequence_len"),
    ]

    @tf.function(input_signature=specs)
    def tokens(tokens, sequence_len):
        sizes = tf.cast(tf.strings.length(tokens), "float32")[..., None]
        both = tf.concat([sizes, sizes], -1)
        return {"word_emb": sizes, "lstm_outputs1": both + 1, "lstm_outputs2": both + 2}

    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path), signatures={"tokens": tokens})
    assert hub.saved_kind(tmp_path) == "elmo"
    tagger = tf.function(lambda tokens, sequence_len: {"tags": tokens}, input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "tagger"), signatures={"tokens": tagger})
    assert hub.saved_kind(tmp_path / "tagger") is None
    (layers,) = hub.sentence_layers(hub.saved_elmo(tmp_path), [["a", "bcd"]])
    np.testing.assert_array_equal(layers, [[[1, 1], [3, 3]], [[2, 2], [4, 4]], [[3, 3], [5, 5]]])


def test_what_is_no_module_has_no_kind(made, tmp_path):
    bert = made("bert").exported
    for other in (bert.parent, bert / "encoder", bert / "none", tmp_path):
        assert hub.saved_kind(other) is None
    (tmp_path / "encoder").mkdir()
    assert hub.saved_kind(tmp_path) is None  # a checkpoint may have such a folder


# --- What is damaged


def test_damage_is_told_in_one_line(made, tmp_path):
    elmo, bert = made("elmo").exported, tmp_path / "bert"
    shutil.copytree(made("bert").exported, bert)
    encoder = bert / "encoder"

    def told(kind, match, call, path=bert):
        with pytest.raises(kind, match=match) as caught:
            call(path)
        assert "\n" not in str(caught.value)

    told(FileNotFoundError, "none does not exist", hub.saved_encoder, tmp_path / "none")
    told(ValueError, "sequence_output", hub.saved_encoder, elmo)
    told(ValueError, "encoder is not an ELMo", hub.saved_elmo, encoder)
    told(ValueError, "has no `tokenize`", hub.saved_tokenizer, elmo)
    (data,) = (encoder / "variables").glob("*.data*")
    flipped = bytearray(data.read_bytes())
    flipped[len(flipped) // 2] ^= 255
    data.write_bytes(flipped)
    told(ValueError, "variables.data-.* damaged", hub.saved_encoder)
    (encoder / "saved_model.pb").write_bytes(b"\xff" * 100)
    told(ValueError, "saved_model.pb .*damaged", hub.saved_encoder)
    (encoder / "saved_model.pb").unlink()
    told(FileNotFoundError, "encoder is not a SavedModel", hub.saved_encoder)
    assert hub.saved_kind(bert) == "encoder"  # half of it is there
    shutil.rmtree(bert / "preprocessor" / "assets")
    told(FileNotFoundError, "assets/", hub.saved_tokenizer)
    shutil.copytree(made("bert").exported / "encoder", tmp_path / "pair" / "encoder")
    told(FileNotFoundError, "preprocessor does not exist", hub.saved_tokenizer, tmp_path / "pair")

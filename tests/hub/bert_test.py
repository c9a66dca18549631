import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import bert_toy
from tests.hub.alone import again, alone, listed
from tfnlp import hub, models
from tfnlp.text import WordPieceTokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an exported pair, the model, and what a process without tfnlp saw of it."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("modules")
    encoder = bert_toy.encoder(dropout=0.1)
    pretrainer = models.bert_pretrainer(encoder)
    hub.export_bert(folder, encoder, bert_toy.tokenizer(), pretrainer, seq_length=12)
    return folder, encoder, pretrainer, alone(folder, look)


def look(folder):
    import tensorflow_text  # noqa: F401

    texts = tf.constant(["the cat sat", "a dog ran to the cat"])
    preprocessor = tf.saved_model.load(f"{folder}/preprocessor")
    encoder = tf.saved_model.load(f"{folder}/encoder")
    inputs = preprocessor(texts)
    positions = {"masked_lm_positions": tf.constant([[1, 2], [3, 1]])}
    seen = listed("inputs", inputs) | listed("outputs", encoder(inputs))
    seen |= listed("served", encoder.signatures["serving_default"](**inputs))
    seen["mlm_logits"] = encoder.mlm({**inputs, **positions})["mlm_logits"].numpy()
    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in inputs}
    static = encoder.__call__.get_concrete_function(specs, training=False).structured_outputs
    names = ("sequence_output", "pooled_output")
    seen["static"] = np.array([static[name].shape[-1] for name in names])
    repeated = encoder(inputs, training=False)["default"]
    seen["repeat"] = np.abs(repeated - seen["outputs/default"]).max()
    # Tokenize and pack by hand.
    words = preprocessor.tokenize(tf.constant(["the cat", "a dog ran"]))
    seen["tokenize/shape"] = np.array([words.ragged_rank, words.shape.rank])
    seen |= listed("pairs", preprocessor.bert_pack_inputs([words, words], seq_length=10))
    default_length = preprocessor.bert_pack_inputs([words])
    seen["pairs/default_length"] = np.array(default_length["input_word_ids"].shape)
    special = preprocessor.tokenize.get_special_tokens_dict()
    seen["special"] = np.array([special[k].numpy() for k in sorted(special)])
    copies = again(folder, "preprocessor"), again(folder, "encoder")
    seen["again"] = copies[1](copies[0](texts))["default"].numpy()
    return seen


def ids(text):
    return [bert_toy.WORDS.index(token) for token in text.split()]


def test_preprocessor_gives_packed_ids(exported):
    seen = exported[3]
    want = np.zeros((2, 12), "int32")
    want[0, :5] = ids("[CLS] the cat sat [SEP]")
    want[1, :8] = ids("[CLS] a dog ran to the cat [SEP]")
    np.testing.assert_array_equal(seen["inputs/input_word_ids"], want)
    np.testing.assert_array_equal(seen["inputs/input_mask"], want != 0)
    np.testing.assert_array_equal(seen["inputs/input_type_ids"], 0 * want)
    assert all(seen[f"inputs/{n}"].dtype == np.int32 for n in ("input_word_ids", "input_mask"))


def test_pairs_are_packed_and_typed(exported):
    seen = exported[3]
    row = ids("[CLS] the cat [SEP] the cat [SEP]")
    assert seen["pairs/input_word_ids"][0].tolist() == row + [0] * 3
    assert seen["pairs/input_type_ids"][0].tolist() == [0] * 4 + [1] * 3 + [0] * 3
    assert seen["pairs/input_word_ids"].shape == (2, 10)
    assert seen["pairs/default_length"].tolist() == [2, 12]
    assert seen["tokenize/shape"].tolist() == [2, 3]
    # In the order of the names: end_of_segment, mask, padding, start_of_sequence, vocab_size.
    assert seen["special"].tolist() == [3, 4, 0, 2, 13]


def test_encoder_equals_the_keras_model(exported):
    _, encoder, pretrainer, seen = exported
    inputs = {n: seen[f"inputs/{n}"] for n in encoder.input}
    want = pretrainer({**inputs, "masked_lm_positions": np.array([[1, 2], [3, 1]])})
    for name in ("pooled_output", "sequence_output", "embedding_output"):
        np.testing.assert_allclose(seen[f"outputs/{name}"], want[name], atol=1e-5)
    np.testing.assert_allclose(seen["outputs/default"], want["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(seen["mlm_logits"], want["mlm_logits"], atol=1e-4)
    for i, x in enumerate(want["encoder_outputs"]):
        np.testing.assert_allclose(seen[f"outputs/encoder_outputs/{i}"], x, atol=1e-5)
    np.testing.assert_array_equal(
        seen["outputs/encoder_outputs/1"], seen["outputs/sequence_output"]
    )
    assert {n for n in seen if n.startswith("served/")} == {
        "served/pooled_output", "served/sequence_output", "served/default"
    }  # fmt: skip
    for name in ("pooled_output", "sequence_output", "default"):
        np.testing.assert_allclose(seen[f"served/{name}"], seen[f"outputs/{name}"], atol=1e-5)
    assert seen["static"].tolist() == [16, 16]
    assert seen["repeat"] == 0


def test_it_survives_another_save(exported):
    folder, seen = exported[0], exported[3]
    np.testing.assert_allclose(seen["again"], seen["outputs/default"], atol=1e-6)
    assert (folder / "again/preprocessor/assets/vocab.txt").exists()


def test_the_encoder_has_vocabulary_and_lower_casing_as_tf_hubs(exported):
    module = tf.saved_model.load(str(exported[0] / "encoder"))
    path = module.vocab_file.asset_path.numpy().decode()
    assert pathlib.Path(path).read_text().split() == bert_toy.WORDS
    assert module.do_lower_case.numpy() == bert_toy.tokenizer().lowercase
    assert all("do_lower_case" not in v.name for v in module.variables)


def test_vocabulary_and_model_must_agree(tmp_path):
    encoder, other = bert_toy.encoder(), WordPieceTokenizer([*bert_toy.WORDS, "mouse"])
    with pytest.raises(ValueError, match="vocabulary of 14 tokens"):
        hub.export_bert(tmp_path, encoder, other, seq_length=8)
    with pytest.raises(ValueError, match="seq_length=99"):
        hub.export_bert(tmp_path, encoder, bert_toy.tokenizer(), seq_length=99)
    assert os.listdir(tmp_path) == []

"""Exported modules as backbones, tokenizers and ELMos, by their kinds; errors of damaged ones."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.hub import bert_toy, gpt_toy
from tfnlp import hub
from tfnlp.hub.loading.exported import max_positions
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, read_vocabulary, write_vocabulary

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

SIZE, B, T = len(bert_toy.WORDS), 4, 6


@pytest.fixture(scope="module")
def exported(made, tmp_path_factory):
    """A folder with `bert` (no dropout, a penalty) and `gpt` (dropout); and the models."""
    folder, bert = tmp_path_factory.mktemp("exported"), bert_toy.encoder()
    bert.get_layer("pooler").dense.kernel.regularizer = keras.regularizers.L2(0.1)
    hub.export_bert(folder / "bert", bert, bert_toy.tokenizer(), seq_length=12)
    (folder / "gpt").symlink_to(made("gpt").exported)
    return folder, dict(bert=bert, gpt=tfnlp.load(made("gpt").run).pretrainer)


def batch(names, seed=0):
    """Ids with padding on the right, types, and labels."""
    rng = np.random.default_rng(seed)
    mask = np.arange(T) < rng.integers(2, T + 1, (B, 1))
    columns = {
        "input_word_ids": rng.integers(0, SIZE, (B, T)) * mask,
        "input_mask": mask,
        "input_type_ids": rng.integers(0, 2, (B, T)) * mask,
    }
    return {name: tf.constant(columns[name], "int32") for name in names}


def assert_same(got, want):
    assert sorted(got) == sorted(want)
    for name in want:
        tf.nest.map_structure(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4),
            list(tf.nest.flatten(got[name])),
            list(tf.nest.flatten(want[name])),
        )


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_it_stands_in_for_the_model(exported, kind):
    folder, model = exported[0], exported[1][kind]
    encoder = hub.saved_encoder(folder / kind)
    assert sorted(encoder.input) == sorted(model.input)
    inputs = batch(model.input)
    assert_same(encoder(inputs), model(inputs))
    # Also the names by which checkpoints, weight decay and frozen layers know the weights.
    assert [v.path for v in encoder.trainable_variables] == [
        v.path for v in model.trainable_variables
    ]
    assert_same(
        {v.path: v.numpy() for v in encoder.trainable_variables},
        {v.path: v.numpy() for v in model.trainable_variables},
    )
    positions = max_positions(encoder.get_layer("saved_model"))
    assert positions == {"bert": bert_toy.POSITIONS, "gpt": 48}[kind]
    again = keras.Model.from_config(encoder.get_config())
    assert_same(again(inputs), model(inputs))


def test_dropout_and_penalties_are_for_training_alone(exported):
    gpt = hub.saved_encoder(exported[0] / "gpt")
    inputs = batch(gpt.input)
    outputs = [gpt(inputs, training=t)["sequence_output"] for t in (False, False, True, True)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[2] - outputs[3]).max() > 0.01
    frozen = hub.saved_encoder(exported[0] / "gpt", trainable=False)
    assert not frozen.trainable_variables and len(frozen.variables) == len(gpt.variables)
    np.testing.assert_array_equal(frozen(inputs, training=True)["sequence_output"], outputs[0])

    bert = hub.saved_encoder(exported[0] / "bert")
    bert(batch(bert.input))
    kernel = exported[1]["bert"].get_layer("pooler").dense.kernel.numpy()
    np.testing.assert_allclose(bert.losses, [0.1 * (kernel**2).sum()], rtol=1e-5)
    bert.trainable = False
    bert(batch(bert.input))
    assert bert.losses == []


def test_gradients_are_those_of_the_model(exported):
    def gradients(model):
        inputs = batch(("input_word_ids", "input_mask", "input_type_ids"), 1)
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            # All tokens and the pooler, so that every weight has a part in it.
            loss = tf.reduce_sum(outputs["pooled_output"]) + sum(model.losses)
            loss += tf.reduce_sum(outputs["sequence_output"] ** 2)
        variables = model.trainable_variables
        found = tape.gradient(loss, [v.value for v in variables])
        return {v.path: tf.convert_to_tensor(g) for v, g in zip(variables, found, strict=True)}

    got = gradients(hub.saved_encoder(exported[0] / "bert"))
    want = gradients(exported[1]["bert"])
    assert len(got) == 31
    # A bias of keys has none: softmax does not see it.
    assert sum(np.abs(g).max() > 1e-4 for g in got.values()) >= 29
    for path, gradient in want.items():
        np.testing.assert_allclose(got[path], gradient, rtol=1e-4, atol=1e-4, err_msg=path)


# --- Modules of other libraries


class Foreign(tf.__internal__.tracking.AutoTrackable):
    """As Keras 2 writes one: names that repeat and hold odd characters, `mask`, tuples."""

    def __init__(self, flags=(False, True)):
        super().__init__()
        rows = np.arange(12, dtype="float32").reshape(6, 2)
        table = tf.Variable(rows, name="word_embeddings/e")
        kernels = [tf.Variable(tf.eye(2), name="layer>0/bias") for _ in range(2)]
        self.variables = [table, *kernels]
        self.trainable_variables = self.variables[:2]
        spec = {"input_word_ids": tf.TensorSpec([None, 4], "int32", name="input_word_ids")}
        for flag in flags:
            self.__call__.get_concrete_function(spec, flag, None)

    @tf.function
    def __call__(self, inputs, training=False, mask=None):
        table, *kernels = self.variables
        x = tf.gather(table, inputs["input_word_ids"]) @ kernels[0] @ kernels[1]
        return {"sequence_output": x + float(training), "encoder_outputs": (x, x)}


def test_other_peoples_modules(tmp_path):
    tf.saved_model.save(Foreign(), str(tmp_path / "encoder"))
    encoder = hub.saved_encoder(tmp_path)
    layer = encoder.get_layer("saved_model")
    assert {v.path: v.trainable for v in layer.variables} == {
        "word_embeddings/e": True,
        "layer_0/bias": True,
        "layer_0_1/bias": False,  # ends as the other one, for weight decay
    }
    assert max_positions(layer) is None
    ids = np.array([[5, 0, 1, 1]], "int64")
    want = np.arange(12.0).reshape(6, 2)[ids]
    for training_ in (False, True):
        outputs = encoder({"input_word_ids": ids}, training=training_)
        np.testing.assert_array_equal(outputs["sequence_output"], want + training_)
    assert len(outputs["encoder_outputs"]) == 2


def test_modules_that_cannot_train_say_so(tmp_path):
    unlisted = Foreign()
    del unlisted.trainable_variables
    for module, folder, why in (
        (unlisted, tmp_path / "unlisted", "lists no trainable_variables"),
        (Foreign(flags=(False,)), tmp_path / "frozen", "cannot be called with training=True"),
    ):
        tf.saved_model.save(module, str(folder / "encoder"))
        with pytest.raises(ValueError, match=why):
            hub.saved_encoder(folder)
        frozen = hub.saved_encoder(folder, trainable=False)
        outputs = frozen({"input_word_ids": np.zeros((1, 4), "int32")}, training=True)
        np.testing.assert_array_equal(outputs["sequence_output"][0, 0], [0, 1])


# --- Tokenizers


WORDS = ["the", "a", "cat", "dog", "sat", "ran", "to", "##s", "Cat", "cafe", "café", "."]
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

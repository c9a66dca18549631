"""Exported modules as backbones: against the models that they were exported from."""

import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import gpt_toy
from tests.hub.elmo_toy import tiny as tiny_elmo
from tests.support import run_python
from tfnlp import hub, models, tasks, training
from tfnlp.hub.loading.encoder import max_positions
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, read_vocabulary, write_vocabulary

# Exports trace much; a busy machine takes its time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "to", "##s", "Cat", "cafe", "café", "."]
SIZE = len(SPECIAL_TOKENS) + len(WORDS)
POSITIONS, H, B, T = 24, 16, 4, 6
CLOSE = dict(rtol=0, atol=2e-5)


def tiny_bert(dropout=0.0, seed=0):
    encoder = models.bert(
        SIZE, 2, H, 2, 32, POSITIONS, dropout=dropout, attention_dropout=dropout
    )
    rng = np.random.default_rng(seed)
    for variable in encoder.trainable_variables:  # biases too, so that nothing hides in a zero
        variable.assign(rng.normal(0, 0.3, variable.shape))
    encoder.get_layer("pooler").dense.kernel.regularizer = keras.regularizers.L2(0.1)
    return encoder


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with `bert` (no dropout, cased), `gpt` (dropout) and `elmo`; and the models."""
    folder = tmp_path_factory.mktemp("exported")
    bert, gpt, elmo = tiny_bert(), gpt_toy.model("gpt", dropout=0.3), tiny_elmo()
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS], lowercase=False)
    hub.export_bert(folder / "bert", bert, tokenizer, seq_length=12)
    hub.export_gpt(folder / "gpt", gpt, gpt_toy.tokenizer("gpt"), 12)
    hub.export_elmo(folder / "elmo", elmo)
    return folder, dict(bert=bert, gpt=gpt, elmo=elmo)


def batch(names, seed=0, size=SIZE):
    """Ids with padding on the right, types, and labels."""
    rng = np.random.default_rng(seed)
    mask = np.arange(T) < rng.integers(2, T + 1, (B, 1))
    columns = {
        "input_word_ids": rng.integers(0, size, (B, T)) * mask,
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
    for name, x in model.output.items():
        shapes = [x.shape for x in x] if isinstance(x, list) else x.shape
        got = encoder.output[name]
        assert ([y.shape for y in got] if isinstance(got, list) else got.shape) == shapes
    # Also the names by which checkpoints, weight decay and frozen layers know the weights.
    assert [v.path for v in encoder.trainable_variables] == [
        v.path for v in model.trainable_variables
    ]
    assert_same(
        {v.path: v.numpy() for v in encoder.trainable_variables},
        {v.path: v.numpy() for v in model.trainable_variables},
    )
    assert max_positions(encoder.get_layer("saved_model")) == POSITIONS
    again = keras.Model.from_config(encoder.get_config())
    assert_same(again(inputs), model(inputs))


def test_static_lengths_stay_static(exported):
    encoder = hub.saved_encoder(exported[0] / "bert", seq_length=T)
    assert encoder.output["sequence_output"].shape == (None, T, H)
    traced = tf.function(encoder).get_concrete_function(
        {n: tf.TensorSpec((None, T), "int32") for n in encoder.input}
    )
    assert traced.structured_outputs["sequence_output"].shape.as_list() == [None, T, H]
    with pytest.raises(ValueError, match="seq_length=25 is longer than the 24 positions of"):
        hub.saved_encoder(exported[0] / "bert", seq_length=25)


def test_dropout_and_penalties_are_for_training_alone(exported):
    gpt = hub.saved_encoder(exported[0] / "gpt")
    inputs = batch(gpt.input)
    outputs = [gpt(inputs, training=t)["sequence_output"] for t in (False, False, True, True)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[2] - outputs[3]).max() > 0.1
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


# --- Training


class Classes(tasks.Task):
    """Softmax over two classes."""

    def targets(self, batch):
        return {"class": tf.cast(tf.shape(batch["labels"])[0], "float32")}

    def losses(self, batch, outputs):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["labels"], logits=outputs["logits"]
        )
        return {"class": tf.reduce_sum(losses)}

    def metrics(self, batch, outputs):
        return {}


class Batches:
    batch_size = B

    def batch(self, step):
        labels = tf.constant(np.random.default_rng(step).integers(0, 2, B), "int32")
        return {**batch(("input_word_ids", "input_mask", "input_type_ids"), step), "labels": labels}

    def dataset(self, first_step):
        rows = [self.batch(step) for step in range(first_step, 4)]
        return tf.data.Dataset.from_tensor_slices(
            {name: tf.stack([row[name] for row in rows]) for name in rows[0]}
        )


def trained(make, strategy=None, steps=2, **arguments):
    """The model after some steps of AdamW, and its weights by path from before and after."""
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        encoder = make()
        hidden = encoder.output
        # All tokens and the pooler, so that every weight has a part in it.
        features = keras.ops.concatenate(
            [hidden["pooled_output"], keras.ops.mean(hidden["sequence_output"], axis=1)], axis=-1
        )
        head = keras.layers.Dense(
            2, kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=3), name="head"
        )
        model = keras.Model(encoder.input, {"logits": head(features)})
    trainer = training.Trainer(
        Classes(model),
        training.AdamW(),
        0.01,
        strategy=strategy,
        **{"clip_norm": 0.5, **arguments},
    )
    before = weights(model)
    history = trainer.fit(Batches(), steps, progress=False, log_every=1, evaluate_every=1)
    return model, before, weights(model), history.train


def weights(model):
    return {v.path: v.numpy().copy() for v in model.trainable_variables}


@pytest.fixture(scope="module")
def reference():
    """What training makes of the model that was exported."""
    keras.utils.set_random_seed(1)
    return trained(tiny_bert)


VARIANTS = {
    "one device": dict(),
    "accumulated": dict(accumulation=2),
    "two replicas": dict(strategy=lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_trains_as_the_model_does(exported, reference, name):
    arguments = dict(VARIANTS[name])
    if "strategy" in arguments:
        arguments["strategy"] = arguments["strategy"]()
    got = trained(lambda: hub.saved_encoder(exported[0] / "bert"), **arguments)
    assert got[1].keys() == reference[1].keys() and len(got[1]) == 31 + 2
    for path, before in got[1].items():
        np.testing.assert_array_equal(before, reference[1][path])
        assert np.abs(got[2][path] - before).max() > 1e-4, path  # each gets a gradient
        np.testing.assert_allclose(got[2][path], reference[2][path], **CLOSE, err_msg=path)
    for a, b in zip(got[3], reference[3], strict=True):
        assert b["gradient_norm"] > 0.6  # so that clipping is at work
        np.testing.assert_allclose(
            [a["loss"], a["gradient_norm"]], [b["loss"], b["gradient_norm"]], rtol=1e-4
        )


def test_a_run_goes_on_from_its_checkpoint(exported, reference, tmp_path):
    def make():
        return hub.saved_encoder(exported[0] / "bert")

    trained(make, steps=1, directory=tmp_path)
    _, _, after, _ = trained(make, steps=2, directory=tmp_path)
    for path, want in reference[2].items():
        np.testing.assert_allclose(after[path], want, **CLOSE, err_msg=path)


READER = """
import sys
sys.modules.update(tfnlp=None, keras=None)
import numpy as np, tensorflow as tf
module = tf.saved_model.load(sys.argv[1])
inputs = {n: tf.constant(x) for n, x in np.load(sys.argv[2]).items()}
with tf.GradientTape() as tape:
    logits = module(inputs, training=True)["logits"]
    loss = tf.reduce_sum(logits ** 2)
found = [g is not None for g in tape.gradient(loss, module.trainable_variables)]
penalty = sum(float(f()) for f in module.regularization_losses)
np.savez(sys.argv[3], logits=module(inputs)["logits"], found=found, penalty=penalty)
"""


def test_exported_again_it_needs_no_tfnlp(exported, tmp_path):
    shutil.copytree(exported[0] / "bert", tmp_path / "bert")
    model, _, after, _ = trained(lambda: hub.saved_encoder(tmp_path / "bert"), steps=1)
    hub.save(hub.KerasModule(model), tmp_path / "again")
    shutil.rmtree(tmp_path / "bert")  # the copy must carry all that it needs
    inputs = batch(model.input, 5)
    np.savez(tmp_path / "in.npz", **{n: x.numpy() for n, x in inputs.items()})
    run_python(READER, "again", "in.npz", "out.npz", folder=tmp_path, without_tfnlp=True)
    seen = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(seen["logits"], model(inputs)["logits"], **CLOSE)
    assert len(seen["found"]) == len(after) and seen["found"].all()


# --- Tokenizers


TEXTS = ["The Cat sat.", "a dogs café CAFÉ", "", "naïve 北京 🙂 the mat", "THE DOG RAN"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_wordpiece_comes_back_with_its_case(exported, tmp_path, lowercase):
    want = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS], lowercase)
    folder = exported[0] / "bert"
    if lowercase:
        hub.save(hub.BertPreprocessorModule(want, 8), tmp_path / "preprocessor")
        folder = tmp_path
    got = hub.saved_tokenizer(folder)
    assert got.lowercase is lowercase and got.vocabulary == want.vocabulary
    assert got.tokenize(TEXTS).to_list() == want.tokenize(TEXTS).to_list()
    assert (got.cls_id, got.sep_id, got.pad_id, got.mask_id, got.vocab_size) == (2, 3, 0, 4, SIZE)


@pytest.mark.parametrize("kind", gpt_toy.KINDS)
def test_byte_pairs_come_back(exported, tmp_path, kind):
    want = gpt_toy.tokenizer(kind)
    folder = exported[0] / "gpt"
    if kind == "gpt2":
        hub.save(hub.GPTPreprocessorModule(want, 8), tmp_path / "preprocessor")
        folder = tmp_path / "preprocessor"
    got = hub.saved_tokenizer(folder)
    assert type(got) is type(want) and got.vocabulary == want.vocabulary
    assert got.tokenize(TEXTS).to_list() == want.tokenize(TEXTS).to_list()


def test_a_vocabulary_that_is_not_the_modules_is_refused(exported, tmp_path):
    shutil.copytree(exported[0] / "bert" / "preprocessor", tmp_path / "preprocessor")
    (path,) = (tmp_path / "preprocessor" / "assets").iterdir()
    tokens = read_vocabulary(path)
    ran, sat = tokens.index("ran"), tokens.index("sat")
    tokens[ran], tokens[sat] = "sat", "ran"
    write_vocabulary(path, tokens)
    with pytest.raises(ValueError, match="cannot be made anew: .*lowercase=False. makes .* not"):
        hub.saved_tokenizer(tmp_path)
    write_vocabulary(path, [*tokens, "mouse"])
    with pytest.raises(ValueError, match=f"has vocab_size {SIZE + 1}, not {SIZE}"):
        hub.saved_tokenizer(tmp_path)
    path.write_text("no\nvocabulary\n")
    with pytest.raises(ValueError, match="cannot be made anew: .*lacks .PAD"):
        hub.saved_tokenizer(tmp_path)


# --- ELMo, and which is which


def test_elmo_gives_the_layers_of_the_model(exported):
    sentences = [["the", "cat"], [], ["naïve", "北京", "x"]]
    want = list(hub.sentence_layers(hub.ElmoModule(exported[1]["elmo"]), sentences))
    got = list(hub.sentence_layers(hub.saved_elmo(exported[0] / "elmo"), sentences))
    assert [x.shape for x in got] == [(3, n, 16) for n in (2, 0, 3)]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


def test_elmo_with_signatures_alone(tmp_path):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], "string", name="tokens"),
            tf.TensorSpec([None], "int32", name="sequence_len"),
        ]
    )
    def tokens(tokens, sequence_len):
        sizes = tf.cast(tf.strings.length(tokens), "float32")[..., None]
        both = tf.concat([sizes, sizes], -1)
        return {"word_emb": sizes, "lstm_outputs1": both + 1, "lstm_outputs2": both + 2}

    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path), signatures={"tokens": tokens})
    assert hub.saved_kind(tmp_path) == "elmo"
    (layers,) = hub.sentence_layers(hub.saved_elmo(tmp_path), [["a", "bcd"]])
    np.testing.assert_array_equal(layers, [[[1, 1], [3, 3]], [[2, 2], [4, 4]], [[3, 3], [5, 5]]])


def test_kinds(exported, tmp_path):
    folder = exported[0]
    assert [hub.saved_kind(folder / k) for k in ("bert", "gpt", "elmo")] == ["bert", "gpt", "elmo"]
    for other in (folder, folder / "bert" / "encoder", folder / "none", tmp_path):
        assert hub.saved_kind(other) is None
    (tmp_path / "encoder").mkdir()
    assert hub.saved_kind(tmp_path) is None  # a checkpoint may have such a folder


# --- What is damaged


def test_damage_is_told_in_one_line(exported, tmp_path):
    def told(kind, match, call, path=tmp_path / "bert"):
        with pytest.raises(kind, match=match) as caught:
            call(path)
        assert "\n" not in str(caught.value)

    with pytest.raises(FileNotFoundError, match="none does not exist; give the folder"):
        hub.saved_encoder(tmp_path / "none")
    told(ValueError, "elmo cannot be called with a dict of named ids", hub.saved_encoder,
         exported[0] / "elmo")  # fmt: skip
    told(ValueError, "encoder is no ELMo", hub.saved_elmo, exported[0] / "bert" / "encoder")
    told(ValueError, "elmo has no `tokenize`", hub.saved_tokenizer, exported[0] / "elmo")

    shutil.copytree(exported[0] / "bert", tmp_path / "bert")
    encoder = tmp_path / "bert" / "encoder"
    (data,) = (encoder / "variables").glob("*.data*")
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    told(ValueError, "variables.* export or download", hub.saved_encoder)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    data.write_bytes(flipped)
    told(ValueError, "variables.data-.* damaged: .* export or download", hub.saved_encoder)
    shutil.rmtree(encoder / "variables")
    told(FileNotFoundError, "variables.index .*; export or download", hub.saved_encoder)
    graph = encoder / "saved_model.pb"
    graph.write_bytes(b"\xff" * 100)
    told(ValueError, "saved_model.pb .*damaged.*; export or download", hub.saved_encoder)
    told(ValueError, "encoder cannot be read .saved_model.pb is damaged", hub.saved_kind, encoder)
    graph.unlink()
    told(FileNotFoundError, "encoder is not a SavedModel: it has no saved", hub.saved_encoder)
    assert hub.saved_kind(tmp_path / "bert") == "bert"  # half of it is there
    shutil.rmtree(tmp_path / "bert" / "preprocessor" / "assets")
    told(FileNotFoundError, "assets/.*; export or download", hub.saved_tokenizer)
    shutil.rmtree(tmp_path / "bert" / "preprocessor")
    shutil.copytree(exported[0] / "bert" / "encoder", tmp_path / "pair" / "encoder")
    told(FileNotFoundError, "preprocessor does not exist", hub.saved_tokenizer,
         pathlib.Path(tmp_path / "pair"))  # fmt: skip

"""The flows of TensorFlow's tutorials on BERT, in Keras 2 and in Keras 3, on modules of ours.

Each is written once, as a function of the Keras module and of the class of the hub's layer:
`tf_keras` with `tensorflow_hub.KerasLayer`, as the tutorials have it, and `keras` with
`tfnlp.hub.Layer`. Changing the imports is all, and the numbers stay the same.
"""

import functools
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.hub import makers
from tests.hub.makers import LIBRARIES
from tests.training.toy import two_replicas

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

KEYS = ("input_word_ids", "input_mask", "input_type_ids")
LENGTH = 12
FIRST = ["the good cat sat .", "a bad dog ran to the film", "good", "the bad bad film zebra"] * 3
SECOND = ["a cat sat", "the dogs ran", "good films .", "a dog sat to the cat . the cat sat"] * 3
LABELS = [1, 0, 1, 0] * 3
CLOSE = dict(rtol=2e-5, atol=2e-6)


@pytest.fixture(scope="module")
def handles(tmp_path_factory):
    encoder, preprocessor = makers.bert(tmp_path_factory.mktemp("bert"), seq_length=LENGTH)
    return types.SimpleNamespace(encoder=encoder, preprocessor=preprocessor)


@pytest.fixture(autouse=True)
def float32():
    yield
    tf_keras.mixed_precision.set_global_policy("float32")  # the other Keras has its own fixture


# --- What the tutorials write. `k` is what they import as `tf.keras`, `layer` as `hub.KerasLayer`.


def build_classifier_model(k, layer, handles, trainable=True, dropout=0.0):
    """'Classify text with BERT'."""
    text_input = k.layers.Input(shape=(), dtype=tf.string, name="text")
    encoder_inputs = layer(handles.preprocessor, name="preprocessing")(text_input)
    outputs = layer(handles.encoder, trainable=trainable, name="BERT_encoder")(encoder_inputs)
    net = outputs["pooled_output"]
    net = k.layers.Dropout(dropout)(net)
    net = k.layers.Dense(1, activation=None, name="classifier")(net)
    return k.Model(text_input, net)


def make_preprocess_model(k, layer, handles, features):
    """'Solve GLUE tasks using BERT': any number of sentences to the encoder's inputs."""
    segments = [k.layers.Input(shape=(), dtype=tf.string, name=name) for name in features]
    preprocessor = tf.saved_model.load(handles.preprocessor)  # what `hub.load` does
    tokenize = layer(preprocessor.tokenize, name="tokenizer")
    pack = layer(preprocessor.bert_pack_inputs, arguments=dict(seq_length=LENGTH), name="packer")
    return k.Model(segments, pack([tokenize(segment) for segment in segments]))


def build_glue_model(k, layer, handles, classes=2, trainable=True, dropout=0.0):
    """'Solve GLUE tasks using BERT': from the encoder's inputs to logits."""
    inputs = {n: k.layers.Input(shape=(LENGTH,), dtype=tf.int32, name=n) for n in KEYS}
    encoder = layer(handles.encoder, trainable=trainable, name="BERT_encoder")
    net = encoder(inputs)["pooled_output"]
    net = k.layers.Dropout(rate=dropout)(net)
    net = k.layers.Dense(classes, activation=None, name="classifier")(net)
    net = k.layers.Activation("linear", dtype="float32")(net)  # as guides to mixed precision say
    return k.Model(inputs, net, name="prediction")


# --- What makes them comparable


def start(k, model):
    """The head's weights, the same in each; and a list that fills with the losses of the steps."""
    head = model.get_layer("classifier")
    rng = np.random.default_rng(3)
    head.set_weights([rng.normal(0, 0.5, w.shape) for w in head.get_weights()])
    losses = []
    keep = k.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: losses.append(logs))
    return keep, losses


def weights(model):
    encoder = model.get_layer("BERT_encoder").resolved_object
    head = model.get_layer("classifier").get_weights()
    return [*(v.numpy() for v in encoder.variables), *(np.float32(w) for w in head)]


def optimizer(k, name):
    if name == "sgd":
        return k.optimizers.SGD(0.05)
    decay = k.optimizers.schedules.PolynomialDecay(1e-3, 8, 0.0)
    if name == "adam":
        return k.optimizers.Adam(decay, epsilon=1e-7)
    return k.optimizers.AdamW(decay, weight_decay=0.01, epsilon=1e-7)


def assert_same(seen, close=CLOSE):
    """Numbers of both libraries, and that they are no trivial ones."""
    assert list(seen) == ["tf_keras", "keras"]
    want, got = seen.values()
    assert want.keys() == got.keys()
    for key in want:
        flat = [[np.asarray(x) for x in tf.nest.flatten(side[key])] for side in (got, want)]
        assert len(flat[0]) == len(flat[1]) > 0
        for i, (a, b) in enumerate(zip(*flat, strict=True)):
            np.testing.assert_allclose(a, b, **close, err_msg=f"{key} number {i}")


def largest_moves(before, after):
    return [np.abs(a - b).max() for a, b in zip(after, before, strict=True)]


# --- Classify text with BERT


def test_classify_text(handles, tmp_path):
    text, labels = tf.constant(FIRST), np.float32(LABELS)[:, None]
    rows = tf.data.Dataset.from_tensor_slices((text, labels)).batch(4)
    seen = {}
    for name, (k, layer) in LIBRARIES.items():
        own = types.SimpleNamespace(  # its own copy, to be gone when what was saved is loaded
            encoder=shutil.copytree(handles.encoder, tmp_path / name / "encoder"),
            preprocessor=shutil.copytree(handles.preprocessor, tmp_path / name / "preprocessor"),
        )
        own = types.SimpleNamespace(**{key: str(path) for key, path in vars(own).items()})
        model = build_classifier_model(k, layer, own)
        keep, losses = start(k, model)
        before = weights(model)
        raw = model(tf.constant(["such a good film"]))
        assert raw.shape == (1, 1)
        model.compile(
            optimizer=optimizer(k, "adamw"),
            loss=k.losses.BinaryCrossentropy(from_logits=True),
            metrics=[k.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
        )
        run = model.fit(x=rows, validation_data=rows, epochs=2, callbacks=[keep], verbose=0)
        history = run.history
        assert sorted(history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
        after = weights(model)
        assert min(largest_moves(before, after)) > 1e-5
        predicted = model.predict(text, verbose=0)
        saved = str(tmp_path / name / "classifier")
        if k is keras:
            model.export(saved, verbose=False)
        else:
            model.save(saved, include_optimizer=False)
        for path in vars(own).values():
            shutil.rmtree(path)
        serve = tf.saved_model.load(saved).signatures["serving_default"]
        (served,) = serve(text).values()
        np.testing.assert_allclose(served, predicted, **CLOSE)
        seen[name] = dict(
            raw=raw,
            losses=[logs["loss"] for logs in losses],
            history=[history[key] for key in sorted(history)],
            weights=after,
            evaluated=model.evaluate(rows, verbose=0),
            predicted=predicted,
        )
    assert len(seen["keras"]["losses"]) == 6
    assert_same(seen)


# --- Solve GLUE tasks using BERT


def rows_of(model):
    """Batches of the encoder's inputs and labels, as the tutorial maps them."""
    rows = tf.data.Dataset.from_tensor_slices(
        {"sentence1": FIRST, "sentence2": SECOND, "label": LABELS, "idx": list(range(12))}
    ).batch(4)
    return rows.map(lambda row: (model(row), row["label"]))


@pytest.fixture(scope="module")
def preprocessors(handles):
    """The preprocessing model of two sentences, of each library."""
    features = ["sentence1", "sentence2"]
    return {
        name: make_preprocess_model(*library, handles, features)
        for name, library in LIBRARIES.items()
    }


@pytest.fixture(scope="module")
def glue(preprocessors):
    """Batches of ids."""
    return rows_of(preprocessors["tf_keras"]).cache()


def test_the_preprocessing_model(preprocessors):
    sentences = [tf.constant(FIRST[:4]), tf.constant(SECOND[:4])]
    seen = {}
    for name, model in preprocessors.items():
        assert sorted(model.output) == sorted(KEYS)
        assert all(x.dtype == tf.int32 and len(x.shape) == 2 for x in model.output.values())
        called = model(sentences)
        mapped, labels = next(iter(rows_of(model)))
        assert labels.numpy().tolist() == LABELS[:4]
        seen[name] = dict(called=[called[n] for n in KEYS], mapped=[mapped[n] for n in KEYS])
    assert_same(seen)
    np.testing.assert_array_equal(seen["keras"]["mapped"], seen["keras"]["called"])
    ids, mask, types_ = (x.numpy() for x in seen["keras"]["called"])
    assert ids.shape == (4, LENGTH)
    # [CLS] the good cat sat . [SEP] and a cat sat [SEP]
    assert (mask[0].sum(), types_[0].sum()) == (11, 4)
    # Of 5 and 9 pieces 9 have a place: each gets its turn.
    assert (mask[3] - types_[3]).sum() - 2 == 5 and types_[3].sum() - 1 == 4


def fitted(library, handles, rows, name, strategy=None, **arguments):
    """The model after two epochs in the scope of `strategy`, how far its weights moved, and what
    is to be compared."""
    k, layer = LIBRARIES[library]
    with (strategy or tf.distribute.get_strategy()).scope():
        model = build_glue_model(k, layer, handles, **arguments)
        keep, losses = start(k, model)
        model.compile(optimizer(k, name), k.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = weights(model)
    model.fit(rows, epochs=2, callbacks=[keep], verbose=0)
    result = dict(losses=[logs["loss"] for logs in losses], weights=weights(model))
    return model, largest_moves(before, result["weights"]), result


@pytest.fixture(scope="module")
def one_device(handles, glue):
    """`one_device(optimizer)`: what both libraries make of it on one device."""

    @functools.cache
    def run(name):
        return {library: fitted(library, handles, glue, name)[1:] for library in LIBRARIES}

    return run


def test_the_same_steps(one_device):
    seen = one_device("adam")
    for moves, _ in seen.values():
        assert min(moves) > 1e-5  # every weight
    assert_same({library: result for library, (_, result) in seen.items()})


def test_the_same_steps_on_two_replicas(handles, glue, one_device):
    strategy = two_replicas()
    seen = {}
    for library in LIBRARIES:
        _, moves, seen[library] = fitted(library, handles, glue, "adam", strategy)
        assert min(moves) > 1e-5
    assert_same(seen)
    alone = one_device("adam")["keras"][1]
    np.testing.assert_allclose(seen["keras"]["losses"], alone["losses"], rtol=1e-4)
    for a, b in zip(seen["keras"]["weights"], alone["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=5e-5)


def test_a_head_in_mixed_precision(handles, glue):
    seen = {}
    for library, (k, _) in LIBRARIES.items():
        k.mixed_precision.set_global_policy("mixed_bfloat16")
        model, moves, seen[library] = fitted(library, handles, glue, "sgd")
        assert model.get_layer("classifier").output.dtype == "bfloat16"
        encoder = model.get_layer("BERT_encoder")
        assert {tf.as_dtype(v.dtype) for v in encoder.variables} == {tf.float32}
        outputs = encoder(next(iter(glue))[0])
        assert outputs["pooled_output"].dtype == tf.float32  # whatever the policy says
        assert min(moves) > 1e-5
    # The head computes with 8 bits, in the same order of operations.
    assert_same(seen, dict(rtol=0, atol=1e-4))

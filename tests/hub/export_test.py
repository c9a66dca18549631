import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import bert_toy
from tests.hub.alone import again, alone, listed, trained
from tfnlp import hub, models

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

WORDS = ["the", "a", "cat", "dog", "sat", "ran"]
PREPROCESSOR = hub.BertPreprocessorModule(bert_toy.tokenizer(), 8)
CLOSE = dict(rtol=1e-5, atol=1e-6)
B, T = 4, 5


def mixed_model():
    """Strings, ids and floats in; a dict with a list out; tables, dropout, moving averages."""
    text = keras.Input((), dtype="string", name="text")
    ids = keras.Input((None,), dtype="int32", name="ids")
    floats = keras.Input((3,), name="floats")
    split = keras.layers.TextVectorization(vocabulary=WORDS, output_sequence_length=4)
    words = keras.layers.Embedding(10, 4, embeddings_regularizer="l2")(split(text))
    words = keras.layers.GlobalAveragePooling1D()(words)
    tokens = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(7, 4)(ids))
    hidden = keras.layers.Concatenate()([words, tokens, floats])
    hidden = keras.layers.BatchNormalization(name="norm")(hidden)
    hidden = keras.layers.Dropout(0.5)(hidden)
    logits = keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1))(hidden)
    outputs = {"logits": logits, "layers": [words, tokens]}
    model = keras.Model([text, ids, floats], outputs, name="mixed")
    inputs = {"text": text, "ids": ids, "floats": floats}
    return keras.Model(inputs, outputs, name="mixed"), keras.Model(
        inputs, {"scores": keras.ops.softmax(model(list(inputs.values()))["logits"])}
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder of exports, their models, inputs, and what a process without tfnlp saw."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("exported")
    rng = np.random.default_rng(0)
    inputs = {
        "text": np.array(["the cat sat", "a dog", "ran ran unknown", "dog dog dog dog dog"]),
        "ids": rng.integers(0, 7, (B, T)).astype("int32"),
        "floats": rng.normal(size=(B, 3)).astype("float32"),
    }
    np.savez(folder / "inputs.npz", **inputs)
    model, scores = mixed_model()
    hub.export(
        model,
        folder / "mixed",
        signatures={"some": ["logits", "layers_1"], "more": "scores", "all": ["layers"]},
        default="logits",
        objects={"scores": scores},
    )
    encoder = bert_toy.encoder(layers=1)
    pretrainer = models.bert_pretrainer(encoder)
    hub.export(
        encoder,
        folder / "text",
        default="pooled_output",
        objects={"mlm": pretrainer},
        preprocessor=PREPROCESSOR,
    )
    models_ = dict(mixed=model, scores=scores, encoder=encoder, mlm=pretrainer)
    return folder, models_, inputs, alone(folder, look, ["keras"])


def look(folder):
    import tensorflow_text  # noqa: F401

    given = np.load(f"{folder}/inputs.npz")
    inputs = {n: tf.constant(x.astype(str) if x.dtype.kind == "U" else x) for n, x in given.items()}
    mixed = tf.saved_model.load(f"{folder}/mixed")
    seen = listed("mixed", mixed(inputs)) | listed("sub", mixed.scores(inputs))
    seen |= listed("served", mixed.signatures["some"](**inputs))
    text = tf.saved_model.load(f"{folder}/text")
    packed = text.preprocessor(inputs["text"])
    seen |= listed("text", text(inputs["text"])) | listed("text_encoder", text.encoder(packed))
    masked = {**packed, "masked_lm_positions": tf.constant([[1, 2]] * 4)}
    seen |= listed("mlm", text.encoder.mlm(masked))
    same = again(folder, "mixed")(inputs)["logits"]
    seen["again"] = np.abs(same - seen["mixed/logits"]).max()
    # The gradients are of two calls with training=True, which move averages.
    (mean,) = [v for v in mixed.variables if "moving_mean" in v.name]
    seen |= trained("mixed_trained", mixed, inputs, lambda y: tf.reduce_mean(y["logits"] ** 2))
    seen["moving_mean"] = mean.numpy()  # after three steps
    return seen


def tensors(inputs):
    return {name: tf.constant(x) for name, x in inputs.items()}


def assert_seen(seen, name, outputs):
    """Whether the noted outputs `name` are those of the Keras model."""
    outputs = {key: tf.nest.map_structure(tf.convert_to_tensor, x) for key, x in outputs.items()}
    wanted = listed(name, outputs)
    found = {key for key in seen if key.startswith(f"{name}/") and not key.endswith("/default")}
    assert found == set(wanted)
    for key, x in wanted.items():
        np.testing.assert_allclose(seen[key], x, err_msg=key, **CLOSE)


def test_outputs_are_those_of_the_model(exported):
    _, models_, inputs, seen = exported
    outputs = models_["mixed"](tensors(inputs))
    assert_seen(seen, "mixed", outputs)
    np.testing.assert_array_equal(seen["mixed/default"], seen["mixed/logits"])
    assert_seen(seen, "served", {"logits": outputs["logits"], "layers_1": outputs["layers"][1]})
    assert_seen(seen, "sub", models_["scores"](tensors(inputs)))
    signatures = tf.saved_model.load(str(exported[0] / "mixed")).signatures
    assert {name: set(s.structured_outputs) for name, s in signatures.items()} == {
        "some": {"logits", "layers_1"},
        "more": {"scores"},
        "all": {"layers_0", "layers_1"},
    }


def test_it_trains_without_tfnlp(exported):
    _, models_, inputs, seen = exported
    model = models_["mixed"]
    for i in range(len(model.trainable_variables)):
        assert np.abs(seen[f"mixed_trained/gradient/True/{i}"]).max() > 0
    assert seen["again"] < 1e-6
    assert seen["mixed_trained/dropout"] > 0.01
    table, kernel = (np.array(model.weights[i]) for i in (0, -2))
    assert kernel.shape == (11, 2) and table.shape == (10, 4)
    want = sorted([0.01 * np.square(table).sum(), 0.1 * np.square(kernel).sum()])
    np.testing.assert_allclose(sorted(seen["mixed_trained/penalties"]), want, rtol=1e-5)


def test_moving_averages_follow_training(exported):
    _, models_, inputs, seen = exported
    layers = models_["mixed"](tensors(inputs))["layers"]
    mean = np.concatenate([*layers, inputs["floats"]], -1).mean(0)
    norm = models_["mixed"].get_layer("norm")
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(11))
    momentum = norm.momentum  # three steps on the same batch, from zero
    np.testing.assert_allclose(seen["moving_mean"], (1 - momentum**3) * mean, rtol=1e-4, atol=1e-6)


def test_strings_to_vectors_in_one_module(exported):
    _, models_, inputs, seen = exported
    ids = PREPROCESSOR(tf.constant(inputs["text"]))
    outputs = models_["encoder"](ids)
    for name in ("text", "text_encoder"):
        np.testing.assert_array_equal(seen[f"{name}/default"], seen[f"{name}/pooled_output"])
        assert_seen(seen, name, outputs)
    mlm = models_["mlm"]({**ids, "masked_lm_positions": tf.constant([[1, 2]] * B)})
    assert_seen(seen, "mlm", mlm)


def structures():
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="class")
    dense = keras.layers.Dense(2, name="dense")
    x, y = dense(a), dense(keras.layers.Dense(3, name="other")(b))
    first = keras.layers.InputLayer(batch_shape=(1, 3), name="first")  # as after one call
    sequential = keras.Sequential([first, keras.layers.Dense(2, name="last")])
    return {
        "sequential": (sequential, "first", ["last"]),
        "list": (keras.Model([a, b], [x, y]), ["a", "input_class"], ["dense", "dense_1"]),
        "nested": (
            keras.Model({"a": a, "class": [b]}, {"z": x, "deep": [y, {"x": x}]}),
            {"a": "a", "class": ["class_0"]},
            ["deep_0", "deep_1_x", "z"],
        ),
    }


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")
@pytest.mark.parametrize("kind", ["sequential", "list", "nested"])
def test_structures_stay(kind, tmp_path):
    model, arguments, names = structures()[kind]
    module = tf.saved_model.load(hub.export(model, tmp_path / "module"))
    rng = np.random.default_rng(0)
    a, b = (tf.constant(rng.normal(size=(B, n)), "float32") for n in (3, 2))
    flat = [a, b][: len(tf.nest.flatten(arguments))]
    inputs = tf.nest.pack_sequence_as(arguments, flat)
    want, got = model(inputs), module(inputs)
    tf.nest.assert_same_structure(want, got, check_types=False)
    served = module.signatures["serving_default"](
        **dict(zip(tf.nest.flatten(arguments), flat, strict=True))
    )
    assert set(served) == set(names)
    flat_want = tf.nest.flatten(want)
    for x, y, name in zip(flat_want, tf.nest.flatten(got), names, strict=True):
        np.testing.assert_allclose(y, x, **CLOSE)
        np.testing.assert_allclose(served[name], x, **CLOSE)


class Plural(keras.layers.Layer):
    """Finds words in a table of an object in a dict, and scales by a variable unknown to Keras."""

    def __init__(self):
        super().__init__()
        keys = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1.0, 2.0])
        self.tables = {"words": Holder(tf.lookup.StaticHashTable(keys, -1.0))}
        self.scale = tf.Variable(3.0)
        self.noise = keras.layers.Dropout(0.5)

    def call(self, words):
        found = self.tables["words"].table.lookup(words) * self.scale
        return found + 0 * self.noise(found, training=True)  # random in inference too

    def compute_output_spec(self, words):
        return keras.KerasTensor(words.shape, "float32")


class Holder:
    def __init__(self, table):
        self.table = table


def test_what_layers_hold_goes_along(tmp_path):
    words = keras.Input((), dtype="string")
    lengths = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["cat"], [10.0]), 0.0)
    looked_up = keras.layers.Lambda(lambda x: lengths.lookup(x), output_shape=())(words)
    column = keras.layers.Reshape((1,))(words)
    hot = keras.layers.StringLookup(vocabulary=["cat", "dog"], output_mode="multi_hot")(column)
    model = keras.Model(words, {"a": Plural()(words), "b": looked_up, "hot": hot})
    module = tf.saved_model.load(hub.export(model, tmp_path / "module"))
    got = module(tf.constant(["dog", "cat", "fish"]))
    np.testing.assert_array_equal(got["a"], [6, 3, -3])
    np.testing.assert_array_equal(got["b"], [0, 10, 0])
    np.testing.assert_array_equal(got["hot"], [[0, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_a_model_on_a_saved_model_is_exported_again(tmp_path):
    rng = np.random.default_rng(0)
    inputs = dict(
        text=tf.constant(["the cat", "dog ran"]),
        ids=tf.constant([[1, 2], [3, 4]]),
        floats=tf.constant(rng.normal(size=(2, 3)), "float32"),
    )
    layer = hub.Layer(hub.export(mixed_model()[0], tmp_path / "first"), trainable=True)
    symbols = {
        "text": keras.Input((), dtype="string", name="text"),
        "ids": keras.Input((None,), dtype="int32", name="ids"),
        "floats": keras.Input((3,), name="floats"),
    }
    model = keras.Model(symbols, keras.layers.Dense(2)(layer(symbols)["logits"]))
    model.compile("adamw", keras.losses.SparseCategoricalCrossentropy(True))
    model.train_on_batch(inputs, np.array([0, 1]))
    module = tf.saved_model.load(hub.export(model, tmp_path / "second"))
    tf.saved_model.save(module, str(tmp_path / "third"))
    module = tf.saved_model.load(str(tmp_path / "third"))
    np.testing.assert_allclose(module(inputs), model(inputs), **CLOSE)
    assert len(module.trainable_variables) == len(model.trainable_variables)
    penalty = sum(float(loss()) for loss in module.regularization_losses)
    np.testing.assert_allclose(penalty, sum(map(float, model.losses)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["layer", "loaded"])
def test_other_preprocessors(kind, tmp_path):
    vectors = keras.layers.TextVectorization(vocabulary=WORDS, output_sequence_length=4)
    ids = keras.Input((4,), dtype="int32")
    embedded = keras.layers.Embedding(10, 3)(ids)
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(embedded))
    strings = tf.constant(["the cat", "dog zebra ran ran ran"])
    # 0 pads, 1 is unknown.
    table = np.array(model.trainable_variables[0])
    want = table[[[2, 4, 0, 0], [5, 1, 7, 7]]].mean(1)
    if kind == "layer":
        paths = hub.export(model, tmp_path / "m", preprocessor=vectors, pair=True)
        encoder, front = map(tf.saved_model.load, paths)
        np.testing.assert_allclose(encoder(tf.cast(front(strings), "int32")), want, **CLOSE)
        given = front.signatures["serving_default"](sentences=strings)
        np.testing.assert_allclose(encoder(*given.values()), want, **CLOSE)
    else:
        text = keras.Input((), dtype="string", name="review")
        path = hub.export(keras.Model(text, vectors(text)), tmp_path / "preprocessor")
        path = hub.export(model, tmp_path / "m", preprocessor=tf.saved_model.load(path))
        module = tf.saved_model.load(path)
        np.testing.assert_allclose(module(strings), want, **CLOSE)
        (served,) = module.signatures["serving_default"](sentences=strings).values()
        np.testing.assert_allclose(served, want, **CLOSE)

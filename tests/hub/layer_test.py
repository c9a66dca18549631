"""`tfnlp.hub.Layer`: modules of plain TensorFlow, against the sums that they stand for."""

import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import hub
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer

WORDS = ["the", "cat", "sat", "dog"]
ROWS = np.arange(12, dtype="float32").reshape(6, 2)
SCALE = np.array([[2.0, 1.0], [0.0, 1.0]], "float32")
IDS = np.array([[0, 1, 2], [5, 5, 0]])
WANT = ROWS[IDS].sum(1) @ SCALE
_IDS = tf.TensorSpec([None, None], "int32", name="ids")


class Bag(tf.__internal__.tracking.AutoTrackable):
    """Ids `[B, T]` to the sum of their rows times a matrix, plus 100 in training; a sub-object
    that takes a mask; a penalty of the matrix."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(ROWS, name="bag/rows")
        self.scale = tf.Variable(SCALE, name="bag/scale")
        self.variables = [self.rows, self.scale]
        self.trainable_variables = [self.rows, self.scale]
        self.regularization_losses = [self.penalty]
        self.masked = Masked(self.rows)
        for training in (False, True):
            self.__call__.get_concrete_function(_IDS, training=training)
        self.penalty.get_concrete_function()

    @tf.function
    def __call__(self, ids, training=False):
        return tf.reduce_sum(tf.gather(self.rows, ids), 1) @ self.scale + 100.0 * float(training)

    @tf.function(input_signature=[])
    def penalty(self):
        return 0.5 * tf.reduce_sum(self.scale**2)


class Masked(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.variables = self.trainable_variables = [rows]
        self.__call__.get_concrete_function(_IDS, tf.TensorSpec([None, None], "bool", name="mask"))

    @tf.function
    def __call__(self, ids, mask=None):
        return tf.gather(self.rows, ids) * tf.cast(mask, "float32")[:, :, None]


def functional(layer, dtype="int32"):
    ids = keras.Input((3,), dtype=dtype)
    return keras.Model(ids, layer(ids))


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    bag = Bag()
    served = tf.function(lambda ids: {"sum": bag(ids), "ids": ids}).get_concrete_function(
        tf.TensorSpec([None, None], "int32", name="ids")
    )
    tf.saved_model.save(bag, str(folder / "bag"), {"served": served})
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS])
    hub.save(hub.BertPreprocessorModule(tokenizer, 8), folder / "preprocessor")
    return folder


# --- Calls


class Defaults(tf.Module):
    """`x a + b` if `plus`; arguments that a call may leave out, as tensors and as values."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 1]), tf.TensorSpec([], name="a"), tf.TensorSpec([], "bool")
        ]
    )  # fmt: skip
    def __call__(self, x, a=2.0, plus=True):
        return x * a + tf.where(plus, 1.0, 0.0)


def test_arguments_that_are_left_out_take_their_defaults(tmp_path):
    tf.saved_model.save(Defaults(), str(tmp_path / "m"))
    x = np.array([[3.0]], "float32")
    np.testing.assert_allclose(hub.Layer(tmp_path / "m")(x), [[7.0]])
    given = hub.Layer(tmp_path / "m", arguments={"a": 5.0, "plus": False})
    np.testing.assert_allclose(given(x), [[15.0]])
    inputs = keras.Input((1,))
    np.testing.assert_allclose(keras.Model(inputs, hub.Layer(tmp_path / "m")(inputs))(x), [[7.0]])


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_any_width_of_integers(modules, dtype):
    layer = hub.Layer(modules / "bag")
    np.testing.assert_allclose(layer(IDS.astype(dtype)), WANT)
    np.testing.assert_allclose(functional(layer, dtype)(IDS.astype(dtype)), WANT)
    np.testing.assert_allclose(layer(IDS.tolist()), WANT)


def test_training_is_for_layers_that_train(modules):
    for trainable in (False, True):
        layer = hub.Layer(str(modules / "bag"), trainable=trainable)
        model = functional(layer)
        assert layer.losses == []
        np.testing.assert_allclose(model(IDS, training=True), WANT + 100.0 * trainable)
        np.testing.assert_allclose(model(IDS), WANT)
        np.testing.assert_allclose(layer.losses, [0.5 * (SCALE**2).sum()] if trainable else [])
    layer.trainable = False
    np.testing.assert_allclose(layer(IDS, training=True), WANT)
    assert layer.losses == [] and layer.trainable_variables == []
    for trained in (False, True):
        layer.trainable = trained
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(IDS, np.zeros((2, 2)), verbose=0)
        assert [np.abs(v - ROWS).max() > 1e-6 for v in layer.variables[:1]] == [trained]


def test_lists_of_ragged_tensors_in_functional_models(modules):
    """The preprocessing model of 'Fine-tune a BERT model', by sub-objects."""
    module = tf.saved_model.load(str(modules / "preprocessor"))
    tokenize = hub.Layer(module.tokenize)
    pack = hub.Layer(module.bert_pack_inputs, arguments={"seq_length": 6})
    segments = [keras.Input((), dtype="string", name=name) for name in "ab"]
    tokens = [tokenize(segment) for segment in segments]
    assert tokens[0].ragged and tokens[0].dtype == "int32"
    model = keras.Model(segments, pack(tokens))
    texts = [tf.constant(["the cat sat", "dog"]), tf.constant(["the dog sat the", "cat"])]
    got = model(texts)
    words = {word: i for i, word in enumerate([*SPECIAL_TOKENS, *WORDS])}
    want = [
        ["[CLS]", "the", "cat", "[SEP]", "the", "[SEP]"],
        ["[CLS]", "dog", "[SEP]", "cat", "[SEP]", "[PAD]"],
    ]
    np.testing.assert_array_equal(got["input_word_ids"], [[words[w] for w in row] for row in want])
    np.testing.assert_array_equal(got["input_type_ids"], [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]])


def test_masks_reach_a_module_that_takes_them(modules):
    layer = hub.Layer(hub.Layer(modules / "bag").resolved_object.masked)
    mask = np.array([[True, True, False], [True, False, False]])
    want = ROWS[IDS] * mask[:, :, None]
    np.testing.assert_allclose(layer(IDS, mask=mask), want)
    ids = tf.constant(IDS, "int32")
    keras.src.backend.set_keras_mask(ids, tf.constant(mask))
    np.testing.assert_allclose(layer(ids), want)


def test_dtype_policies_leave_the_module_as_it_is(modules):
    with_policy = hub.Layer(modules / "bag", trainable=True, dtype="mixed_bfloat16")
    model = functional(with_policy)
    assert model.output.dtype == "float32" and with_policy.variables[0].dtype == "float32"
    np.testing.assert_array_equal(model(IDS), WANT)


def test_other_inputs_are_refused(modules):
    layer = hub.Layer(modules / "bag")
    for inputs, told in (
        (np.zeros((2,), "int32"), r"takes int32 \[\?, \?\], not int32 \[2\]"),
        (np.zeros((2, 2), "float32"), r"not float32 \[2, 2\]"),
        ({"ids": np.zeros((2, 2), "int32")}, r"not \{ids: int32 \[2, 2\]\}"),
    ):
        with pytest.raises(ValueError, match=told):
            layer(inputs)


def test_modules_of_the_first_format(tmp_path):
    """What hub.Module wrote: no tags, a signature called "default", and a marker file."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.placeholder("int32", [None], name="ids")
        rows = v1.get_variable("rows", initializer=ROWS, use_resource=True)
        session.run(rows.initializer)
        signature = v1.saved_model.predict_signature_def({"ids": ids}, {"default": rows[ids[0]]})
        builder = v1.saved_model.Builder(str(tmp_path / "old"))
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.save()
    (tmp_path / "old" / "tfhub_module.pb").write_bytes(b"")
    layer = hub.Layer(tmp_path / "old")
    np.testing.assert_array_equal(layer(np.array([3])), ROWS[3])
    assert layer.resolved_object.is_tf1_hub_module
    with pytest.raises(ValueError, match="cannot be trained"):
        hub.Layer(tmp_path / "old", trainable=True)


# --- Strings


class Counts(tf.__internal__.tracking.AutoTrackable):
    """A dict of one text, or of words and their number, to the number of words."""

    def __init__(self):
        super().__init__()
        text = {"text": tf.TensorSpec([None], "string")}
        words = {
            "words": tf.TensorSpec([None, None], "string"),
            "count": tf.TensorSpec([None], "int32"),
        }
        for spec in (text, words):
            self.__call__.get_concrete_function(spec)

    @tf.function
    def __call__(self, inputs):
        if "text" in inputs:
            count = tf.strings.split(inputs["text"]).row_lengths()
        else:
            count = inputs["count"] + 0 * tf.shape(inputs["words"])[1]
        return tf.cast(count, "float32")[:, None]


def test_a_module_of_one_text_takes_strings(tmp_path):
    tf.saved_model.save(Counts(), str(tmp_path / "counts"))
    layer, texts = hub.KerasLayer(tmp_path / "counts"), ["the cat sat", "", "a dog"]
    for inputs in (texts, np.array(texts), tf.constant(texts), {"text": texts}):
        np.testing.assert_array_equal(layer(inputs), [[3], [0], [2]])
    symbol = keras.Input((), dtype="string")
    model = keras.Model(symbol, layer(symbol))
    np.testing.assert_array_equal(model.predict(tf.constant(texts), verbose=0), [[3], [0], [2]])
    words = {"words": [["a", "b"], ["c", ""]], "count": [2, 1]}  # its lists are tensors
    np.testing.assert_array_equal(layer(words), [[2], [1]])
    with pytest.raises(ValueError, match=r"takes .*, not \{text: int32 \[2\]\}"):
        layer(np.array([1, 2], "int32"))


# --- Training: also dense gradients of a table, what Adam makes of rows that were taken twice


def test_layers_that_share_a_module_share_its_variables(modules):
    module = tf.saved_model.load(str(modules / "bag"))
    ids = keras.Input((3,), dtype="int32")
    both = keras.layers.Add()([hub.Layer(module, True)(ids), hub.Layer(module, True)(ids)])
    model = keras.Model(ids, both)
    assert len(model.trainable_variables) == 2
    assert model.trainable_variables[0].value is module.rows


def gradient_of_rows():
    """Of the mean square of `sum(rows) @ scale + 100`; 5 and 0 are taken more than once."""
    slope = 2 * (ROWS[IDS].sum(1) @ SCALE + 100) / 4 @ SCALE.T
    gradient = np.zeros_like(ROWS)
    for row, ids in zip(slope, IDS, strict=True):
        np.add.at(gradient, ids, row)
    return gradient


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True])
def test_adam_sees_the_sum_of_a_row(modules, eager):
    layer = hub.Layer(modules / "bag", trainable=True, freeze="scale")
    model = functional(layer)
    # One step is about rate * g / |g|, which tells g = a + b from a and b.
    rate, epsilon = 0.5, 1e-3
    adam = keras.optimizers.Adam(rate, epsilon=epsilon)
    model.compile(adam, "mse", jit_compile=not eager, run_eagerly=eager)
    model.fit(IDS, np.zeros((2, 2)), epochs=1, batch_size=2, verbose=0)
    g = gradient_of_rows()
    first, second = 0.1 * g, 0.001 * g**2
    want = ROWS - rate * np.sqrt(0.001) / 0.1 * first / (np.sqrt(second) + epsilon)
    np.testing.assert_allclose(layer.variables[0], want, rtol=1e-5)


# --- Files of Keras


def trained(path):
    layer = hub.Layer(path, trainable=True, freeze="scale", name="bag")
    model = functional(layer)
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    model.fit(IDS, np.zeros((2, 2)), epochs=1, batch_size=2, verbose=0)
    return model


def test_keras_file_round_trip(modules, tmp_path):
    model = trained(modules / "bag")
    assert np.abs(model(IDS) - WANT).max() > 0.01
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IDS), model(IDS))
    assert [v.path for v in again.trainable_variables] == ["bag/rows"]
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    np.testing.assert_array_equal(cloned(IDS), model(IDS))


@keras.saving.register_keras_serializable(package="tfnlp-tests")
class Subclassed(keras.Model):
    """Keras rebuilds it from a file by calling it on floats."""

    def __init__(self, path, **kwargs):
        super().__init__(**kwargs)
        self.path_of_module, self.bag = path, hub.Layer(path, trainable=True)
        self.head = keras.layers.Dense(3)

    def call(self, ids):
        return self.head(self.bag(ids))

    def get_config(self):
        return {"path": self.path_of_module}


def test_a_file_of_a_subclassed_model_has_all_weights(modules, tmp_path):
    model = Subclassed(str(modules / "bag"))
    want = model(IDS)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IDS), want)


def test_a_keras_file_of_a_stranger_fetches_nothing(modules, tmp_path):
    trained(modules / "bag").save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    url = "https://example.org/bag"
    parts["config.json"] = parts["config.json"].replace(str(modules / "bag").encode(), url.encode())
    with zipfile.ZipFile(tmp_path / "hostile.keras", "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(ValueError, match=f"needs the SavedModel {url}.*safe_mode=False"):
        keras.saving.load_model(tmp_path / "hostile.keras")


def test_bad_patterns(modules):
    for freeze, told in (("kernel", "found in no variable of .*bag/rows"), ("(", "regular")):
        with pytest.raises(ValueError, match=told):
            hub.Layer(modules / "bag", freeze=freeze)

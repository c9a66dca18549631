"""`tfnlp.hub.Layer`: modules of plain TensorFlow, against the sums that they stand for."""

import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub.bag import IDS, ROWS, SCALE, WANT, Bag, functional, penalised_steps
from tfnlp import hub
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer

WORDS = ["the", "cat", "sat", "dog"]


class Words(tf.__internal__.tracking.AutoTrackable):
    """Strings `[B]` to the vector of their word."""

    def __init__(self):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], "int64")), 0
        )
        self.rows = tf.Variable(ROWS, name="rows")
        self.variables = self.trainable_variables = [self.rows]
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string"))

    @tf.function
    def __call__(self, words):
        return tf.gather(self.rows, self.table.lookup(words))


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    bag = Bag()
    served = tf.function(lambda ids: {"sum": bag(ids), "ids": ids}).get_concrete_function(
        tf.TensorSpec([None, None], "int32", name="ids")
    )
    tf.saved_model.save(bag, str(folder / "bag"), {"served": served})
    tf.saved_model.save(Words(), str(folder / "words"))
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS])
    hub.save(hub.BertPreprocessorModule(tokenizer, 8), folder / "preprocessor")
    return folder


# --- Calls


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
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


def test_signature_outputs_and_keys(modules):
    path = modules / "bag"
    layer = hub.Layer(path, signature="served", output_key="sum")
    for inputs in (IDS, {"ids": IDS}):
        np.testing.assert_allclose(layer(inputs), WANT)
    assert functional(layer).output.shape == (None, 2)
    outputs = hub.Layer(path, signature="served", signature_outputs_as_dict=True)(IDS)
    assert sorted(outputs) == ["ids", "sum"] and not layer.variables


def test_strings_in_sequential_models(modules):
    """As the tutorials of TF-Hub have it, `input_shape` and `dtype` included."""
    layer = hub.Layer(modules / "words", input_shape=[], dtype=tf.string, trainable=True)
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    words, labels = tf.constant(["a", "b", "c", "a"]), np.array([0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(layer(words), ROWS[[1, 2, 0, 1]])
    np.testing.assert_allclose(layer(["a", "b"]), ROWS[[1, 2]])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(words, labels, epochs=1, batch_size=4, verbose=0)
    moved = np.abs(layer.variables[0].numpy() - ROWS).max(1)
    assert (moved[:3] > 0).all() and not moved[3:].any()
    assert not layer.supports_jit and hub.Layer(modules / "bag").supports_jit


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
    with pytest.raises(ValueError, match=r"takes int32 \[\?, \?\], not int64 \[2, 3\]"):
        layer(IDS)  # it was saved with a mask alone


def test_dtype_policies_leave_the_module_as_it_is(modules):
    with_policy = hub.Layer(modules / "bag", trainable=True, dtype="mixed_bfloat16")
    model = functional(with_policy)
    assert model.output.dtype == "float32" and with_policy.variables[0].dtype == "float32"
    np.testing.assert_array_equal(model(IDS), WANT)
    keras.config.set_dtype_policy("mixed_bfloat16")
    np.testing.assert_array_equal(functional(hub.Layer(modules / "bag"))(IDS), WANT)


@pytest.mark.parametrize(
    "inputs, told",
    [
        (np.zeros((2,), "int32"), r"takes int32 \[\?, \?\], not int32 \[2\]"),
        (np.zeros((2, 2), "float32"), r"not float32 \[2, 2\]"),
        ({"ids": np.zeros((2, 2), "int32")}, r"not \{ids: int32 \[2, 2\]\}"),
    ],
)
def test_other_inputs_are_refused(modules, inputs, told):
    with pytest.raises(ValueError, match=told):
        hub.Layer(modules / "bag")(inputs)


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
    with pytest.raises(ValueError, match="cannot be trained; use trainable=False$"):
        hub.Layer(tmp_path / "old", trainable=True)


# --- Training


@pytest.mark.parametrize("frozen", [None, "rows", r"bag/sc"])
@pytest.mark.parametrize("jit", [False, True])
def test_fit_is_gradient_descent(modules, frozen, jit):
    layer = hub.Layer(modules / "bag", trainable=True, freeze=frozen)
    model = functional(layer)
    model.compile(keras.optimizers.SGD(1e-4), "mse", jit_compile=jit)
    model.fit(IDS, np.zeros((2, 2)), epochs=3, batch_size=2, verbose=0)
    names = {None: (), "rows": ("rows",), r"bag/sc": ("scale",)}[frozen]
    assert len(layer.trainable_variables) == 2 - len(names) and len(layer.variables) == 2
    variables = sorted(layer.variables, key=lambda v: v.path)
    for got, want in zip(variables, penalised_steps(ROWS, SCALE, 3, 1e-4, names), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4)


class Subclassed(keras.Model):
    def __init__(self, path):
        super().__init__()
        self.bag = hub.Layer(path, trainable=True)

    def call(self, ids, training=False):
        return self.bag(ids, training=training)


@pytest.mark.parametrize("kind", ["subclassed", "sequential", "two replicas"])
def test_every_kind_of_model(modules, kind):
    strategy = tf.distribute.get_strategy()
    if kind == "two replicas":
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        if kind == "subclassed":
            model = Subclassed(modules / "bag")
        else:
            model = keras.Sequential(
                [keras.Input((3,), dtype="int32"), hub.Layer(modules / "bag", trainable=True)]
            )
        model.compile(keras.optimizers.SGD(1e-4), "mse")
    data = tf.data.Dataset.from_tensors((tf.constant(IDS, "int32"), tf.zeros((2, 2))))
    model.fit(data.unbatch().batch(2, drop_remainder=True).repeat(2), epochs=1, verbose=0)
    for got, want in zip(model.variables, penalised_steps(ROWS, SCALE, 2, 1e-4), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "Adagrad", "RMSprop", "Lion", "Muon"])
def test_optimizers_of_keras_with_clipping(modules, optimizer):
    layer = hub.Layer(modules / "bag", trainable=True)
    model = functional(layer)
    model.compile(getattr(keras.optimizers, optimizer)(0.01, global_clipnorm=0.1), "mse")
    model.fit(IDS, np.zeros((2, 2)), epochs=1, batch_size=2, verbose=0)
    for got, before in zip(layer.variables, (ROWS, SCALE), strict=True):
        assert np.abs(got - before).max() > 1e-5


def test_layers_that_share_a_module_share_its_variables(modules):
    module = tf.saved_model.load(str(modules / "bag"))
    ids = keras.Input((3,), dtype="int32")
    both = keras.layers.Add()([hub.Layer(module, True)(ids), hub.Layer(module, True)(ids)])
    model = keras.Model(ids, both)
    assert len(model.trainable_variables) == 2
    assert model.trainable_variables[0].value is module.rows


# --- Refusals


@pytest.mark.parametrize(
    "arguments, told",
    [
        (dict(signature="none", output_key="x"), "signature='none' is not one of .*: served"),
        (dict(signature="served"), r"give either output_key \(ids, sum\) or signature_outputs"),
        (dict(signature="served", output_key="sum", trainable=True), "cannot be trained"),
        (dict(signature_outputs_as_dict=True), "is for a signature"),
        (dict(freeze="kernel"), "freeze='kernel' is found in no variable of .*bag/rows"),
        (dict(freeze="("), "must be a regular expression"),
    ],
)
def test_bad_arguments(modules, arguments, told):
    with pytest.raises(ValueError, match=told):
        hub.Layer(modules / "bag", **arguments)


def test_bad_outputs_and_places(modules, tmp_path):
    with pytest.raises(ValueError, match="output_key='x', but .* returns float32"):
        hub.Layer(modules / "bag", output_key="x")(IDS)
    layer = hub.Layer(modules / "bag", signature="served", output_key="x")
    with pytest.raises(ValueError, match="output_key='x' is not one of ids, sum"):
        layer(IDS)
    with pytest.raises(FileNotFoundError, match="none"):
        hub.Layer(tmp_path / "none")
    os.makedirs(tmp_path / "plain")
    tf.saved_model.save(tf.Module(), str(tmp_path / "plain"))
    with pytest.raises(ValueError, match="plain is not callable; give one of its signatures: none"):
        hub.Layer(tmp_path / "plain")
    assert pathlib.Path(modules / "bag").is_dir()

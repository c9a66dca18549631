"""`tfnlp.hub.Layer` beside `tensorflow_hub.KerasLayer`: the same arguments, meanings and errors;
and what the other ways to reuse a SavedModel do in Keras 3, as the documentation claims."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub
import tf_keras

from tests.hub import makers
from tests.hub.makers import LIBRARIES
from tfnlp import hub

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
CLOSE = dict(rtol=1e-6, atol=1e-6)


class Arguments(tf.__internal__.tracking.AutoTrackable):
    """`x [B, 4]` to `x * factor`, upside down on demand, of a shape that nobody knows."""

    def __init__(self):
        super().__init__()
        x = tf.TensorSpec([None, 4], "float32", name="x")
        for flip in (False, True):
            self.__call__.get_concrete_function(x, tf.TensorSpec([], "float32"), flip=flip)
            self.__call__.get_concrete_function(x, flip=flip)
        self.halves = Halves()

    @tf.function
    def __call__(self, x, factor=2.0, flip=False):
        x = tf.reverse(x, [0]) if flip else x
        return tf.reshape(x * factor, tf.random.shuffle(tf.shape(x), seed=1) * 0 + tf.shape(x))


class Halves(tf.__internal__.tracking.AutoTrackable):
    def __init__(self):
        super().__init__()
        self.__call__.get_concrete_function(tf.TensorSpec([None, 4], "float32", name="x"))

    @tf.function
    def __call__(self, x):
        unknown = tf.cast(tf.reduce_sum(x) * 0, "int32")  # hides the sizes
        rows = tf.shape(x)[0] + unknown
        return {
            "left": tf.reshape(x[:, :2], [rows, 2 + unknown]),
            "right": [tf.reshape(x[:, 2:], [rows, 2 + unknown, 1])],
        }


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """`module`: callable, with a signature; `signature`: nothing but one; `arguments`."""
    folder = tmp_path_factory.mktemp("modules")
    makers.keras_2(str(folder / "module"))
    makers.model_export(str(folder / "signature"))
    tf.saved_model.save(Arguments(), str(folder / "arguments"))
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


# --- Arguments


def test_the_arguments_are_the_same():
    theirs = inspect.signature(tensorflow_hub.KerasLayer.__init__).parameters
    ours = inspect.signature(hub.Layer.__init__).parameters
    names = [name for name in theirs if name != "_sentinel"]  # which nobody gives
    assert list(ours)[: len(names) - 1] == names[:-1] and list(ours)[-1] == names[-1] == "kwargs"
    for name in names:
        assert ours[name].default == theirs[name].default, name
        assert ours[name].kind == theirs[name].kind, name


def test_the_resolved_object(paths, library):
    _, layer_class = library
    layer = layer_class(paths["module"])
    assert callable(layer.resolved_object) and len(layer.resolved_object.variables) == 8
    loaded = tf.saved_model.load(paths["module"])
    layer = layer_class(loaded)
    assert layer.resolved_object is loaded
    np.testing.assert_allclose(layer(X), loaded(X, training=False), **CLOSE)
    part = tf.saved_model.load(paths["arguments"]).halves
    assert layer_class(part).resolved_object is part


def test_arguments_reach_the_module(paths, library):
    _, layer_class = library
    for arguments, want in (
        (None, 2 * X),
        (dict(factor=3.0), 3 * X),
        (dict(flip=True), 2 * X[::-1]),
        (dict(flip=True, factor=-1.0), -X[::-1]),
    ):
        layer = layer_class(paths["arguments"], arguments=arguments)
        np.testing.assert_allclose(layer(tf.constant(X)), want, **CLOSE)


def test_the_output_shape(paths, library):
    """Where a module does not say. `KerasLayer` is of no help but for a known batch size."""
    k, layer_class = library
    loaded = tf.saved_model.load(paths["arguments"])
    shapes = {"left": (2,), "right": [(2, 1)]}
    for batch in (3, None) if k is keras else (3,):
        x = k.Input((4,), batch_size=batch)
        y = layer_class(paths["arguments"], output_shape=[4])(x)
        assert tuple(y.shape) == (batch, 4)
        model = k.Model(x, k.layers.Dense(2)(y))  # which must know the width
        assert model(X).shape == (3, 2)
        outputs = layer_class(loaded.halves, output_shape=shapes)(x)
        assert tuple(outputs["left"].shape) == (batch, 2)
        assert tuple(outputs["right"][0].shape) == (batch, 2, 1)
        model = k.Model(x, outputs)
        np.testing.assert_allclose(model(X)["right"][0][..., 0], X[:, 2:], **CLOSE)


def test_tags_and_options(paths, library):
    _, layer_class = library
    options = tf.saved_model.LoadOptions(experimental_io_device="/job:localhost")
    layer = layer_class(paths["module"], tags=["serve"], load_options=options)
    assert layer(X).shape == (3, 3)
    with pytest.raises((ValueError, RuntimeError)):
        layer_class(paths["module"], tags=["train"])


def test_names_and_types(paths, library):
    _, layer_class = library
    layer = layer_class(paths["module"], name="backbone", dtype="float32")
    assert layer.name == "backbone" and not layer.trainable
    assert layer(X).dtype == "float32"


def test_signatures(paths, library):
    _, layer_class = library
    want = tf.saved_model.load(paths["module"])(X, training=False)
    given = dict(signature="serving_default")
    for inputs in (tf.constant(X), dict(x=tf.constant(X))):
        one = layer_class(paths["module"], output_key="last", **given)(inputs)
        all_ = layer_class(paths["module"], signature_outputs_as_dict=True, **given)(inputs)
        np.testing.assert_allclose(one, want, **CLOSE)
        assert list(all_) == ["last"]
        np.testing.assert_allclose(all_["last"], want, **CLOSE)


def test_an_output_of_a_callable(paths, library):
    _, layer_class = library
    part = tf.saved_model.load(paths["arguments"]).halves
    np.testing.assert_allclose(layer_class(part, output_key="left")(X), X[:, :2], **CLOSE)


def test_trainable_can_be_changed(paths, library):
    k, layer_class = library
    layer = layer_class(paths["module"], trainable=True)
    model = k.Sequential([layer, k.layers.Dense(1)])
    model(X)
    assert len(model.trainable_variables) == 8 and float(sum(model.losses)) > 0
    layer.trainable = False
    assert len(model.trainable_variables) == 2
    before = [v.numpy() for v in layer.resolved_object.variables]
    model.compile(k.optimizers.SGD(0.1), "mse")
    model.fit(X, np.ones((3, 1)), epochs=2, verbose=0)
    assert float(sum(model.losses)) == 0
    for a, b in zip(before, layer.resolved_object.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    layer.trainable = True
    model.compile(k.optimizers.SGD(0.1), "mse")
    model.fit(X, np.ones((3, 1)), verbose=0)
    after = [v.numpy() for v in layer.resolved_object.variables]
    assert all(np.abs(a - b).max() > 1e-6 for a, b in zip(before, after, strict=True))


# --- Configuration


CONFIGURED = {
    "arguments": dict(trainable=False, arguments=dict(factor=3.0), output_shape=[4]),
    "module": dict(trainable=True, name="backbone"),
    "signature": dict(signature="serving_default", output_key="output_0"),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_configuration(paths, name):
    given = dict(handle=paths[name], **CONFIGURED[name])
    for _, layer_class in LIBRARIES.values():
        layer = layer_class(**given)
        config = layer.get_config()
        for key, value in given.items():
            got = config[key]
            assert (list(got) if key == "output_shape" else got) == value, key
        assert not {"tags", "load_options", "freeze"} & config.keys()  # not given
        again = layer_class.from_config(config)
        np.testing.assert_allclose(again(tf.constant(X)), layer(tf.constant(X)), **CLOSE)
        assert again.trainable == layer.trainable and again.name == layer.name


def test_what_has_no_configuration(paths, library):
    _, layer_class = library
    layer = layer_class(tf.saved_model.load(paths["module"]))
    ours = layer_class is hub.Layer
    error, told = (ValueError, "folder") if ours else (NotImplementedError, "string `handle`")
    with pytest.raises(error, match=told):
        layer.get_config()
    layer = layer_class(paths["arguments"], arguments=dict(factor=np.float32(3)))
    np.testing.assert_allclose(layer(tf.constant(X)), 3 * X, **CLOSE)
    with pytest.raises(ValueError, match="(?i)json"):
        layer.get_config()


# --- Errors


SERVING = dict(signature="serving_default")
WRONG = {
    "no choice of outputs": ("module", SERVING),
    "two choices of outputs": (
        "module",
        dict(output_key="last", signature_outputs_as_dict=True, **SERVING),
    ),
    "unknown signature": ("module", dict(signature="other", output_key="last")),
    "a dict of no signature": ("module", dict(signature_outputs_as_dict=True)),
    "unknown output": ("module", dict(output_key="other", **SERVING)),
    "output of no dict": ("module", dict(output_key="last")),
    "another shape": ("module", dict(output_shape=[7])),
    "a signature to train": ("module", dict(output_key="last", trainable=True, **SERVING)),
    "nothing to call": ("signature", {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(paths, library, name):
    _, layer_class = library
    path, arguments = WRONG[name]
    with pytest.raises(ValueError):  # when it is made, or when it is called
        layer_class(paths[path], **arguments)(tf.constant(X))


@pytest.mark.parametrize(
    "arguments", [dict(tags=["serve"]), dict(load_options=tf.saved_model.LoadOptions())]
)
def test_what_is_loaded_is_not_loaded_again(paths, library, arguments):
    _, layer_class = library
    loaded = tf.saved_model.load(paths["module"])
    with pytest.raises(ValueError, match="|".join(arguments)):
        layer_class(loaded, **arguments)


def test_nothing_there(tmp_path, library):
    with pytest.raises(OSError):
        library[1](str(tmp_path / "absent"))


# --- What is claimed of the other ways, in Keras 3


def test_keras_layer_in_a_functional_model_raises(paths):
    x = keras.Input((4,))
    with pytest.raises(ValueError, match="KerasTensor is symbolic"):
        tensorflow_hub.KerasLayer(paths["module"], trainable=True)(x)
    with pytest.raises(ValueError, match="Only instances of `keras.Layer` can be added"):
        keras.Sequential([tensorflow_hub.KerasLayer(paths["module"], trainable=True)])


class Subclassed(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.head(self.layer(x))


def test_keras_layer_in_a_subclassed_model_trains_nothing(paths):
    moved, losses = {}, {}
    for layer_class in (tensorflow_hub.KerasLayer, hub.Layer):
        layer = layer_class(paths["module"], trainable=True)
        before = [v.numpy() for v in layer.resolved_object.trainable_variables]
        model = Subclassed(layer)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(X, np.ones((3, 1)), epochs=2, verbose=0)  # and says nothing
        model(X)
        after = layer.resolved_object.trainable_variables
        moved[layer_class] = [np.abs(a - b).max() > 0 for a, b in zip(after, before, strict=True)]
        losses[layer_class] = len(model.losses)
        count = len(layer.trainable_variables)
        assert count == 6
        assert len(model.trainable_variables) == (2 if layer_class is not hub.Layer else 8)
    assert moved == {tensorflow_hub.KerasLayer: [False] * 6, hub.Layer: [True] * 6}
    assert losses == {tensorflow_hub.KerasLayer: 0, hub.Layer: 1}


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_tfsm_layer_cannot_be_trained_with_adam(paths, optimizer):
    def model_of(layer):
        x = keras.Input((4,))
        model = keras.Model(x, keras.layers.Dense(1)(layer(x)))
        model.compile(optimizer, "mse")
        return model

    model = model_of(keras.layers.TFSMLayer(paths["module"], call_endpoint="__call__"))
    with pytest.raises(ValueError, match="is not a valid scope name"):
        model.fit(X, np.ones((3, 1)), verbose=0)
    assert model.losses == []  # the module has one
    model = model_of(hub.Layer(paths["module"], trainable=True))
    model.fit(X, np.ones((3, 1)), verbose=0)
    assert len(model.losses) == 1


def test_tf_keras_is_what_the_other_layer_is_of():
    assert issubclass(tensorflow_hub.KerasLayer, tf_keras.layers.Layer)
    assert not issubclass(tensorflow_hub.KerasLayer, keras.layers.Layer)
    assert issubclass(hub.Layer, keras.layers.Layer)

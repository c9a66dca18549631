"""`tfnlp.hub.Layer` and `tensorflow_hub.KerasLayer` have the same arguments and errors."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub
import tf_keras

from tfnlp import hub

pytestmark = pytest.mark.slow

LIBRARIES = {"tf_keras": (tf_keras, tensorflow_hub.KerasLayer), "keras": (keras, hub.Layer)}
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
CLOSE = dict(rtol=1e-6, atol=1e-6)


class Plain(tf.__internal__.tracking.AutoTrackable):
    """`x [B, 4]` to `tanh(x W)`."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.kernel = tf.Variable(rng.normal(0, 0.5, (4, 3)).astype("float32"), name="kernel")
        # As lists of a plain object: a tf.Module's own are properties, which are not saved.
        self.variables = self.trainable_variables = [self.kernel]
        self.regularization_losses = []
        for training in (False, True):
            x = tf.TensorSpec([None, 4], "float32", name="x")
            self.__call__.get_concrete_function(x, training=training)

    @tf.function
    def __call__(self, x, training=False):
        return tf.tanh(x @ self.kernel)


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
    module, x = Plain(), tf.TensorSpec([None, 4], "float32", name="x")
    served = tf.function(lambda x: {"last": module(x)}).get_concrete_function(x)
    tf.saved_model.save(module, str(folder / "module"), {"serving_default": served})
    kernel = tf.Module()
    kernel.w = tf.Variable(module.kernel)
    last = tf.function(lambda x: {"last": x @ kernel.w}).get_concrete_function(x)
    tf.saved_model.save(kernel, str(folder / "signature"), {"serving_default": last})
    tf.saved_model.save(Arguments(), str(folder / "arguments"))
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(params=["tf_keras", "keras"])
def library(request):
    return LIBRARIES[request.param]


# --- Arguments


def test_the_arguments_are_the_same():
    theirs = inspect.signature(tensorflow_hub.KerasLayer.__init__).parameters
    ours = inspect.signature(hub.Layer.__init__).parameters
    for name, parameter in theirs.items():
        if name != "_sentinel":  # which nobody gives
            assert (ours[name].default, ours[name].kind) == (parameter.default, parameter.kind)


def test_arguments_reach_the_module(paths, library):
    _, layer_class = library
    for arguments, want in ((None, 2 * X), (dict(flip=True, factor=-1.0), -X[::-1])):
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


def test_signatures_tags_and_options(paths, library):
    _, layer_class = library
    want = tf.saved_model.load(paths["module"])(X, training=False)
    given = dict(
        signature="serving_default",
        tags=["serve"],
        load_options=tf.saved_model.LoadOptions(experimental_io_device="/job:localhost"),
    )
    for inputs in (tf.constant(X), dict(x=tf.constant(X))):
        one = layer_class(paths["module"], output_key="last", **given)(inputs)
        all_ = layer_class(paths["module"], signature_outputs_as_dict=True, **given)(inputs)
        np.testing.assert_allclose(one, want, **CLOSE)
        assert list(all_) == ["last"]
        np.testing.assert_allclose(all_["last"], want, **CLOSE)


# --- Configuration


CONFIGURED = {
    "arguments": dict(trainable=False, arguments=dict(factor=3.0), output_shape=[4]),
    "module": dict(trainable=True, name="backbone"),
    "signature": dict(signature="serving_default", output_key="last"),
}


def test_the_configuration(paths, library):
    _, layer_class = library
    for name, arguments in CONFIGURED.items():
        given = dict(handle=paths[name], **arguments)
        layer = layer_class(**given)
        config = layer.get_config()
        for key, value in given.items():
            got = config[key]
            assert (list(got) if key == "output_shape" else got) == value, key
        assert not {"tags", "load_options", "freeze"} & config.keys()  # not given
        again = layer_class.from_config(config)
        np.testing.assert_allclose(again(tf.constant(X)), layer(tf.constant(X)), **CLOSE)
        assert again.trainable == layer.trainable and again.name == layer.name


def test_what_has_no_configuration(paths):
    options = tf.saved_model.LoadOptions()
    for told, handle, given in (
        ("loaded object", tf.saved_model.load(paths["module"]), {}),
        ("'arguments'", paths["arguments"], dict(arguments=dict(factor=np.float32(3)))),
        ("load_options", paths["module"], dict(load_options=options)),
    ):
        with pytest.raises(ValueError, match=told):
            hub.Layer(handle, **given).get_config()


# --- Errors


SERVING = dict(signature="serving_default")
WRONG = {  # the SavedModel, arguments, and what the error must name
    "no outputs": ("module", SERVING, "output_key .* or signature_outputs"),
    "no such signature": (
        "module", dict(signature="other", output_key="last"), "signature='other'"
    ),
    "no dict": ("module", dict(output_key="last"), "output_key='last'"),
    "another shape": ("module", dict(output_shape=[7]), "output_shape="),
    "trained": ("module", dict(output_key="last", trainable=True, **SERVING), "cannot be trained"),
    "nothing to call": ("signature", {}, "not callable"),
}  # fmt: skip


def test_errors(paths):
    for path, arguments, told in WRONG.values():
        with pytest.raises((ValueError, OSError), match=told):  # when it is made, or called
            hub.Layer(paths.get(path, "absent"), **arguments)(tf.constant(X))

"""What the house promises of every layer, checked on one table of tiny instances.

A new layer needs one `Row` in `conformance_table.ROWS`; `test_every_layer_has_a_row` says so if
it has none.
"""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conformance_calls import (
    arrays,
    build,
    built,
    cotangents,
    functional,
    lengthened,
    rng_of,
)
from tests.conformance_row import B
from tests.conformance_table import LEARNING, ROWS, UNWEIGHTED, table
from tests.conformance_values import weighed
from tfnlp import layers

CALM = [row for row in UNWEIGHTED if not row.options.get("training")]  # that draw no numbers


class Instance:
    """A layer with random weights that no test changes, and what it makes of random inputs."""

    def __init__(self, row):
        rng = rng_of(row)
        self.layer, self.inputs = built(row, rng)
        self.outputs = row.call(self.layer, self.inputs)
        self.cotangents = cotangents(self.outputs, rng)  # a random weight for each output
        self.model = functional(row, self.layer, unknown_time=True)


@pytest.fixture(scope="module")
def instances():
    return {}


@pytest.fixture
def made(row, instances):
    if row.name not in instances:
        instances[row.name] = Instance(row)
    return instances[row.name]


def assert_close(got, expected, tolerance=1e-5):
    got, expected = arrays(keras.tree.flatten(got)), arrays(keras.tree.flatten(expected))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance)


def outputs_and_gradients(row, layer, inputs, weights_of_outputs):
    """The outputs, and d(sum of outputs times random numbers) / d(each weight) as tensors."""
    with tf.GradientTape() as tape:
        outputs = row.call(layer, inputs)
        loss = weighed(outputs, weights_of_outputs)
    if not row.gradient:
        return outputs, []
    gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
    return outputs, [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def test_every_layer_has_a_row():
    public = {
        value
        for value in (getattr(layers, name) for name in layers.__all__)
        if inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    }
    assert public == {row.layer for row in [*ROWS, *UNWEIGHTED]}


@table([*ROWS, *CALM])
def test_config_round_trip(row, made):
    """Of the configuration; `build` makes all weights, a call no more."""
    config = made.layer.get_config()
    named = inspect.signature(row.layer.__init__).parameters
    of_keras = inspect.signature(keras.layers.Layer.__init__).parameters
    assert set(named) - set(of_keras) <= set(config), "an argument is missing from get_config"
    for name, value in row.args.items():
        if name.endswith("initializer"):
            got = keras.initializers.get(config[name])
            assert type(got) is type(keras.initializers.get(value))
        else:
            assert config[name] == value
    assert keras.saving.get_registered_name(row.layer) == f"tfnlp>{row.layer.__name__}"

    copy = row.layer.from_config(json.loads(json.dumps(config)))
    assert copy.get_config() == config and copy.weights == []
    build(row, copy)
    paths = [w.path for w in copy.weights]
    assert copy.built and bool(paths) == row.weights and len(set(paths)) == len(paths)
    copy.set_weights(made.layer.get_weights())
    assert_close(row.call(copy, made.inputs), made.outputs, 0)
    assert [w.path for w in copy.weights] == paths


@table([*ROWS, *CALM])
def test_keras_file_round_trip(row, made, tmp_path):
    made.model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(made.inputs), made.outputs, 1e-6)


@table(ROWS, sampled=True)
def test_xla_equals_eager(row, made):
    def run(inputs):
        if row.xla_gradient:
            return outputs_and_gradients(row, made.layer, inputs, made.cotangents)
        return row.call(made.layer, inputs)

    compiled = tf.function(run, jit_compile=True, autograph=False)
    assert_close(compiled(made.inputs), run(made.inputs), 2e-5)


@table(ROWS)
@pytest.mark.parametrize(
    "kind, error", [("bfloat16", 0.03), pytest.param("float16", 0.004, marks=pytest.mark.long)]
)
def test_16_bit_policies(row, made, kind, error):
    half, _ = built(row, rng_of(row), dtype=f"mixed_{kind}")
    dtypes = tuple(dtype.replace("bfloat16", kind) for dtype in row.bf16)
    trained = {w.dtype for w in half.weights if w.trainable}
    assert trained == ({"float32"} if row.weights else set())
    assert {keras.backend.standardize_dtype(y.dtype) for y in made.outputs} == {"float32"}
    got, gradients = outputs_and_gradients(row, half, made.inputs, made.cotangents)
    assert tuple(keras.backend.standardize_dtype(y.dtype) for y in got) == dtypes
    model = functional(row, half, unknown_time=False)  # what is promised before any number flows
    assert tuple(y.dtype for y in model.outputs) == dtypes
    for g, e in zip(arrays(got), arrays(made.outputs), strict=True):
        # bfloat16 has 8 bits, 0.004; float16 11, 0.0005.
        assert np.abs(g - e).max() < error * max(1, np.abs(e).max())
    for gradient in gradients:
        assert gradient.dtype == tf.float32 and np.isfinite(gradient).all()


@table([row for row in ROWS if row.padded])
def test_padding_changes_nothing(row, made):
    real, other, longer, more = lengthened(row, made.inputs, rng_of(row))
    expected = row.keep(arrays(made.outputs), real)
    assert_close(row.keep(arrays(row.call(made.layer, other)), real), expected)
    assert_close(row.keep(arrays(row.call(made.layer, longer)), more), expected)


@table(LEARNING)
def test_gradients_reach_every_weight(row, made):
    _, gradients = outputs_and_gradients(row, made.layer, made.inputs, made.cotangents)
    assert len(gradients) == len(made.layer.trainable_variables) > 0
    for variable, gradient in zip(made.layer.trainable_variables, gradients, strict=True):
        assert gradient is not None, f"no gradient for {variable.path}"
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 1e-4, f"zero gradient for {variable.path}"


def traced(row, layer, shapes):
    """A graph of the layer for inputs of these shapes."""
    function = tf.function(lambda x: row.call(layer, x), autograph=False)
    return function.get_concrete_function(
        {n: tf.TensorSpec(shape, row.inputs[n].dtype) for n, shape in shapes.items()}
    )


@table(ROWS, sampled=True)
def test_static_shapes_stay_static(row, made):
    shapes = [tuple(y.shape) for y in made.outputs]
    symbols = {n: keras.Input(batch_shape=s.shape, dtype=s.dtype) for n, s in row.inputs.items()}
    assert [tuple(y.shape) for y in row.call(made.layer, symbols)] == shapes
    any_batch = traced(row, made.layer, {n: [None, *s.shape[1:]] for n, s in row.inputs.items()})
    for y, shape in zip(any_batch.structured_outputs, shapes, strict=True):
        assert tuple(y.shape) == (None if shape[0] == B else shape[0], *shape[1:])


@table([row for row in ROWS if row.time], sampled=True)
def test_unknown_length(row, made):
    assert_close(made.model(made.inputs), made.outputs)
    shapes = {n: [None, *s.shape[1:]] for n, s in row.inputs.items()}
    for name, axis in row.time.items():
        shapes[name][axis] = None
    graph = traced(row, made.layer, shapes)
    assert_close(graph({n: tf.constant(v) for n, v in made.inputs.items()}), made.outputs)
    for symbolic, inside, value in zip(
        made.model.outputs, graph.structured_outputs, made.outputs, strict=True
    ):
        # Whatever is said about the shape is true, and both say the same.
        assert value.shape.is_compatible_with(tf.TensorShape(symbolic.shape))
        unknown = [size is None for size in symbolic.shape]
        assert [size is None for size in inside.shape] == unknown

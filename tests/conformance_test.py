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
from tests.conformance_row import (
    B,
    numbers,
    numbers_at_real,
    scores_at_real,
    weights_at_real,
)
from tests.conformance_table import LEARNING, ROWS, UNWEIGHTED
from tests.training import toy
from tfnlp import layers


def table(rows=ROWS):
    return pytest.mark.parametrize("row", rows, ids=[row.name.replace(" ", "-") for row in rows])


@pytest.fixture(scope="module")
def two_replicas():
    return toy.two_replicas()


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
        parts = [
            tf.reduce_sum(tf.cast(y, "float32") * c)
            for y, c in zip(outputs, weights_of_outputs, strict=True)
        ]
        loss = tf.add_n(parts)
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


@table()
def test_build_makes_all_weights(row):
    layer = row.make()
    assert layer.weights == []
    build(row, layer)
    assert layer.built
    made = [(w.path, tuple(w.shape)) for w in layer.weights]
    assert bool(made) == row.weights and len({path for path, _ in made}) == len(made)
    row.call(layer, row.draw(rng_of(row)))
    assert [(w.path, tuple(w.shape)) for w in layer.weights] == made


@table()
def test_config_round_trip(row):
    layer, inputs = built(row, rng_of(row))
    config = layer.get_config()
    named = set(inspect.signature(row.layer.__init__).parameters) - {"self", "kwargs"}
    assert named <= set(config), "a constructor argument is missing from get_config"
    for name, value in row.args.items():
        if name.endswith("initializer"):
            got = keras.initializers.get(config[name])
            assert type(got) is type(keras.initializers.get(value))
        else:
            assert config[name] == value
    assert keras.saving.get_registered_name(row.layer) == f"tfnlp>{row.layer.__name__}"

    copy = row.layer.from_config(json.loads(json.dumps(config)))
    assert copy.get_config() == config
    build(row, copy)
    copy.set_weights(layer.get_weights())
    assert_close(row.call(copy, inputs), row.call(layer, inputs), 0)


@table()
def test_keras_file_round_trip(row, tmp_path):
    layer, inputs = built(row, rng_of(row))
    model = functional(row, layer, unknown_time=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(inputs), row.call(layer, inputs), 1e-6)


@pytest.mark.slow
@table()
def test_saved_model_gives_the_same(row, tmp_path):
    layer, inputs = built(row, rng_of(row))
    functional(row, layer, unknown_time=True).export(tmp_path / "module", verbose=False)
    module = tf.saved_model.load(str(tmp_path / "module"))
    served = module.serve({name: tf.constant(value) for name, value in inputs.items()})
    assert_close(served, row.call(layer, inputs), 1e-5)


@pytest.mark.slow
@table()
def test_xla_equals_eager(row):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row.call(layer, inputs), rng)

    def run(inputs):
        if row.xla_gradient:
            return outputs_and_gradients(row, layer, inputs, weights)
        return row.call(layer, inputs)

    compiled = tf.function(run, jit_compile=True, autograph=False)
    assert_close(compiled(inputs), run(inputs), 2e-5)


@table()
@pytest.mark.parametrize("kind, error", [("bfloat16", 0.03), ("float16", 0.004)])
def test_16_bit_policies(row, kind, error):
    layer, inputs = built(row, rng_of(row))
    half, _ = built(row, rng_of(row), dtype=f"mixed_{kind}")
    dtypes = tuple(dtype.replace("bfloat16", kind) for dtype in row.bf16)
    trained = {w.dtype for w in half.weights if w.trainable}
    assert trained == ({"float32"} if row.weights else set())
    expected, got = row.call(layer, inputs), row.call(half, inputs)
    assert tuple(keras.backend.standardize_dtype(y.dtype) for y in expected) == (
        ("float32",) * len(row.bf16)
    )
    assert tuple(keras.backend.standardize_dtype(y.dtype) for y in got) == dtypes
    model = functional(row, half, unknown_time=False)  # what is promised before any number flows
    assert tuple(y.dtype for y in model.outputs) == dtypes
    for g, e in zip(arrays(got), arrays(expected), strict=True):
        # bfloat16 has 8 bits, 0.004; float16 11, 0.0005.
        assert np.abs(g - e).max() < error * max(1, np.abs(e).max())

    weights = cotangents(expected, rng_of(row))
    for gradient in outputs_and_gradients(row, half, inputs, weights)[1]:
        assert gradient is not None
        assert gradient.dtype == tf.float32 and np.isfinite(gradient).all()


@table([row for row in ROWS if row.padded])
def test_padding_changes_nothing(row):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    real, other, longer, more = lengthened(row, inputs, rng)
    expected = row.keep(arrays(row.call(layer, inputs)), real)
    assert_close(row.keep(arrays(row.call(layer, other)), real), expected)
    assert_close(row.keep(arrays(row.call(layer, longer)), more), expected)


@table(LEARNING)
def test_gradients_reach_every_weight(row):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row.call(layer, inputs), rng)
    _, gradients = outputs_and_gradients(row, layer, inputs, weights)
    assert len(gradients) == len(layer.trainable_variables) > 0
    for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
        assert gradient is not None, f"no gradient for {variable.path}"
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 1e-4, f"zero gradient for {variable.path}"


@pytest.mark.slow
@table(LEARNING)
def test_two_replicas_equal_one(row, two_replicas):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row.call(layer, inputs), rng)
    _, expected = outputs_and_gradients(row, layer, inputs, weights)
    with two_replicas.scope():
        mirrored, _ = built(row, rng_of(row))

    def half(array):
        def value(context):
            here = context.replica_id_in_sync_group
            return tf.constant(np.split(array, 2)[here])

        return two_replicas.experimental_distribute_values_from_function(value)

    @tf.function(autograph=False)
    def step(inputs, weights):
        return two_replicas.run(
            lambda i, w: outputs_and_gradients(row, mirrored, i, w)[1], (inputs, weights)
        )

    replicas = step({k: half(v) for k, v in inputs.items()}, [half(w) for w in weights])
    summed = [two_replicas.reduce("SUM", g, axis=None) for g in replicas]
    parts = two_replicas.experimental_local_results(replicas[0])
    assert len(parts) == 2 and not np.allclose(*parts)  # each replica saw its own half
    assert_close(summed, expected, 2e-5)


@table()
def test_static_shapes_stay_static(row):
    layer, inputs = built(row, rng_of(row))
    expected = row.call(layer, inputs)
    symbolic = row.call(
        layer, {n: keras.Input(batch_shape=s.shape, dtype=s.dtype) for n, s in row.inputs.items()}
    )
    traced = tf.function(lambda x: row.call(layer, x), autograph=False).get_concrete_function(
        {n: tf.TensorSpec(s.shape, s.dtype) for n, s in row.inputs.items()}
    )
    shapes = [tuple(y.shape) for y in expected]
    assert [tuple(y.shape) for y in symbolic] == shapes
    assert [tuple(y.shape) for y in traced.structured_outputs] == shapes

    any_batch = tf.function(lambda x: row.call(layer, x), autograph=False).get_concrete_function(
        {n: tf.TensorSpec([None, *s.shape[1:]], s.dtype) for n, s in row.inputs.items()}
    )
    for y, shape in zip(any_batch.structured_outputs, shapes, strict=True):
        assert tuple(y.shape) == (None if shape[0] == B else shape[0], *shape[1:])


@table([row for row in ROWS if row.time])
def test_unknown_length(row):
    layer, inputs = built(row, rng_of(row))
    expected = row.call(layer, inputs)
    model = functional(row, layer, unknown_time=True)
    assert_close(model(inputs), expected)
    specs = {n: list(s.shape) for n, s in row.inputs.items()}
    for name in specs:
        specs[name][0] = None
        if name in row.time:
            specs[name][row.time[name]] = None
    traced = tf.function(lambda x: row.call(layer, x), autograph=False).get_concrete_function(
        {n: tf.TensorSpec(shape, row.inputs[n].dtype) for n, shape in specs.items()}
    )
    got = traced({n: tf.constant(v) for n, v in inputs.items()})
    assert_close(got, expected)
    for symbolic, graph, value in zip(
        model.outputs, traced.structured_outputs, expected, strict=True
    ):
        # Whatever is said about the shape is true, and sizes that are known are not forgotten.
        assert value.shape.is_compatible_with(tf.TensorShape(symbolic.shape))
        unknown = [size is None for size in symbolic.shape]
        assert [size is None for size in graph.shape] == unknown
        assert unknown[-1:] == [False] or row.keep in (
            numbers, numbers_at_real, scores_at_real, weights_at_real
        )  # fmt: skip

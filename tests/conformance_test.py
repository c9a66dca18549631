"""One table of tiny layer instances, and what the house promises of every layer.

A new layer needs one `Row` in `ROWS`; `test_every_layer_has_a_row` says so if it has none.
"""

import ast
import dataclasses
import inspect
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.layers.reference import randomize
from tfnlp import layers

B, T, H, V, N, F, M, C, P = 4, 5, 8, 11, 2, 12, 6, 6, 3  # all different where they could mix up


@dataclasses.dataclass(frozen=True)
class Array:
    """What one tensor argument of a call looks like; integers are drawn below `limit`."""

    shape: tuple
    dtype: str = "float32"
    limit: int = 0

    def draw(self, rng):
        if self.dtype == "bool":  # holes at other places in each row, never a row of holes
            rows, columns = np.indices(self.shape)
            return (rows + columns) % 3 != 0
        if self.limit:
            return rng.integers(0, self.limit, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


def at_real(outputs, real):
    """The default `Row.keep`: outputs `[B, T, ...]` at real positions."""
    return [y[real] for y in outputs]


def everything(outputs, real):
    """For outputs without a time axis: all of them."""
    return outputs


def scores_at_real(outputs, real):
    """For `[B, T, H]` and `[B, N, T, S]`: real queries, and their scores of real keys."""
    return [outputs[0][real]] + [
        scores[:, r][:, :, r] for scores, r in zip(outputs[1], real, strict=True)
    ]


def cache_at_real(outputs, real):
    """For `[B, T, H]` and a cache `[B, 2, N, M, D]`: all queries, the real slots."""
    return [outputs[0], np.moveaxis(outputs[1], 3, 1)[real]]


def first_positions(outputs, real):
    """For `[1, T, H]`, the same for all examples: the T positions that were there before."""
    return [outputs[0][:, :T]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer class, its arguments, and a call.

    `inputs` are the tensor arguments by name, `options` the other arguments of the call, `time`
    the axis that may have any length, by input name, `padded` the inputs that can be lengthened
    by padding (`mask` is lengthened with them), `keep(outputs, real)` what padding must not
    change, `bf16` the dtypes of the outputs under a bf16 policy. `gradient` is False for decoding
    with a cache: TensorFlow has no gradient for the op that writes into one.
    """

    name: str
    layer: type
    args: dict
    inputs: dict
    options: dict = dataclasses.field(default_factory=dict)
    time: dict = dataclasses.field(default_factory=dict)
    padded: tuple = ("inputs",)
    keep: Callable = at_real
    bf16: tuple = ("bfloat16",)
    gradient: bool = True

    def make(self, **kwargs):
        return self.layer(**self.args, **kwargs)

    def draw(self, rng):
        return {name: spec.draw(rng) for name, spec in self.inputs.items()}

    def call(self, layer, inputs, **kwargs):
        """Calls the layer; always a list of outputs."""
        first, *others = inputs
        named = {name: inputs[name] for name in others}
        return keras.tree.flatten(layer(inputs[first], **named, **self.options, **kwargs))


tokens = {"inputs": Array((B, T, H))}
masked_tokens = {**tokens, "mask": Array((B, T), "bool")}
token_time = {"inputs": 1}
masked_time = {"inputs": 1, "mask": 1}
decoding = {"inputs": Array((B, 2, H)), "cache": Array((B, 2, N, M, H // N))}
masked_decoding = {**decoding, "mask": Array((B, M), "bool")}
decoding_time = {"inputs": 1, "cache": 3}
attention_args = {"num_heads": N, "kernel_initializer": "he_normal"}


def attention_row(name, args, inputs, **kwargs):
    return Row(
        f"MultiHeadAttention {name}",
        layers.MultiHeadAttention,
        {**attention_args, **args},
        inputs,
        **kwargs,
    )


def block_row(name, args, inputs, **kwargs):
    shape = dict(num_heads=N, intermediate_size=F, dropout=0.0, attention_dropout=0.0)
    args = {**shape, "norm_epsilon": 1e-5, "kernel_initializer": "he_normal", **args}
    return Row(f"TransformerBlock {name}", layers.TransformerBlock, args, inputs, **kwargs)


ROWS = [
    Row("LayerNorm", layers.LayerNorm, {"epsilon": 1e-5}, tokens, time=token_time),
    Row(
        "TokenEmbedding",
        layers.TokenEmbedding,
        {"vocab_size": V, "hidden_size": H, "initializer": "he_normal"},
        {"inputs": Array((B, T), "int32", V)},
        time=token_time,
    ),
    Row(
        "TokenEmbedding reverse",
        layers.TokenEmbedding,
        {"vocab_size": V, "hidden_size": H},
        tokens,
        options={"reverse": True},
        time=token_time,
        bf16=("float32",),
    ),
    Row(
        "PositionEmbedding",
        layers.PositionEmbedding,
        {"max_positions": T + 2, "initializer": "he_normal"},
        tokens,
        time=token_time,
        keep=first_positions,
    ),
    Row(
        "PositionEmbedding start",
        layers.PositionEmbedding,
        {"max_positions": T + 4},
        tokens,
        options={"start": 2},
        time=token_time,
        keep=first_positions,
    ),
    Row(
        "SegmentEmbedding",
        layers.SegmentEmbedding,
        {"num_segments": 3, "hidden_size": H, "initializer": "he_normal"},
        {"inputs": Array((B, T), "int32", 3)},
        time=token_time,
    ),
    attention_row("self", {}, masked_tokens, time=masked_time),
    attention_row("unmasked", {}, tokens, time=token_time, padded=()),
    attention_row("causal", {"causal": True}, masked_tokens, time=masked_time),
    attention_row("causal unmasked", {"causal": True}, tokens, time=token_time),
    attention_row(
        "cross",
        {},
        {**tokens, "context": Array((B, M, C)), "mask": Array((B, M), "bool")},
        time={"inputs": 1, "context": 1, "mask": 1},
        padded=("context",),
        keep=everything,
    ),
    attention_row(
        "scores",
        {},
        masked_tokens,
        options={"return_scores": True},
        time=masked_time,
        keep=scores_at_real,
        bf16=("bfloat16", "float32"),
    ),
    attention_row(
        "cache",
        {"causal": True},
        decoding,
        options={"cache_index": 3},
        time=decoding_time,
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    attention_row(
        "cache masked",
        {"causal": True},
        masked_decoding,
        options={"cache_index": 3},
        time={**decoding_time, "mask": 1},
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    *[
        block_row(
            f"{'pre' if norm_first else 'post'}-norm {activation}{' causal' if causal else ''}",
            {"norm_first": norm_first, "activation": activation, "causal": causal},
            masked_tokens,
            time=masked_time,
        )
        for norm_first in (False, True)
        for activation in ("gelu", "gelu_tanh")
        for causal in (False, True)
    ],
    block_row(
        "cache",
        {"causal": True, "norm_first": True},
        masked_decoding,
        options={"cache_index": 3},
        time={**decoding_time, "mask": 1},
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    block_row(
        "scores",
        {},
        masked_tokens,
        options={"return_scores": True},
        time=masked_time,
        keep=scores_at_real,
        bf16=("bfloat16", "float32"),
    ),
    Row(
        "Pooler",
        layers.Pooler,
        {"kernel_initializer": "he_normal"},
        tokens,
        time=token_time,
        keep=everything,
    ),
    Row(
        "MaskedLMHead",
        layers.MaskedLMHead,
        {"activation": "gelu_tanh", "norm_epsilon": 1e-5, "kernel_initializer": "he_normal"},
        {**tokens, "positions": Array((B, P), "int32", T)},
        time={"inputs": 1, "positions": 1},
        keep=everything,
    ),
    Row("LogitBias", layers.LogitBias, {}, tokens, time=token_time, bf16=("float32",)),
    Row(
        "NextSentenceHead",
        layers.NextSentenceHead,
        {"kernel_initializer": "he_normal"},
        {"inputs": Array((B, H))},
        padded=(),
        bf16=("float32",),
    ),
]


LEARNING = [row for row in ROWS if row.gradient]


def table(rows=ROWS):
    return pytest.mark.parametrize("row", rows, ids=[row.name.replace(" ", "-") for row in rows])


@pytest.fixture(scope="module")
def two_replicas():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def built(row, rng, **kwargs):
    """A layer with random weights, and inputs for it; the weights depend on `rng` alone."""
    layer, inputs = row.make(**kwargs), row.draw(rng)
    build(row, layer)
    randomize(layer, rng)
    return layer, inputs


def build(row, layer):
    """`layer.build` with the shapes of the inputs that it asks for by name."""
    wanted = inspect.signature(layer.build).parameters
    first, *others = row.inputs
    named = {f"{n}_shape": row.inputs[n].shape for n in others if f"{n}_shape" in wanted}
    layer.build(row.inputs[first].shape, **named)


def functional(row, layer, unknown_time):
    """A functional model around the layer: any batch size and, if asked, any length."""
    shapes = {name: list(spec.shape) for name, spec in row.inputs.items()}
    if unknown_time:
        for name, axis in row.time.items():
            shapes[name][axis] = None
    inputs = {
        name: keras.Input(shapes[name][1:], dtype=spec.dtype, name=name)
        for name, spec in row.inputs.items()
    }
    return keras.Model(inputs, row.call(layer, inputs))


def arrays(outputs):
    return [np.asarray(y).astype("float32") for y in outputs]


def assert_close(got, expected, tolerance=1e-5):
    got, expected = arrays(keras.tree.flatten(got)), arrays(keras.tree.flatten(expected))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance)


def cotangents(row, outputs, rng):
    """Random numbers to weigh outputs with, one set for each example (`[1, ...]` is shared)."""
    return [rng.standard_normal((B, *y.shape[1:])).astype("float32") for y in outputs]


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
    # Without weights and without an effect at inference most of the table says nothing:
    # tests/layers/dropout_test.py has its own checks.
    assert public - {layers.Dropout} == {row.layer for row in ROWS}


@table()
def test_build_makes_all_weights(row, rng_of):
    layer = row.make()
    assert layer.weights == []
    build(row, layer)
    assert layer.built
    made = [(w.path, tuple(w.shape)) for w in layer.weights]
    assert made and len({path for path, _ in made}) == len(made)
    row.call(layer, row.draw(rng_of(row)))
    assert [(w.path, tuple(w.shape)) for w in layer.weights] == made


@table()
def test_config_round_trip(row, rng_of):
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
def test_keras_file_round_trip(row, rng_of, tmp_path):
    layer, inputs = built(row, rng_of(row))
    model = functional(row, layer, unknown_time=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(inputs), row.call(layer, inputs), 1e-6)


@table()
def test_saved_model_gives_the_same(row, rng_of, tmp_path):
    layer, inputs = built(row, rng_of(row))
    functional(row, layer, unknown_time=True).export(tmp_path / "module", verbose=False)
    module = tf.saved_model.load(str(tmp_path / "module"))
    served = module.serve({name: tf.constant(value) for name, value in inputs.items()})
    assert_close(served, row.call(layer, inputs), 1e-5)


@table()
def test_xla_equals_eager(row, rng_of):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row, row.call(layer, inputs), rng)

    @tf.function(jit_compile=True)
    def compiled(inputs):
        return outputs_and_gradients(row, layer, inputs, weights)

    expected = outputs_and_gradients(row, layer, inputs, weights)
    assert_close(compiled(inputs), expected, 2e-5)


@table()
def test_bf16_policy(row, rng_of):
    layer, inputs = built(row, rng_of(row))
    half, _ = built(row, rng_of(row), dtype="mixed_bfloat16")
    assert {w.dtype for w in half.weights} == {"float32"}
    expected, got = row.call(layer, inputs), row.call(half, inputs)
    assert tuple(keras.backend.standardize_dtype(y.dtype) for y in expected) == (
        ("float32",) * len(row.bf16)
    )
    assert tuple(keras.backend.standardize_dtype(y.dtype) for y in got) == row.bf16
    model = functional(row, half, unknown_time=False)  # what is promised before any number flows
    assert tuple(y.dtype for y in model.outputs) == row.bf16
    for g, e in zip(arrays(got), arrays(expected), strict=True):
        assert np.abs(g - e).max() < 0.03 * max(1, np.abs(e).max())  # bf16 has 8 bits: 0.004

    weights = cotangents(row, expected, rng_of(row))
    for gradient in outputs_and_gradients(row, half, inputs, weights)[1]:
        assert gradient is not None
        assert gradient.dtype == tf.float32 and np.isfinite(gradient).all()


@table([row for row in ROWS if row.padded])
def test_padding_changes_nothing(row, rng_of):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    axes = {name: row.time[name] for name in row.padded}
    some, axis = next(iter(axes.items()))
    real = inputs.get("mask", np.ones((B, inputs[some].shape[axis]), bool))
    expected = row.keep(arrays(row.call(layer, inputs)), real)

    def along(array, flags, axis):  # [B, T] flags beside `[B, ..., T, ...]`
        shape = [1] * array.ndim
        shape[0], shape[axis] = flags.shape
        return flags.reshape(shape)

    noise = row.draw(rng)
    other = dict(inputs)
    for name, axis in axes.items():
        other[name] = np.where(along(inputs[name], real, axis), inputs[name], noise[name])
    assert_close(row.keep(arrays(row.call(layer, other)), real), expected)

    longer = dict(other)
    for name, axis in axes.items():
        tail = np.take(noise[name], [0, 1], axis=axis)
        longer[name] = np.concatenate([other[name], tail], axis=axis)
    more = np.pad(real, [(0, 0), (0, 2)])
    if "mask" in inputs:
        longer["mask"] = more
    assert_close(row.keep(arrays(row.call(layer, longer)), more), expected)


@table(LEARNING)
def test_gradients_reach_every_weight(row, rng_of):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row, row.call(layer, inputs), rng)
    _, gradients = outputs_and_gradients(row, layer, inputs, weights)
    assert len(gradients) == len(layer.trainable_variables) > 0
    for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
        assert gradient is not None, f"no gradient for {variable.path}"
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 1e-4, f"zero gradient for {variable.path}"


@table(LEARNING)
def test_two_replicas_equal_one(row, rng_of, two_replicas):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    weights = cotangents(row, row.call(layer, inputs), rng)
    _, expected = outputs_and_gradients(row, layer, inputs, weights)
    with two_replicas.scope():
        mirrored, _ = built(row, rng_of(row))

    def half(array):
        def value(context):
            here = context.replica_id_in_sync_group
            return tf.constant(np.split(array, 2)[here])

        return two_replicas.experimental_distribute_values_from_function(value)

    @tf.function
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
def test_static_shapes_stay_static(row, rng_of):
    layer, inputs = built(row, rng_of(row))
    expected = row.call(layer, inputs)
    symbolic = row.call(
        layer, {n: keras.Input(batch_shape=s.shape, dtype=s.dtype) for n, s in row.inputs.items()}
    )
    traced = tf.function(lambda x: row.call(layer, x)).get_concrete_function(
        {n: tf.TensorSpec(s.shape, s.dtype) for n, s in row.inputs.items()}
    )
    shapes = [tuple(y.shape) for y in expected]
    assert [tuple(y.shape) for y in symbolic] == shapes
    assert [tuple(y.shape) for y in traced.structured_outputs] == shapes

    any_batch = tf.function(lambda x: row.call(layer, x)).get_concrete_function(
        {n: tf.TensorSpec([None, *s.shape[1:]], s.dtype) for n, s in row.inputs.items()}
    )
    for y, shape in zip(any_batch.structured_outputs, shapes, strict=True):
        assert tuple(y.shape) == (None if shape[0] == B else shape[0], *shape[1:])


@table([row for row in ROWS if row.time])
def test_unknown_length(row, rng_of):
    layer, inputs = built(row, rng_of(row))
    expected = row.call(layer, inputs)
    model = functional(row, layer, unknown_time=True)
    assert_close(model(inputs), expected)
    specs = {n: list(s.shape) for n, s in row.inputs.items()}
    for name in specs:
        specs[name][0] = None
        if name in row.time:
            specs[name][row.time[name]] = None
    traced = tf.function(lambda x: row.call(layer, x)).get_concrete_function(
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
        assert unknown[-1:] == [False] or row.keep is scores_at_real


@pytest.fixture
def rng_of():
    """A generator for a row, the same each time it is asked for."""
    return lambda row: np.random.default_rng(sum(row.name.encode()))


ROOMS = ["layers", "models", "text", "data", "tasks", "training", "hub", "convert"]
SOURCE = pathlib.Path(tfnlp.__file__).parent


def imported(path):
    """Names of all modules that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ["layers", "models"])
def test_layers_and_models_import_keras_only(room):
    files = sorted((SOURCE / room).glob("**/*.py"))
    assert files
    roots = {name.split(".")[0] for file in files for name in imported(file)}
    foreign = {"tensorflow", "tensorflow_text", "tensorflow_hub", "jax", "torch", "tf_keras"}
    assert "keras" in roots and not roots & foreign


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_from_rooms_above(room):
    below = ROOMS[ROOMS.index(room) + 1 :] + ["cli"]
    for file in sorted((SOURCE / room).glob("**/*.py")):
        for name in imported(file):
            wrong = [r for r in below if f"{name}.".startswith(f"tfnlp.{r}.")]
            assert not wrong, f"{file.name} imports {name}"


@pytest.mark.parametrize(
    "module, unwanted",
    [
        ("tfnlp", ["keras", "tensorflow"]),
        ("tfnlp.layers", ["tensorflow_text", "tensorflow_hub", "tensorflow_datasets"]),
        ("tfnlp.models", ["tensorflow_text", "tensorflow_hub", "tensorflow_datasets"]),
    ],
)
def test_import_stays_light(module, unwanted):
    program = (
        f"import sys, {module}\n"
        f"print([name for name in {unwanted} if name in sys.modules], {module}.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=SOURCE.parent,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"[] {module}"

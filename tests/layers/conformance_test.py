"""Every layer in every place where one can stand; the layers are those of `rows.py`."""

import dataclasses
import functools
import importlib.util
import inspect
import itertools
import pathlib
import tempfile
from unittest import mock

import keras
import numpy as np
import pytest
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.testing import TestCase

from tests import backends
from tests.layers.gradients import arrays, differentiated, same_draws, tensors
from tests.layers.rows import BY_NAME, CALM, ROWS, SAMPLE, B, build, map_specs
from tfnlp import layers
from tfnlp.layers.kernels import backend as backend_of_kernels


def each(rows, sample=(), others=()):
    """A test of each row, with marks for those of the sample and for the others."""
    marks = [sample if row.name in SAMPLE else others for row in rows]
    cases = [pytest.param(r, marks=m, id=r.name) for r, m in zip(rows, marks, strict=True)]
    return pytest.mark.parametrize("row", cases)


def assert_close(got, expected, tolerance=2e-5):
    got, expected = arrays(got), arrays(expected)
    assert [g.shape for g in got] == [e.shape for e in expected] != []
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance)


# What every backend checks of a row.


@keras.saving.register_keras_serializable(package="tfnlp-tests")
class Holder(keras.Model):
    """A subclassed model that makes its layer itself: Keras rebuilds it by calling it on floats."""

    def __init__(self, row, **kwargs):
        super().__init__(**kwargs)
        self.row = row
        self.held = BY_NAME[row].layer(**BY_NAME[row].args)

    def call(self, inputs):
        return BY_NAME[self.row].call(self.held, inputs)

    def get_config(self):
        return {"row": self.row}


def check_containers(row):
    """A functional and a Sequential model of any length, and TimeDistributed."""
    layer, inputs = row.made()
    outputs = row.call(layer, inputs)
    symbols = row.symbols()
    assert_close(keras.Model(symbols, row.call(layer, symbols))(tensors(inputs)), outputs)
    if len(row.inputs) > 1 or isinstance(row.inputs["inputs"], list) or row.options:
        return
    assert_close(keras.Sequential([symbols["inputs"], layer])(inputs["inputs"]), outputs)
    if len(outputs) == 1:
        other = row.draw(row.rng())["inputs"]
        both = np.stack([inputs["inputs"], other], axis=1)
        found = keras.layers.TimeDistributed(layer)(keras.ops.convert_to_tensor(both))
        assert_close([found[:, 0], found[:, 1]], [outputs, layer(other)])


def check_saved(row):
    """Files of functional and subclassed models, and clones: outputs, and what is frozen."""
    layer, inputs = row.made()
    outputs = row.call(layer, inputs)
    if layer.trainable_weights:
        layer.trainable_weights[-1].trainable = False
    symbols = row.symbols()
    model = keras.Model(symbols, row.call(layer, symbols))
    holder = Holder(row.name)
    holder(tensors(inputs))
    holder.set_weights(layer.get_weights())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        copies = [keras.models.clone_model(model)]
        copies[0].set_weights(model.get_weights())
        for made in (model, holder):
            made.save(path)
            copies.append(keras.models.load_model(path))
    for copy in copies:
        assert_close(copy(tensors(inputs)), outputs, 1e-6)
    for copy in copies[:2]:
        assert [w.shape for w in copy.trainable_weights] == [
            w.shape for w in model.trainable_weights
        ]


class Marked(keras.layers.Layer):
    """Its input, which carries a mask from then on."""

    supports_masking = True

    def call(self, inputs, marks):
        marked = keras.ops.copy(inputs)
        set_keras_mask(marked, marks)
        return marked

    def compute_output_spec(self, inputs, marks):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def check_masks(row):
    """A mask that a tensor carries counts as one that is given; outputs carry masks that fit."""
    name, owner, _ = row.mask()
    if owner is None:
        return
    layer, inputs = row.made()
    explicit = row.call(layer, tensors(inputs))
    for y in explicit:
        found = get_keras_mask(y)
        assert found is None or tuple(found.shape) == tuple(y.shape[: len(found.shape)])

    def carried(inputs):
        marks, mark = inputs[name], Marked()
        marked = keras.tree.map_structure(lambda x: mark(x, marks), inputs[owner])
        return {**{k: v for k, v in inputs.items() if k != name}, owner: marked}

    assert_close(row.call(layer, carried(tensors(inputs))), explicit)
    symbols = row.symbols()
    assert_close(keras.Model(symbols, row.call(layer, carried(symbols)))(tensors(inputs)), explicit)


def values(name, _):
    """What a row computes, `name/index` or `name/PATH` to array, after all that it checks."""
    row = BY_NAME[name]
    layer, inputs = row.made()
    outputs, gradients = differentiated(row, layer, inputs)
    with same_draws(row):
        assert_close(row.call(layer, inputs), outputs)
    if not row.random:
        check_containers(row)
        check_saved(row)
        if keras.backend.backend() != "numpy":  # which has no masks
            check_masks(row)
    half, _ = row.made(dtype="mixed_bfloat16")
    with same_draws(row):
        narrow = row.call(half, inputs)
    return {
        **{f"output/{i}": y for i, y in enumerate(outputs)},
        **{f"gradient/{name}": g for name, g in gradients.items()},
        **{f"bf16/{i}": y for i, y in enumerate(arrays(narrow))},
    }


@pytest.fixture(scope="module")
def computed(request, tmp_path_factory):
    """A function of a backend: all that a process with it computed of the rows under test."""

    @functools.cache
    def of_backend(backend):
        params = backends.tested(request)
        names = {p["row"].name for p in params if p.get("backend") == backend}
        return backends.computed(__name__, backend, names, tmp_path_factory.mktemp(backend))

    return of_backend


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["jax", "numpy", "torch"])
@each(ROWS, pytest.mark.slow, pytest.mark.long)
def test_other_backends(row, backend, computed):
    """Values, gradients and bfloat16; and each checks containers, files and masks itself."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"needs {backend}")
    found = backends.of_row(computed(backend), row.name)
    layer, inputs = row.made()
    outputs, gradients = differentiated(row, layer, inputs)
    for i, y in enumerate(outputs):
        np.testing.assert_allclose(found.pop(f"output/{i}"), y, rtol=2e-5, atol=2e-5)
        # Processors differ in where they round bfloat16, which has 8 bits: 0.004.
        assert np.abs(found.pop(f"bf16/{i}") - y).max() < 0.03 * max(1, np.abs(y).max())
    assert found.keys() == (set() if backend == "numpy" else {f"gradient/{n}" for n in gradients})
    for name, gradient in found.items():
        wanted = gradients[name.removeprefix("gradient/")]
        size = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(gradient / size, wanted / size, atol=2e-5, err_msg=name)


# What TensorFlow checks.


class Instance:
    """A layer with random weights that no test changes, and what it makes of random inputs."""

    def __init__(self, row):
        self.layer, self.inputs = row.made()
        self.outputs = row.call(self.layer, self.inputs)


@pytest.fixture(scope="module")
def instances():
    return {}


@pytest.fixture
def made(row, instances):
    if row.name not in instances:
        instances[row.name] = Instance(row)
    return instances[row.name]


def test_every_layer_has_a_row():
    public = [getattr(layers, name) for name in layers.__all__]
    kinds = {x for x in public if inspect.isclass(x) and issubclass(x, keras.layers.Layer)}
    assert kinds == {row.layer for row in ROWS}


@each(CALM)
def test_what_keras_checks_of_its_own_layers(row, request):
    """Config, weights of `build` and of a call, symbols, and dtypes under a 16-bit policy."""
    config = row.layer(**row.args).get_config()
    named = inspect.signature(row.layer.__init__).parameters
    of_keras = inspect.signature(keras.layers.Layer.__init__).parameters
    assert set(named) - set(of_keras) <= set(config), "an argument is missing from get_config"

    def made(**arguments):
        layer = row.layer(**arguments)
        keras_builds = layer.build

        @functools.wraps(keras_builds)
        def by_name(*shapes, **named):
            names = list(inspect.signature(keras_builds).parameters)[: len(shapes)]
            shapes = dict(zip(names, shapes, strict=True)) | named
            with mock.patch.object(layer, "build", keras_builds):
                build(layer, **shapes)

        layer.build = by_name
        return layer

    TestCase().run_layer_test(
        made,
        row.args,
        input_data=tensors(row.draw(row.rng())),
        call_kwargs=row.options,
        run_training_check=False,
        run_mixed_precision_check=not row.options,  # without which Keras asks for dtypes
    )


@each(CALM)
def test_containers(row):
    check_containers(row)


@each(CALM, others=pytest.mark.slow)
def test_files_and_clones(row):
    check_saved(row)


@each([row for row in CALM if row.mask()[1]])
def test_masks_that_tensors_carry(row):
    check_masks(row)


@each(CALM)
@pytest.mark.parametrize(
    "kind, error", [("bfloat16", 0.03), pytest.param("float16", 0.004, marks=pytest.mark.long)]
)
def test_16_bit_policies(row, made, kind, error):
    half, _ = row.made(dtype=f"mixed_{kind}")
    assert {w.dtype for w in half.weights if w.trainable} <= {"float32"}
    got = row.call(half, made.inputs)
    for i, (g, e) in enumerate(zip(got, made.outputs, strict=True)):
        if keras.backend.is_float_dtype(e.dtype):
            assert keras.backend.standardize_dtype(e.dtype) == "float32"
            assert keras.backend.standardize_dtype(g.dtype) == (
                "float32" if i in row.wide else kind
            )
        (g,), (e,) = arrays(g), arrays(e)
        # bfloat16 has 8 bits, 0.004; float16 11, 0.0005.
        assert np.abs(g - e).max() < error * max(1, np.abs(e).max())


def part(outputs, real):
    """What padding must not change: of each axis of the length of a mask the real places."""
    found = []
    for y, row in itertools.product(arrays(outputs), range(B)):
        y = y[row]
        for axis, size in enumerate(y.shape):
            if size == real.shape[1]:
                y = np.compress(real[row], y, axis)
        found.append(y)
    return found


@each([row for row in CALM if row.mask()[0] and not row.fixed])
def test_padding_changes_nothing(row, made):
    """Neither other numbers in the padding nor two more steps of it."""
    mask, _, length = row.mask()
    real, noise = made.inputs[mask], row.draw(np.random.default_rng(0))

    def changed(x, other):
        axis = next((i for i, size in enumerate(x.shape) if i and size == length), None)
        if axis is None:
            return x, x
        at = real.reshape([B, *(length if i == axis else 1 for i in range(1, x.ndim))])
        y = x if x.dtype == bool else np.where(at, x, other)
        end = np.take(y, [0, 1], axis) * (x.dtype != bool)
        return y, np.concatenate([y, end.astype(x.dtype)], axis)

    pairs = {n: keras.tree.map_structure(changed, x, noise[n]) for n, x in made.inputs.items()}
    expected = part(made.outputs, real)
    for turn, flags in enumerate((real, np.pad(real, [(0, 0), (0, 2)]))):
        other = {
            n: [p[turn] for p in pair] if isinstance(pair, list) else pair[turn]
            for n, pair in pairs.items()
        }
        assert_close(part(row.call(made.layer, other), flags), expected)


@each([row for row in ROWS if row.gradient])
def test_gradients_reach_every_weight_and_all_forms_have_the_same(row, made):
    """On a backend that has no kernels the formulas beside them run; a TPU has other forms."""
    outputs, gradients = differentiated(row, made.layer, made.inputs)
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all()
        assert name.startswith("of ") or np.abs(gradient).max() > 1e-4, f"no gradient for {name}"
    formulas = mock.patch.object(backend_of_kernels, "forms", None)
    for form in (formulas, backend_of_kernels.traced_for_tpu()):
        with form:
            others, found = differentiated(row, made.layer, made.inputs)
        assert_close(others, outputs)
        for name, gradient in gradients.items():
            size = max(1.0, np.abs(gradient).max())
            np.testing.assert_allclose(found[name] / size, gradient / size, atol=2e-5, err_msg=name)


@each(CALM, pytest.mark.slow, pytest.mark.long)
def test_xla_equals_eager(row, made):
    import tensorflow as tf

    compiled = functools.partial(tf.function, jit_compile=True, autograph=False)
    row = row if row.xla else dataclasses.replace(row, gradient=False)
    outputs, gradients = differentiated(row, made.layer, made.inputs)
    got, others = differentiated(row, made.layer, made.inputs, compiled)
    assert_close([got, list(others.values())], [outputs, list(gradients.values())])


@each(CALM, pytest.mark.slow, pytest.mark.long)
def test_shapes_of_graphs(row, made):
    """What is known stays known, what is said is true, and unknown lengths give the same."""
    import tensorflow as tf

    known = map_specs(lambda s: keras.Input(s.shape[1:], dtype=s.dtype), row.inputs)
    for symbols in (known, row.symbols()):
        specs = keras.tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), symbols)
        function = tf.function(lambda x: row.call(made.layer, x), autograph=False)
        graph = function.get_concrete_function(specs)
        promised = row.call(made.layer, symbols)
        for y, symbol, inside in zip(made.outputs, promised, graph.structured_outputs, strict=True):
            assert tuple(symbol.shape) == tuple(inside.shape)
            assert y.shape.is_compatible_with(symbol.shape)
            assert symbols is not known or None not in symbol.shape[1:]
        assert_close(graph(keras.tree.map_structure(tf.constant, made.inputs)), made.outputs)


MODULE = {
    "apply", "buffers", "bfloat16", "children", "compile", "cpu", "cuda", "double", "eval", "float",
    "forward", "half", "modules", "parameters", "requires_grad_", "state_dict", "to", "train",
    "training", "type", "xpu", "zero_grad",
}  # fmt: skip


@each(ROWS)
def test_no_attribute_hides_a_layer_or_what_torch_calls(row, made):
    """torch finds layers in an attribute's name only if the class has none of that name."""
    for layer in made.layer._flatten_layers():
        assert not MODULE & set(vars(layer)), row.name
        hidden = [
            name
            for name, value in vars(layer).items()
            if isinstance(value, keras.layers.Layer) and hasattr(type(layer), name)
        ]
        assert not hidden

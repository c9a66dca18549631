"""Every layer in every place where one can stand, one table for all.

A layer is one or more rows of `ROWS`.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import itertools
import pathlib
import tempfile
from typing import NamedTuple
from unittest import mock

import keras
import numpy as np
import pytest
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.testing import TestCase

from tests import backends
from tests.layers.reference import randomize
from tfnlp import layers
from tfnlp.layers.kernels import backend as backend_of_kernels

# All different where they could mix up.
B, T, H, V, N, F, M, C, P = 4, 5, 8, 11, 2, 12, 7, 6, 3
LENGTHS = T, M, P  # of axes that may have any length


class Spec(NamedTuple):
    """What one tensor argument of a call looks like, see `real`, `ids` and `flags`."""

    shape: tuple
    dtype: str
    limit: int

    def draw(self, rng):
        if self.dtype == "bool":  # other places in each row, never a whole row of one kind
            rows, columns = np.indices(self.shape)
            return (rows + columns) % self.limit == 1 if self.limit else (rows + columns) % 3 != 0
        if self.limit:
            return rng.integers(0, self.limit, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


def real(*shape):
    """Random numbers `[B, *shape]`."""
    return Spec((B, *shape), "float32", 0)


def ids(limit, *shape):
    """Whole numbers `[B, *shape]` below a limit."""
    return Spec((B, *shape), "int32", limit)


def flags(*shape, one_in=0):
    """Booleans `[B, *shape]`: one in so many is True, or two in three."""
    return Spec((B, *shape), "bool", one_in)


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer class, its arguments, and a call of it.

    `inputs` are the tensor arguments by name (a list is one argument), `options` the others of the
    call. `wide` are the outputs that are float32 under a 16-bit policy. With `fixed` all lengths
    are. `gradient` is False where there is none to compare: of draws, whole numbers, and of
    TensorFlow's op that writes into a cache. `xla` is False where the gradient is TensorFlow's own
    of a loop, which XLA does not compile. `random` layers compute something else in each call.
    """

    layer: type
    args: dict
    inputs: dict
    note: str = ""
    options: dict = dataclasses.field(default_factory=dict)
    wide: tuple = ()
    fixed: bool = False
    gradient: bool = True
    xla: bool = True
    random: bool = False

    @property
    def name(self):
        return f"{self.layer.__name__} {self.note}".strip().replace(" ", "-")

    def rng(self):
        """A generator, the same each time it is asked for."""
        return np.random.default_rng(sum(self.name.encode()))

    def draw(self, rng):
        return map_specs(lambda spec: spec.draw(rng), self.inputs)

    def made(self, **kwargs):
        """A built layer with random weights, and inputs for it."""
        rng = self.rng()
        layer, inputs = self.layer(**self.args, **kwargs), self.draw(rng)
        build(layer, **map_specs(lambda spec: spec.shape, self.inputs))
        randomize(layer, rng)
        return layer, inputs

    def call(self, layer, inputs):
        """Call the layer; always a list of outputs."""
        given = {name: inputs[name] for name in self.inputs if name in inputs}
        first = given.pop(next(iter(given)))
        return keras.tree.flatten(layer(first, **given, **self.options))

    def symbols(self):
        """`keras.Input`s of any batch size and, if it is not fixed, any length."""
        free = () if self.fixed else LENGTHS

        def symbol(spec):
            shape = [None if size in free else size for size in spec.shape[1:]]
            return keras.Input(shape, dtype=spec.dtype)

        return map_specs(symbol, self.inputs)

    def mask(self):
        """The name of the mask among the inputs, that of what it is the mask of, and its length."""
        for name in self.inputs:
            if name.endswith("mask"):
                length, wanted = self.inputs[name].shape[1], name.removesuffix("_mask")
                owners = [n for n in self.inputs if n != name and wanted in (n, "mask")]
                fitting = [n for n in owners if first_spec(self.inputs[n]).shape[1] == length]
                return name, next(iter(fitting), None), length
        return None, None, 0


def map_specs(function, inputs):
    """`function` of each spec, in the structure of the inputs."""
    return {
        name: [function(x) for x in spec] if isinstance(spec, list) else function(spec)
        for name, spec in inputs.items()
    }


def first_spec(spec):
    return spec[0] if isinstance(spec, list) else spec


def build(layer, first=None, **shapes):
    """`layer.build` with the shapes that it takes, which are given by the names of the inputs."""
    wanted = list(inspect.signature(layer.build).parameters)[1:]
    named = {f"{name.removesuffix('_shape')}_shape": shape for name, shape in shapes.items()}
    first = next(iter(named.values())) if first is None else first
    layer.build(first, **{name: named[name] for name in wanted if name in named})


words, tokens = {"inputs": ids(V, T)}, {"inputs": real(T, H)}
masked, training = {**tokens, "mask": flags(T)}, {"training": True}
he, kernel_he = {"initializer": "he_normal"}, {"kernel_initializer": "he_normal"}
table = {"vocab_size": V, "hidden_size": H}
wide = {"wide": (0,)}

block = {**tokens, "word_ids": ids(V, T), "left": ids(2, T - 2), "right": ids(2, T - 2)}
negatives = {**block, "negative_ids": ids(V, M)}
windows, tree = {"vocab_size": V, "window": 1, "negatives": 3}, {"vocab_size": V, "depth": 5}
cells = {"inputs": real(H), "word_ids": ids(V), "context_ids": ids(V), "counts": real()}
targets = {"inputs": real(T, P, H), "targets": ids(V, T, P)}
few, sampled = {"inputs": real(T, H), "targets": ids(V, T)}, {"vocab_size": V, "num_samples": 4}
drawn = {"options": training, "random": True, **wide}
WORD_LOSSES = [
    Row(layers.SkipGramLoss, windows, negatives, fixed=True, **wide),
    Row(layers.CBOWLoss, windows, negatives, fixed=True, **wide),
    Row(layers.NCESkipGramLoss, windows, negatives, fixed=True, **wide),
    Row(layers.NCECBOWLoss, windows, negatives, fixed=True, **wide),
    Row(layers.HierarchicalSkipGramLoss, {**tree, "window": 1}, block, fixed=True, **wide),
    Row(layers.HierarchicalCBOWLoss, {**tree, "window": 1}, block, fixed=True, **wide),
    Row(layers.GloVeLoss, {"vocab_size": V, "x_max": 1.0}, cells, **wide),
    Row(layers.SampledSoftmax, sampled, targets, **wide),
    Row(layers.SampledSoftmax, sampled, few, "training", **drawn),
    Row(layers.NoiseContrastiveSoftmax, sampled, targets, **wide),
    Row(layers.NoiseContrastiveSoftmax, sampled, few, "training", **drawn),
    Row(layers.HierarchicalSoftmax, tree, targets, **wide),
    Row(layers.HierarchicalSoftmax, {"vocab_size": V}, tokens, "of all words", **wide),
]

placed = {**tokens, "positions": ids(M, T)}
characters = {"num_characters": V, "embedding_size": P, "filters": ((1, 4), (3, 5))}
characters.update(num_highway=1, activation="tanh", projection_size=H)
head = {"activation": "gelu_tanh", **kernel_he}
low = {"rank": 2, "units": 3, "count": 3, "parts": [0, 2], "alpha": 4.0}
samples = {**words, "positions": ids(T, P), "targets": ids(V, P), "weights": real(P)}
samples["logits"] = real(P, V)
marks = {"begin": [7, 8, 9, 0], "end": [7, 5, 9, 0]}
EMBEDDINGS_AND_HEADS = [
    Row(layers.TokenEmbedding, {**table, **he}, words),
    Row(layers.TokenEmbedding, table, tokens, "reverse", {"reverse": True}, **wide),
    Row(layers.WordEmbedding, table, words),
    Row(layers.SubwordEmbedding, {**table, "buckets": 7, "most_subwords": 3}, words),
    Row(layers.PositionEmbedding, {"max_positions": 7}, placed),
    Row(layers.PositionEmbedding, {"max_positions": 7, "offset": 2, **he}, tokens, "offset"),
    Row(layers.SinusoidalPositions, {"max_wavelength": 500.0}, tokens),
    Row(layers.SinusoidalPositions, {"max_wavelength": 500.0}, placed, "positions"),
    Row(layers.RelativePositionBias, {"num_heads": N, **he}, tokens, wide=(0,)),
    Row(layers.SegmentEmbedding, {"num_segments": 3, "hidden_size": H}, {"inputs": ids(3, T)}),
    Row(layers.CharCNN, characters, {"inputs": ids(V, T, C)}),
    Row(layers.Highway, {"activation": "tanh"}, tokens),
    Row(layers.SentenceBoundaries, marks, {"inputs": ids(V, T, 4)}),
    Row(layers.LayerNorm, {"epsilon": 1e-5}, tokens),
    Row(layers.Dropout, {"rate": 0.3}, tokens, "training", training, random=True),
    Row(layers.LowRankUpdate, low, tokens),
    Row(layers.Pooler, kernel_he, tokens),
    Row(layers.MaskedLMHead, {**head, "units": V}, {**tokens, "positions": ids(T, P)}),
    Row(layers.DiscriminatorHead, head, tokens, **wide),
    Row(layers.LogitBias, {}, tokens, **wide),
    Row(layers.NextSentenceHead, kernel_he, {"inputs": real(H)}, **wide),
    Row(layers.ReplacedTokens, {}, samples, wide=(1,), gradient=False),
    Row(layers.ReplacedTokens, {}, samples, "training", training, (1,), False, False, random=True),
    Row(layers.CRF, {"num_tags": H, "rate": 3.0}, {**masked, "tags": ids(H, T)}, **wide),
    Row(layers.CRF, {"num_tags": H}, masked, "scores", gradient=False, **wide),
]

# Clips that are reached, by the cell and by the output, but not everywhere.
lstm = {"units": F, "projection_size": H, "cell_clip": 0.7, "projection_clip": 0.5}
residual, free = {**lstm, "residual": True}, {**lstm, "projection_size": None}
bilm = {**lstm, "num_layers": 2, "dropout": 0.0}
resets = {"resets": flags(T, one_in=4)}
states = {**masked, "initial_state": real(F + H), **resets}
streams = {**tokens, "initial_state": real(4, F + H), "backward_inputs": real(T, H), **resets}
stack = {"inputs": [real(T, H)] * 3}
RECURRENT = [
    Row(layers.ProjectedLSTM, {**lstm, "projection_size": P}, tokens, wide=(1,), xla=False),
    Row(layers.ProjectedLSTM, residual, states, "all", wide=(1,), xla=False),
    Row(layers.ProjectedLSTM, residual, states, "all training", training, wide=(1,)),
    Row(layers.ProjectedLSTM, free, masked, "no projection training", training, wide=(1,)),
    Row(layers.BiLM, {**bilm, "num_layers": 1}, masked, wide=(1,), xla=False),
    Row(layers.BiLM, bilm, streams, "windows training", training, wide=(2,)),
    Row(layers.BiLM, {**bilm, "dropout": 0.3}, tokens, "dropout", **{**drawn, "wide": (2,)}),
    Row(layers.ScalarMix, {}, stack),
    Row(layers.ScalarMix, {"layer_norm": True, "l2": 0.1}, {**stack, "mask": flags(T)}, "norm"),
    Row(layers.SentencePooling, {"pooling": "max"}, masked, "max", **wide),
    Row(layers.SentencePooling, {"pooling": "last", "normalize": True}, masked, "last", **wide),
    Row(layers.SentencePooling, {"pooling": ["cls", "max"], "skip": 1}, masked, "two", **wide),
]

keys = {"keys": real(M, C), "mask": flags(M)}
decoder = {**tokens, "memory": real(M, C), "mask": flags(M)}
feeding = {"units": C, "num_layers": 2, "input_feeding": True}
context = {**tokens, "context": real(M, C)}
cached = {"inputs": real(2, H), "cached_keys": real(N, M, 4), "cached_values": real(N, M, 4)}
heads = {"num_heads": N, "output_divisor": 2.0, **kernel_he}
matrices = ["query", "value", "attention_output", "output"]
lora = {"low_rank": {"rank": 2, "matrices": matrices, "alpha": 3.0, "dropout": 0.0}}
causal, scores = {"causal": True}, {"options": {"return_scores": True}, "wide": (1,)}
transformer = {"num_heads": N, "intermediate_size": F, "dropout": 0.0, "attention_dropout": 0.0}
transformer.update(norm_epsilon=1e-5, residual_divisor=2.0, **kernel_he)
crossed = {**context, "context_mask": flags(M)}


def attention(note, args, inputs, **kwargs):
    return Row(layers.MultiHeadAttention, {**heads, **args}, inputs, note, **kwargs)


def block_row(note, args, inputs, **kwargs):
    return Row(layers.TransformerBlock, {**transformer, **args}, inputs, note, **kwargs)


def decoder_row(note, args, **kwargs):
    return Row(layers.AttentionLSTM, {"units": C, **args}, decoder, note, wide=(1, 2), **kwargs)


ATTENTION = [
    Row(layers.AdditiveAttention, {"units": F}, {**tokens, **keys}, wide=(1,)),
    Row(layers.GeneralAttention, {}, {**tokens, **keys}, wide=(1,)),
    Row(layers.CosineAttention, {"scale": 4.0}, {"inputs": real(T, C), **keys}, wide=(1,)),
    Row(layers.DotAttention, {}, {"inputs": real(T, C), **keys}, wide=(1,)),
    decoder_row("additive", {"score": "additive"}, xla=False),
    decoder_row("additive training", {"score": "additive"}, options=training),
    decoder_row("fed training", {**feeding, "score": "general"}, options=training),
    decoder_row("cosine training", {"score": "cosine"}, options=training),
    decoder_row("dropout", {**feeding, "dropout": 0.3}, options=training, random=True),
    decoder_row("deep dropout", {"num_layers": 3, "dropout": 0.3}, options=training, random=True),
    attention("self", {}, masked),
    attention("causal", causal, masked),
    attention("causal unmasked", causal, tokens),
    attention("cross", {}, {**context, "mask": flags(M)}),
    attention("packed", {}, {**masked, "sequence_ids": ids(2, T)}),
    attention("biased", {}, {**masked, "position_bias": real(N, T, T)}, fixed=True),
    attention("low rank", lora, masked),
    attention("scores", {}, masked, **scores),
    attention(
        "cache", causal, {**cached, "mask": flags(M)}, options={"cache_index": 3}, gradient=False
    ),
    attention("dropout", {"dropout": 0.3}, masked, options=training, random=True),
    # Each pair of values of these three arguments comes once.
    block_row("post-norm gelu", {"activation": "gelu"}, masked),
    block_row("post-norm gelu_tanh", {"activation": "gelu_tanh", **causal}, masked),
    block_row("pre-norm gelu", {"norm_first": True, "activation": "gelu", **causal}, masked),
    block_row("pre-norm gelu_tanh", {"norm_first": True, "activation": "gelu_tanh"}, masked),
    block_row("low rank", lora, masked),
    block_row("biased", {}, {**masked, "position_bias": real(N, T, T)}, fixed=True),
    block_row("cross scores", {"activation": "relu", **causal}, crossed, **scores),
    block_row("pre-norm cross scores", {"norm_first": True, **causal}, crossed, **scores),
    block_row("dropout", {"dropout": 0.3}, masked, options=training, random=True),
]

ROWS = [*WORD_LOSSES, *EMBEDDINGS_AND_HEADS, *RECURRENT, *ATTENTION]
BY_NAME = {row.name: row for row in ROWS}
CALM = [row for row in ROWS if not row.random]
# A row of each kind of computation, for what takes long.
SAMPLE = {
    "SkipGramLoss", "SampledSoftmax-training", "MultiHeadAttention-cache",
    "TransformerBlock-post-norm-gelu", "AttentionLSTM-fed-training", "CharCNN",
    "ProjectedLSTM-all-training", "CRF", "TokenEmbedding",
}  # fmt: skip


def each(rows, sample=(), others=()):
    """A test of each row, with marks for those of the sample and for the others."""
    marks = [sample if row.name in SAMPLE else others for row in rows]
    cases = [pytest.param(r, marks=m, id=r.name) for r, m in zip(rows, marks, strict=True)]
    return pytest.mark.parametrize("row", cases)


def arrays(outputs):
    """Outputs as float32 arrays."""
    flat = keras.tree.flatten(outputs)
    return [keras.ops.convert_to_numpy(keras.ops.cast(y, "float32")) for y in flat]


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


def tensors(inputs):
    return keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)


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


# Values and gradients under any backend.


@contextlib.contextmanager
def same_draws(row):
    """Random layers draw numpy's numbers in this block: each backend has a generator of its own."""
    rng = row.rng()

    def randint(shape, minval, maxval, dtype="int32", seed=None):
        return keras.ops.convert_to_tensor(rng.integers(minval, maxval, shape, dtype), dtype)

    def uniform(shape, minval=0.0, maxval=1.0, dtype="float32", seed=None):
        return keras.ops.convert_to_tensor(rng.uniform(minval, maxval, shape), dtype)

    with mock.patch.multiple(keras.random, randint=randint, uniform=uniform):
        yield


def weighed(outputs, rng):
    """The sum of the outputs that are not whole numbers, times random numbers."""
    total = 0.0
    for y in outputs:
        weights = rng.standard_normal((B, *y.shape[1:])).astype("float32")
        if keras.backend.is_float_dtype(y.dtype):
            total += keras.ops.sum(keras.ops.cast(y, "float32") * weights)
    return total


def differentiated(row, layer, inputs, function=lambda f: f):
    """The outputs, and the gradients of `weighed` by name: of weights and of real inputs."""
    variables = layer.trainable_variables if row.gradient else []
    wanted = [n for n, x in inputs.items() if row.gradient and getattr(x, "dtype", 0) == "float32"]
    backend = {"tensorflow": in_tensorflow, "jax": in_jax, "torch": in_torch}
    with same_draws(row):
        if keras.backend.backend() in backend:
            run = backend[keras.backend.backend()]
            outputs, gradients = run(row, layer, variables, wanted, inputs, function)
        else:
            outputs, gradients, variables, wanted = row.call(layer, inputs), [], [], []
    names = [*(v.path.split("/", 1)[1] for v in variables), *(f"of {name}" for name in wanted)]
    return arrays(outputs), dict(zip(names, map(np.asarray, gradients), strict=True))


def in_tensorflow(row, layer, variables, wanted, inputs, function):
    import tensorflow as tf

    def run(inputs):
        sources = [*(v.value for v in variables), *(inputs[name] for name in wanted)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = row.call(layer, inputs)
            loss = weighed(outputs, row.rng())
        found = tape.gradient(loss, sources, unconnected_gradients="zero") if sources else []
        return outputs, [tf.convert_to_tensor(g) for g in found]

    return function(run)(keras.tree.map_structure(tf.constant, inputs))


def in_jax(row, layer, variables, wanted, inputs, function):
    import jax

    def loss(values, of_inputs, inputs):
        pairs = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            outputs = row.call(layer, {**inputs, **of_inputs})
        return weighed(outputs, row.rng()), outputs

    def run(values, inputs):
        of_inputs = {name: inputs[name] for name in wanted}
        if not row.gradient:
            return loss(values, of_inputs, inputs)[1], []
        gradients, outputs = jax.grad(loss, (0, 1), has_aux=True)(values, of_inputs, inputs)
        return outputs, [*gradients[0], *(gradients[1][name] for name in wanted)]

    return jax.jit(run)([v.value for v in variables], inputs)


def in_torch(row, layer, variables, wanted, inputs, function):
    import torch

    given = tensors(inputs)
    sources = [*(v.value for v in variables), *(given[n].requires_grad_() for n in wanted)]
    outputs = row.call(layer, given)
    found = []
    if sources:
        loss = weighed(outputs, row.rng())
        found = torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)
    return [y.detach() for y in outputs], found


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

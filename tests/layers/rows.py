"""The table of layers that the conformance tests are run on: classes, arguments, inputs."""

import dataclasses
import inspect
from typing import NamedTuple

import keras
import numpy as np

from tests.layers.reference import randomize
from tfnlp import layers

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

"""Calls that break the rules of layers and models, by the clause of `Raises` that forbids them.

A case is the argument that the message must name, and a call. A call that takes `x` is made with
arrays and with symbolic tensors: `x(shape)` and `x(shape, dtype)` make them.
"""

import functools

from tests.promises_word_losses import WORD_LOSSES
from tfnlp.layers import (
    CRF,
    AdditiveAttention,
    AttentionLSTM,
    BiLM,
    CharCNN,
    CosineAttention,
    DiscriminatorHead,
    DotAttention,
    Dropout,
    Highway,
    LowRank,
    LowRankUpdate,
    MaskedLMHead,
    MultiHeadAttention,
    PositionEmbedding,
    ProjectedLSTM,
    ScalarMix,
    SegmentEmbedding,
    SentenceBoundaries,
    SentencePooling,
    SinusoidalPositions,
    SubwordEmbedding,
    TokenEmbedding,
    TransformerBlock,
    WordEmbedding,
    rematerialization,
)

I = "int32"  # noqa: E741
NAN = float("nan")
H = (2, 5, 8)  # shapes of inputs
KEYS = (2, 2, 6, 4)  # of a cache


def after(layer, first, **named):
    """Return the layer after one call."""
    layer(first, **named)
    return layer


def with_context(layer, x):
    return after(layer, x(H), context=x(H))


def cached(x, **changes):
    cache = dict(cached_keys=x(KEYS), cached_values=x(KEYS), cache_index=0)
    return {name: value for name, value in {**cache, **changes}.items() if value is not None}


def attention(x, *shape, **named):
    return MultiHeadAttention(2)(x(shape or H), **named)


def both_positions(layer, x):
    return layer(x((2, 3, 4)), positions=x((2, 3), I), start=1)


def filled(rows, splits):
    layer = SubwordEmbedding(5, 4, 6, 3)
    layer.build()
    layer.set_subwords(rows, splits)


def characters(x, length, layer=None):
    layer = layer or CharCNN(10, 4, ((1, 2), (4, 3)), num_highway=0, projection_size=3)
    return layer(x((2, 3, length), I))


def built_characters(x):
    layer = CharCNN(10, 4, ((1, 2), (4, 3)), num_highway=0, projection_size=3)
    characters(x, 5, layer)
    return layer


ATTENTION = {
    "H that is not a multiple of N": [
        ("num_heads=3", lambda x: MultiHeadAttention(3)(x(H))),
        ("num_heads=0", lambda x: MultiHeadAttention(0)(x(H))),
        ("num_heads=16", lambda x: MultiHeadAttention(16)(x(H))),
    ],
    "a context in some calls but not in all": [
        ("`context`", lambda x: with_context(MultiHeadAttention(2), x)(x(H))),
        ("`context`", lambda x: after(MultiHeadAttention(2), x(H))(x(H), context=x(H))),
    ],
    "a cache that is incomplete": [
        ("`cached_values`", lambda x: attention(x, **cached(x, cached_values=None))),
        ("`cached_keys`", lambda x: attention(x, **cached(x, cached_keys=None))),
        ("`cache_index`", lambda x: attention(x, **cached(x, cache_index=None))),
        ("`cached_keys`", lambda x: attention(x, cache_index=0)),
        (
            "`cached_values`",
            lambda x: with_context(MultiHeadAttention(2), x)(x(H), cached_keys=x(KEYS)),
        ),
    ],
    "one that is too short where that is known (M, T and an int `cache_index`)": [
        ("cache_index=4", lambda x: attention(x, 2, 3, 8, **cached(x, cache_index=4))),
        ("7 new positions", lambda x: attention(x, 2, 7, 8, **cached(x, cache_index=x((), I)))),
    ],
    "`sequence_ids` with a context or a cache": [
        ("`sequence_ids`", lambda x: attention(x, **cached(x), sequence_ids=x((2, 6), I))),
        (
            "`sequence_ids`",
            lambda x: MultiHeadAttention(2)(x(H), context=x(H), sequence_ids=x((2, 6), I)),
        ),
    ],
    "a dropout outside [0, 1)": [("rate=1.0", lambda: MultiHeadAttention(2, dropout=1.0))],
}
LAYERS = {
    **WORD_LOSSES,
    "LowRank": {
        "a rank below 1": [("rank=0", lambda: LowRank(0))],
        "an unknown matrix or none": [
            ("'pooler'", lambda: LowRank(2, ("query", "pooler"))),
            ("matrices=()", lambda: LowRank(2, ())),
        ],
        "alpha not above 0": [
            ("alpha=0", lambda: LowRank(2, alpha=0)),
            ("alpha=nan", lambda: LowRank(2, alpha=NAN)),
        ],
        "a dropout outside [0, 1)": [("dropout=1", lambda: LowRank(2, dropout=1))],
    },
    "LowRankUpdate": {
        "a rank, units or count below 1": [
            ("rank=0", lambda: LowRankUpdate(0, 4)),
            ("units=0", lambda: LowRankUpdate(2, 0)),
            ("count=0", lambda: LowRankUpdate(2, 4, 0)),
        ],
        "parts that are none, not distinct or not below count": [
            ("parts=()", lambda: LowRankUpdate(2, 4, parts=())),
            ("parts=(0, 0)", lambda: LowRankUpdate(2, 4, 2, (0, 0))),
            ("parts=(2,)", lambda: LowRankUpdate(2, 4, 2, (2,))),
        ],
        "a dropout outside [0, 1)": [("rate=1", lambda: LowRankUpdate(2, 4, dropout=1))],
    },
    "MultiHeadAttention": ATTENTION,
    "TransformerBlock": {
        "as `MultiHeadAttention`": [
            ("num_heads=3", lambda x: TransformerBlock(3, 4)(x(H))),
            ("`context`", lambda x: with_context(TransformerBlock(2, 4), x)(x(H))),
            ("`context`", lambda x: after(TransformerBlock(2, 4), x(H))(x(H), context=x(H))),
            ("`cached_values`", lambda x: TransformerBlock(2, 4)(x(H), cached_keys=x(KEYS))),
            ("7 new", lambda x: TransformerBlock(2, 4)(x((2, 7, 8)), **cached(x))),
            ("rate=1.0", lambda x: TransformerBlock(2, 4, attention_dropout=1.0)(x(H))),
        ],
        "an unknown activation": [("'elu'", lambda: TransformerBlock(2, 4, activation="elu"))],
        "intermediate_size below 1": [("intermediate_size=0", lambda: TransformerBlock(2, 0))],
        "`sequence_ids` with a context": [
            (
                "`sequence_ids`",
                lambda x: TransformerBlock(2, 4)(x(H), context=x(H), sequence_ids=x((2, 6), I)),
            ),
        ],
    },
    "AttentionLSTM": {
        "sizes below 1": [
            ("units=0", lambda: AttentionLSTM(0)),
            ("num_layers=0", lambda: AttentionLSTM(4, 0)),
        ],
        "an unknown score": [("score='cos'", lambda: AttentionLSTM(4, score="cos"))],
        "widths that the score cannot compare": [
            ("4 and 7", lambda x: AttentionLSTM(4, score="dot")(x(H), x((2, 6, 7)))),
            (
                "4 and 7",
                lambda x: after(AttentionLSTM(4, score="cosine"), x(H), memory=x((2, 6, 4)))(
                    x(H), x((2, 6, 7))
                ),
            ),
        ],
        "`previous_output` without `input_feeding`": [
            ("previous_output", lambda x: AttentionLSTM(4)(x(H), x(H), previous_output=x((2, 4)))),
        ],
        "a dropout outside [0, 1)": [("rate=-1", lambda: AttentionLSTM(4, 2, dropout=-1))],
    },
    "AdditiveAttention": {"units below 1": [("units=0", lambda: AdditiveAttention(0))]},
    "DotAttention": {
        "queries and keys of different widths": [
            ("8 and 7", lambda x: DotAttention()(x(H), x((2, 6, 7)))),
            ("8 and 7", lambda x: after(DotAttention(), x(H), keys=x(H))(x(H), x((2, 6, 7)))),
        ],
    },
    "CosineAttention": {
        "a scale that is not positive": [
            ("scale=-1", lambda: CosineAttention(-1)),
            ("scale=nan", lambda: CosineAttention(NAN)),
        ],
        "queries and keys of different widths": [
            ("8 and 7", lambda x: CosineAttention()(x(H), x((2, 6, 7)))),
            ("8 and 7", lambda x: after(CosineAttention(), x(H), keys=x(H))(x(H), x((2, 6, 7)))),
        ],
    },
    "BiLM": {
        "sizes below 1": [
            ("num_layers=0", lambda: BiLM(0, 8, 16)),
            ("units=0", lambda: BiLM(2, 0, 16)),
            ("projection_size=0", lambda: BiLM(2, 8, 0)),
        ],
        "clips that are not positive": [
            ("cell_clip=0", lambda: BiLM(2, 8, 16, cell_clip=0)),
            ("projection_clip=-1", lambda: BiLM(2, 8, 16, projection_clip=-1)),
        ],
        "a dropout outside [0, 1)": [("rate=2", lambda: BiLM(2, 8, 16, dropout=2))],
        "inputs or backward_inputs whose width is not P while `residual`": [
            ("projection_size=16, not 32", lambda x: BiLM(2, 8, 16)(x((2, 3, 32)))),
            ("not 17", lambda x: after(BiLM(2, 8, 16), x((2, 3, 16)))(x((2, 3, 17)))),
            (
                "backward_inputs",
                lambda x: BiLM(2, 8, 16)(x((2, 3, 16)), backward_inputs=x((2, 3, 32))),
            ),
        ],
        "`resets` without `backward_inputs`": [
            ("resets", lambda x: BiLM(2, 8, 16)(x((2, 3, 16)), resets=x((2, 3), "bool"))),
        ],
    },
    "ProjectedLSTM": {
        "sizes below 1": [
            ("units=0", lambda: ProjectedLSTM(0, 4)),
            ("projection_size=0", lambda: ProjectedLSTM(4, 0)),
        ],
        "clips that are not positive": [
            ("cell_clip=0", lambda: ProjectedLSTM(4, 4, cell_clip=0)),
            ("projection_clip=-1.0", lambda: ProjectedLSTM(4, 4, projection_clip=-1.0)),
            ("cell_clip=nan", lambda: ProjectedLSTM(4, 4, cell_clip=NAN)),
        ],
        "`residual` with I != P": [
            ("width 8", lambda x: ProjectedLSTM(3, 4, residual=True)(x(H))),
            (
                "width 1",
                lambda x: after(ProjectedLSTM(3, 8, residual=True), x(H))(x((2, 3, 1))),
            ),
        ],
    },
    "SentenceBoundaries": {
        "marks of unequal length": [("begin", lambda: SentenceBoundaries([1, 2], [3]))],
        "of another length than C": [
            ("marks 2", lambda x: SentenceBoundaries([1, 2], [3, 4])(x((2, 3, 5), I))),
        ],
    },
    "CharCNN": {
        "filters or sizes below 1": [
            ("filters=()", lambda: CharCNN(filters=())),
            ("filters=((0, 3),)", lambda: CharCNN(filters=[(0, 3)])),
            ("filters=((3, 0),)", lambda: CharCNN(filters=[(3, 0)])),
            ("embedding_size=0", lambda: CharCNN(embedding_size=0)),
            ("projection_size=0", lambda: CharCNN(projection_size=0)),
        ],
        "num_characters below 2": [("num_characters=1", lambda: CharCNN(1))],
        "a negative num_highway": [("num_highway=-1", lambda: CharCNN(num_highway=-1))],
        "an unknown activation": [("'swish'", lambda: CharCNN(activation="swish"))],
        "a static C below the widest filter": [
            ("widest filter, 4", lambda x: characters(x, 3)),
            ("widest filter, 4", lambda x: characters(x, 3, built_characters(x))),
        ],
    },
    "Dropout": {
        "a rate outside [0, 1)": [
            (f"rate={rate}", functools.partial(Dropout, rate)) for rate in (-0.1, 1.0, 2, NAN)
        ],
    },
    "TokenEmbedding": {
        "sizes below 1": [
            ("vocab_size=0", lambda: TokenEmbedding(0, 4)),
            ("hidden_size=-1", lambda: TokenEmbedding(7, -1)),
        ],
        "with `reverse` inputs whose width is not H": [
            ("hidden_size=4", lambda x: TokenEmbedding(7, 4)(x(H), reverse=True)),
        ],
    },
    "PositionEmbedding": {
        "max_positions below 1": [("max_positions=0", lambda: PositionEmbedding(0))],
        "an offset below 0": [("offset=-1", lambda: PositionEmbedding(4, offset=-1))],
        "a static `T` above max_positions": [
            ("max_positions=4", lambda x: PositionEmbedding(4)(x(H))),
        ],
        "both `start` and `positions`": [
            ("`start` or `positions`", lambda x: both_positions(PositionEmbedding(4), x)),
        ],
    },
    "SegmentEmbedding": {
        "sizes below 1": [
            ("num_segments=0", lambda: SegmentEmbedding(0, 4)),
            ("hidden_size=0", lambda: SegmentEmbedding(2, 0)),
        ],
    },
    "SinusoidalPositions": {
        "both `start` and `positions`": [
            ("`start` or `positions`", lambda x: both_positions(SinusoidalPositions(), x)),
        ],
        "max_wavelength below 1": [
            ("max_wavelength=0.5", lambda: SinusoidalPositions(0.5)),
            ("max_wavelength=nan", lambda: SinusoidalPositions(NAN)),
        ],
    },
    "MaskedLMHead": {
        "an unknown activation": [("'elu'", lambda: MaskedLMHead("elu"))],
        "units below 1": [("units=0", lambda: MaskedLMHead(units=0))],
    },
    "DiscriminatorHead": {"an unknown activation": [("'elu'", lambda: DiscriminatorHead("elu"))]},
    "Highway": {"an unknown activation": [("'swish'", lambda: Highway("swish"))]},
    "CRF": {
        "num_tags below 1": [("num_tags=0", lambda: CRF(0))],
        "a rate that is not above 0": [
            ("rate=0", lambda: CRF(3, rate=0)),
            ("rate=nan", lambda: CRF(3, rate=NAN)),
        ],
        "inputs of another number of tags": [
            ("num_tags=3", lambda x: CRF(3)(x(H))),
        ],
    },
    "ScalarMix": {
        "num_layers below 1": [("num_layers=0", lambda: ScalarMix(0))],
        "inputs of another number of layers": [
            ("num_layers=3", lambda x: ScalarMix(3)([x(H), x(H)])),
        ],
        "a negative l2": [
            ("l2=-1.0", lambda: ScalarMix(3, l2=-1.0)),
            ("l2=nan", lambda: ScalarMix(3, l2=NAN)),
        ],
    },
    "SentencePooling": {
        "another `pooling`": [("pooling='first'", lambda: SentencePooling("first"))],
        "inputs of another rank": [("inputs", lambda x: SentencePooling()(x((2, 8))))],
    },
    "SubwordEmbedding": {
        "sizes below 1": [
            (f"{name}=0", functools.partial(SubwordEmbedding, **{**sizes, name: 0}))
            for sizes in [dict(vocab_size=5, hidden_size=4, buckets=6, most_subwords=3)]
            for name in sizes
        ],
    },
    "SubwordEmbedding.set_subwords": {
        "another number of words": [("splits", lambda: filled([0, 1], [0, 1, 2]))],
        "a word with more than `most_subwords`": [
            ("most_subwords=3", lambda: filled([0] * 4, [0, 4, 4, 4, 4, 4])),
        ],
        "rows outside the buckets": [
            ("buckets=6", lambda: filled([6], [0, 1, 1, 1, 1, 1])),
            ("rows from -1", lambda: filled([-1], [0, 1, 1, 1, 1, 1])),
        ],
    },
    "WordEmbedding": {
        "sizes below 1": [
            ("vocab_size=0", lambda: WordEmbedding(0, 4)),
            ("hidden_size=0", lambda: WordEmbedding(7, 0)),
        ],
    },
    "rematerialization": {
        "another mode": [("remat='some'", lambda: rematerialization("some").__enter__())],
    },
}

"""`weight_shapes` against the weights of built models, and published numbers of weights."""

import math
import random
import resource

import keras
import pytest

from tfnlp import models
from tfnlp.models.shapes import count_weights, weight_shapes

TRANSFORMER = dict(vocab_size=11, hidden_size=6, num_heads=2, intermediate_size=9)
ELMO = dict(units=5, projection_size=4, filters=((1, 2), (2, 3)))
TASK = dict(size=3, units=2, num_classes=3)


def bert_pretrainer(**arguments):
    return models.bert_pretrainer(models.bert(**arguments))


def roberta_pretrainer(**arguments):
    return models.roberta_pretrainer(models.roberta(**arguments))


def elmo_pretrainer(num_samples=6, **arguments):
    return models.elmo_pretrainer(models.elmo(**arguments), 13, num_samples)


@pytest.mark.parametrize(
    "build, arguments",
    [
        (bert_pretrainer, dict(TRANSFORMER, num_layers=12)),
        (models.gpt, dict(TRANSFORMER, num_layers=4, norm_first=True)),
        (elmo_pretrainer, dict(ELMO, num_layers=6, num_highway=5)),
        (
            models.seq2seq,
            dict(vocab_size=7, hidden_size=4, embedding_size=3, num_layers=5, tied=False)
            | dict(attention="general", bidirectional=False, shared_embeddings=False),
        ),
        (models.transformer, dict(TRANSFORMER, num_layers=4, norm_first=True)),
        (models.nnlm, dict(vocab_size=9, loss="hierarchical", depth=6)),
        (models.glove, dict(vocab_size=9, hidden_size=4)),
        (models.word2vec, dict(vocab_size=9, hidden_size=4, buckets=5, most_subwords=3)),
        (models.feature_task, dict(TASK, output="class", num_layers=5, lstm_layers=4, pairs=True)),
        (models.feature_task, dict(TASK, output="tag", num_layers=6, mix="concat", vocab_size=9)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_equal_those_of_the_built_model(build, arguments):
    expected = {weight.path: tuple(weight.shape) for weight in build(**arguments).weights}
    assert weight_shapes(build, arguments) == expected
    assert count_weights(build, arguments) == sum(map(math.prod, expected.values()))


@pytest.mark.parametrize(
    "build, size, published",
    [
        (models.bert, {}, 109_482_240),  # the defaults
        (models.bert, "BERT_TINY", 4_385_920),
        (models.bert, "BERT_MINI", 11_170_560),
        (models.bert, "BERT_SMALL", 28_763_648),
        (models.bert, "BERT_MEDIUM", 41_373_184),
        (models.bert, "BERT_BASE", 109_482_240),
        (models.bert, "BERT_LARGE", 335_141_888),
        (models.albert, "ALBERT_BASE", 11_683_584),
        (models.albert, "ALBERT_LARGE", 17_683_968),
        (models.albert, "ALBERT_XLARGE", 58_724_864),
        (models.distilbert, {}, 66_362_880),  # transformers' DistilBertModel
        (models.distilbert, "DISTILBERT_BASE", 66_362_880),
        (roberta_pretrainer, {}, 124_697_433),  # transformers' RobertaForMaskedLM
        (models.electra, {}, 13_483_008),
        (models.electra, "ELECTRA_SMALL", 13_483_008),
        (models.electra, "ELECTRA_BASE", 108_891_648),
        (models.electra, "ELECTRA_LARGE", 334_092_288),
        (models.elmo, {}, 93_600_852),
        (models.elmo, "ELMO_ORIGINAL", 93_600_852),
        (models.elmo, "ELMO_MEDIUM", 28_027_732),
        (models.elmo, "ELMO_SMALL", 13_593_300),
        (models.gpt, {}, 116_534_784),
        (models.gpt, "GPT", 116_534_784),
        (models.gpt, "GPT2_SMALL", 124_439_808),
        (models.gpt, "GPT2_MEDIUM", 354_823_168),
        (models.gpt, "GPT2_LARGE", 774_030_080),
        (models.gpt, "GPT2_XL", 1_557_611_200),
        # The paper rounds these two, and its vocabulary, to 65 and 213 millions.
        (models.transformer, {}, 63_082_496),
        (models.transformer, "TRANSFORMER_BASE", 63_082_496),
        (models.transformer, "TRANSFORMER_BIG", 214_245_376),
    ],
)
def test_published_numbers_of_weights(build, size, published):
    sizes = size if isinstance(size, dict) else getattr(models, size)
    assert count_weights(build, sizes) == published
    if build is models.gpt:
        assert sizes.get("hidden_size", 768) // sizes.get("num_heads", 12) == 64


@pytest.mark.slow
def test_absurd_sizes_allocate_nothing():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = 2**30
    sizes = dict(vocab_size=size, hidden_size=size, num_heads=2, num_layers=1000)
    assert weight_shapes(models.gpt, dict(sizes, norm_first=True))[
        "layer_999/attention/qkv/kernel"
    ] == (size, 3 * size)
    weight_shapes(models.transformer, sizes)
    weight_shapes(elmo_pretrainer, dict(units=size, projection_size=size, num_highway=1000))
    weight_shapes(models.word2vec, dict(vocab_size=size, window=size, block=size))
    weight_shapes(models.nnlm, dict(vocab_size=size, num_samples=1000))
    deep = dict(sizes, num_layers=10**12)  # a list of its weights would not fit either
    assert count_weights(models.gpt, deep) > 4 * 10**12 * size**2
    with keras.StatelessScope():  # would fill what Keras still has to fill
        pass
    # Kilobytes; tables of a word's vector each would be terabytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_random_numbers_stay_as_they_were():
    state = random.getstate()
    weight_shapes(models.bert, TRANSFORMER)
    assert random.getstate() == state


SIZES = ("vocab_size", "num_layers", "hidden_size", "num_heads", "intermediate_size")


@pytest.mark.parametrize(
    "build, more",
    [
        (models.bert, ["max_positions"]),
        (models.roberta, ["max_positions"]),
        (models.mpnet, ["max_positions"]),
        (models.distilbert, ["max_positions"]),
        (models.albert, ["embedding_size", "max_positions", "num_groups", "group_blocks"]),
        (models.electra, ["embedding_size", "max_positions"]),
        (models.gpt, ["max_positions"]),
        (models.transformer, []),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_sizes_below_1_are_named(build, more):
    for name in (*SIZES, *more):
        with pytest.raises(ValueError, match=f"{name}=0"):
            build(**{"num_layers": 1, **TRANSFORMER, name: 0})

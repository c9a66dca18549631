"""`weight_shapes` against the weights of models that were built."""

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


def elmo_pretrainer(num_samples=6, **arguments):
    return models.elmo_pretrainer(models.elmo(**arguments), 13, num_samples)


@pytest.mark.parametrize(
    "build, arguments",
    [
        (models.bert, dict(TRANSFORMER, num_layers=5)),
        (bert_pretrainer, dict(TRANSFORMER, num_layers=12)),
        (models.gpt, dict(TRANSFORMER, num_layers=4, norm_first=True)),
        (models.elmo, dict(ELMO, num_layers=6, num_highway=5)),
        (elmo_pretrainer, dict(ELMO, num_layers=4, num_highway=1)),
        (
            models.seq2seq,
            dict(vocab_size=7, hidden_size=4, embedding_size=3, num_layers=5, tied=False)
            | dict(attention="general", bidirectional=False, shared_embeddings=False),
        ),
        (models.transformer, dict(TRANSFORMER, num_layers=4, norm_first=True)),
        (models.nnlm, dict(vocab_size=9, loss="hierarchical", depth=6)),
        (models.glove, dict(vocab_size=9, hidden_size=4)),
        (models.word2vec, dict(vocab_size=9, hidden_size=4, loss="hierarchical", depth=6)),
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


def test_default_depth():
    shapes = weight_shapes(models.bert, TRANSFORMER)
    assert {path.split("/")[0] for path in shapes} >= {f"layer_{i}" for i in range(12)}
    assert len(shapes) == 5 + 12 * 12 + 2


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

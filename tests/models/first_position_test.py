"""Models for prediction that compute the last block at the first position alone."""

import keras
import numpy as np
import pytest

from tfnlp import models
from tfnlp.models.first_position import encoder_at_first, for_prediction

SIZE = dict(hidden_size=8, num_heads=2, intermediate_size=16, max_positions=12)


def inputs(*shape):
    random = np.random.default_rng(0)
    mask = np.arange(shape[-1]) < random.integers(1, shape[-1] + 1, (*shape[:-1], 1))
    ids = random.integers(1, 30, shape) * mask
    return {
        "input_word_ids": ids.astype("int32"),
        "input_mask": mask.astype("int32"),
        "input_type_ids": (ids % 2).astype("int32"),
    }


def filled(model):
    random = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return model


ENCODERS = {
    "bert": lambda **more: models.bert(30, 3, **SIZE, **more),
    "no pooler": lambda **more: models.bert(30, 2, **SIZE, pooler=False, **more),
    "albert": lambda **more: models.albert(30, 4, 2, **SIZE, **more),
    "mpnet": lambda **more: models.mpnet(30, 2, **SIZE, **more),
}


@pytest.mark.parametrize(
    "kind, output, classes, sequences, hidden",
    [
        ("bert", "class", 3, 1, None),
        ("no pooler", "choice", None, 2, None),
        ("bert", "score", None, 1, "gelu"),
        ("albert", "choice", None, 2, None),
        ("mpnet", "class", 3, 1, "tanh"),
    ],
)
def test_outputs_are_those_of_the_whole_model(kind, output, classes, sequences, hidden):
    encoder = ENCODERS[kind]()
    model = filled(models.bert_task(encoder, output, classes, sequences, hidden=hidden))
    fast = for_prediction(model)
    assert fast is not model and for_prediction(model) is fast
    given = inputs(5, 2, 7) if output == "choice" else inputs(5, 7)
    for _ in range(2):
        want, found = model(given, training=False), fast(given, training=False)
        assert set(found) == set(want)
        for name, value in want.items():
            np.testing.assert_allclose(found[name], value, atol=2e-5)
            assert np.ptp(np.asarray(value), axis=0).max() > 1e-3
        filled(model)
        for variable in model.trainable_variables[::2]:
            variable.assign(variable * 1.1)
    # Nothing is tracked or saved twice.
    assert len(model.weights) == len({v.path for v in model.weights}) == len(fast.weights)


def test_other_models_are_left_as_they_are():
    model = models.bert_task(ENCODERS["bert"](), "tag", 3)
    assert for_prediction(model) is model
    assert encoder_at_first(models.bert(30, 1, **SIZE)) is None  # a single block
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    assert for_prediction(plain) is plain

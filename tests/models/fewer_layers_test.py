"""An encoder of some layers of another one: layer by layer against the whole."""

import keras
import numpy as np
import pytest

from tests.layers.reference import randomize
from tfnlp import models

SIZE = dict(
    vocab_size=20, num_layers=4, hidden_size=8, num_heads=2, intermediate_size=12, max_positions=9,
)  # fmt: skip


@pytest.mark.parametrize("build", [models.bert, models.gpt, models.roberta])
def test_layers_are_those_of_the_whole(build):
    keras.utils.set_random_seed(0)
    whole = build(**SIZE)
    randomize(whole, np.random.default_rng(0), 0.3)
    before = [w.numpy() for w in whole.weights]
    small, arguments = models.with_layers(build, whole, SIZE, [1, 3])
    assert arguments == {**SIZE, "num_layers": 2}
    ids = np.random.default_rng(1).integers(5, 20, (3, 7)).astype("int32")
    inputs = {name: np.ones_like(ids) for name in whole.input}
    inputs["input_word_ids"] = ids
    if "input_type_ids" in inputs:
        inputs["input_type_ids"] = np.zeros_like(ids)
    found = small(inputs)
    real = np.ones((3, 7), bool)
    x = np.asarray(whole(inputs)["embedding_output"])
    np.testing.assert_array_equal(x, found["embedding_output"])
    for kept, output in zip((1, 3), found["encoder_outputs"], strict=True):
        x = np.asarray(whole.get_layer(f"layer_{kept}")(x, mask=real))
        np.testing.assert_allclose(output, x, atol=1e-5)
    for one, other in zip(before, whole.weights, strict=True):
        np.testing.assert_array_equal(one, other.numpy())
    names = {w.path for w in small.weights}
    assert names == {w.path for w in build(**arguments).weights}

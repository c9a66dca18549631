import numpy as np
import pytest

from tests.layers import reference
from tests.models.bert_reference import (
    CLOSE,
    SMALL,
    B,
    P,
    V,
    batch,
    bert_reference,
    masked_lm_logits,
    randomized,
    weights,
)
from tfnlp.models import bert, bert_pretrainer


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_pretraining_formula(activation):
    rng = np.random.default_rng(1)
    model = bert_pretrainer(bert(**SMALL), activation=activation, norm_epsilon=0.01)
    randomized(model, rng)
    inputs = batch(rng, positions=True)
    layers, pooled = bert_reference(inputs, model)
    logits = masked_lm_logits(layers[-1], inputs, model, activation, 0.01)
    outputs = model(inputs)
    assert outputs["mlm_logits"].shape == (B, P, V)
    np.testing.assert_allclose(outputs["mlm_logits"], logits, rtol=1e-3, atol=1e-3)
    head = reference.inside(weights(model), "next_sentence_head/dense")
    sentence = reference.dense(pooled, head)
    np.testing.assert_allclose(outputs["next_sentence_logits"], sentence, **CLOSE)


def test_initial_weights():
    model = bert_pretrainer(
        bert(500, num_layers=2, hidden_size=64, num_heads=2, intermediate_size=128)
    )
    w = {v.path: v.numpy() for v in model.trainable_variables}
    drawn = {k: v for k, v in w.items() if k.endswith(("kernel", "embeddings"))}
    assert len(drawn) == 3 + 2 * 4 + 3
    for name, value in drawn.items():
        assert np.abs(value).max() <= 0.04 + 1e-7, name  # cut off at two standard deviations
        if value.size > 1000:
            # A normal of 0.02 cut off at 2 sigma has a standard deviation of 0.880 * 0.02.
            np.testing.assert_allclose(value.std(), 0.0176, rtol=0.05, err_msg=name)
            assert abs(value.mean()) < 5 * 0.0176 / value.size**0.5, name
    for name, value in w.items():
        if name not in drawn:
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
    seen = [(k, v) for k, v in drawn.items() if v.size > 1000]
    for i, (name, value) in enumerate(seen):
        for other_name, other in seen[i + 1 :]:
            size = min(value.size, other.size)
            same = value.ravel()[:size] == other.ravel()[:size]
            assert same.mean() < 0.01, (name, other_name)

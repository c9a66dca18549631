"""ALBERT beside BERT, whose formula is compared with numpy in `bert_test.py`."""

import numpy as np

from tests.models import bert_reference
from tfnlp import models

SIZES = bert_reference.SMALL


def test_it_is_a_bert_whose_layers_are_equal():
    width = SIZES["hidden_size"]
    rates = {"dropout": 0.0, "attention_dropout": 0.0}
    ours = models.albert(**{**SIZES, **rates}, embedding_size=width, initializer_range=0.3)
    theirs = models.bert(**{**SIZES, **rates}, activation="gelu_tanh")
    ours.get_layer("embedding_projection").set_weights([np.eye(width), np.zeros(width)])
    for layer in theirs.layers:
        name = "shared_layer" if layer.name.startswith("layer_") else layer.name
        layer.set_weights(ours.get_layer(name).get_weights())
    batch = bert_reference.batch(np.random.default_rng(0))
    found, expected = ours(batch), theirs(batch)
    assert found.keys() == expected.keys()
    for name in ("embedding_output", "sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    for one, other in zip(found["encoder_outputs"], expected["encoder_outputs"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)

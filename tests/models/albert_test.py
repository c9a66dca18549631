"""ALBERT beside BERT, whose formula is compared with numpy in `bert_test.py`."""

import numpy as np
import pytest

from tests.models import bert_reference
from tests.support import weight_count
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


@pytest.mark.parametrize(
    ("size", "weights"),
    [("BASE", 11_683_584), ("LARGE", 17_683_968), ("XLARGE", 58_724_864)],
)
def test_published_sizes(size, weights):
    assert weight_count(models.albert, getattr(models, f"ALBERT_{size}")) == weights


def test_heads():
    encoder = models.albert(**SIZES, embedding_size=5)
    pretrainer = models.albert_pretrainer(encoder)
    batch = bert_reference.batch(np.random.default_rng(0), positions=True)
    logits = pretrainer(batch)["mlm_logits"]
    assert logits.shape[-1] == SIZES.get("vocab_size", 30000)
    assert pretrainer(batch)["sentence_order_logits"].shape[-1] == 2
    assert pretrainer.get_layer("masked_lm_head").get_weights()[0].shape[-1] == 5
    alone = models.albert_pretrainer(encoder, sentence_order=False)
    assert "sentence_order_logits" not in alone.output

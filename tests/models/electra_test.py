"""ELECTRA: generator, replaced tokens and discriminator against numpy."""

import keras
import numpy as np
import pytest

from tests.layers import reference
from tests.models.bert_reference import (
    CLOSE,
    LENGTHS,
    B,
    P,
    T,
    V,
    batch,
    bert_reference,
    masked_lm_logits,
    randomized,
    weights,
)
from tfnlp import models

SMALL = dict(
    vocab_size=V, embedding_size=6, num_layers=2, hidden_size=16, num_heads=4,
    intermediate_size=24, max_positions=12,
)  # fmt: skip


def masked_batch(rng):
    """A batch with `[MASK]` (id 1) at positions that differ within a row; a row pads its last."""
    inputs = batch(rng)
    positions = np.stack([rng.permutation(max(n, P))[:P] for n in LENGTHS]).astype("int32")
    weights = (positions < np.array(LENGTHS)[:, None]).astype("float32")
    positions = (positions * weights).astype("int32")
    ids = np.take_along_axis(inputs["input_word_ids"], positions, 1)
    for row, (places, real) in enumerate(zip(positions, weights > 0, strict=True)):
        inputs["input_word_ids"][row, places[real]] = 1
    return {
        **inputs,
        "masked_lm_positions": positions,
        "masked_lm_ids": ids.astype("int32"),
        "masked_lm_weights": weights,
    }


def discriminated(w, hidden):
    head = reference.inside(w, "discriminator_head")
    inner = reference.gelu(reference.dense(hidden, reference.inside(head, "dense")))
    return reference.dense(inner, reference.inside(head, "logit"))[..., 0]


def test_equal_widths_need_no_projection():
    for size, projected in ((6, True), (16, False)):
        model = models.electra(**{**SMALL, "embedding_size": size})
        assert ("embedding_projection" in {layer.name for layer in model.layers}) == projected


def test_pretraining_formula():
    rng = np.random.default_rng(1)
    model = randomized(models.electra_pretrainer(models.electra(**SMALL), 0.5), rng)
    inputs, w = masked_batch(rng), weights(model)
    outputs = model(inputs)

    hidden = bert_reference(inputs, model, num_heads=2, prefix="generator_")[0][-1]
    assert hidden.shape == (B, T, 8)
    logits = masked_lm_logits(hidden, inputs, model)
    np.testing.assert_allclose(outputs["mlm_logits"], logits, rtol=1e-3, atol=1e-3)

    # The layer's own test says that it samples; here it is asked once more for what it drew.
    layer = model.get_layer("replaced_tokens")
    names = ("positions", "ids", "weights")
    masked = [inputs[f"masked_lm_{name}"] for name in names]
    text, replaced = layer(inputs["input_word_ids"], *masked, outputs["mlm_logits"])
    np.testing.assert_array_equal(outputs["replaced"], replaced)
    read = bert_reference({**inputs, "input_word_ids": np.asarray(text)}, model)[0][-1]
    real = inputs["input_mask"].astype(bool)
    np.testing.assert_allclose(
        np.asarray(outputs["discriminator_logits"])[real], discriminated(w, read)[real], **CLOSE
    )


def test_pretrainer_shares_the_encoder_and_its_embeddings():
    encoder = models.electra(**SMALL)
    model = models.electra_pretrainer(encoder, 0.25)
    new = {id(v): v.path for v in model.trainable_variables}
    for variable in encoder.trainable_variables:
        del new[id(variable)]
    assert {path.split("/")[0] for path in new.values()} == {
        "generator_embedding_projection", "generator_layer_0", "generator_layer_1",
        "masked_lm_head", "masked_lm_bias", "discriminator_head",
    }  # fmt: skip
    assert model.get_layer("generator_embedding_projection").units == 4  # 16 / 4: one head
    head = model.get_layer("discriminator_head")
    assert models.electra_discriminator(encoder, head).get_layer("discriminator_head") is head


@pytest.mark.parametrize(
    "size, factor, width, heads, wide",
    [
        (models.ELECTRA_BASE, 1 / 3, 256, 4, 1024),
        (models.ELECTRA_SMALL, 0.25, 64, 1, 256),
        (models.ELECTRA_TINY, 0.25, 32, 1, 128),
    ],
)
def test_generators_of_the_paper(size, factor, width, heads, wide):
    with keras.StatelessScope():  # no memory for the weights
        encoder = models.electra(50, **{**size, "num_layers": 1})
        model = models.electra_pretrainer(encoder, factor)
    block = model.get_layer("generator_layer_0")
    assert (block.num_heads, block.intermediate_size) == (heads, wide)
    assert block.output.shape[-1] == width

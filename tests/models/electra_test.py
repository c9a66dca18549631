"""ELECTRA: generator, replaced tokens and discriminator."""

import keras
import numpy as np
import pytest

from tests.models.bert_test import LENGTHS, P, V, batch, randomized
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


def test_equal_widths_need_no_projection():
    for size, projected in ((6, True), (16, False)):
        model = models.electra(**{**SMALL, "embedding_size": size})
        assert ("embedding_projection" in {layer.name for layer in model.layers}) == projected


def test_generator_and_discriminator_are_encoders_that_read_the_text_with_samples():
    rng = np.random.default_rng(1)
    encoder = models.electra(**SMALL)
    model = randomized(models.electra_pretrainer(encoder, 0.5), rng)
    inputs = masked_batch(rng)
    outputs = model(inputs)

    narrow = models.electra(**dict(SMALL, hidden_size=8, num_heads=2, intermediate_size=12))
    generator = models.bert_pretrainer(narrow, next_sentence=False)
    weights = {v.path: v for v in model.weights}
    for variable in generator.weights:
        own = f"generator_{variable.path}"
        variable.assign(weights[own if own in weights else variable.path])
    logits = generator({name: inputs[name] for name in generator.input})["mlm_logits"]
    np.testing.assert_allclose(outputs["mlm_logits"], logits, rtol=1e-5, atol=1e-5)

    # The layer's own test says that it samples; here it is asked once more for what it drew.
    layer = model.get_layer("replaced_tokens")
    names = ("positions", "ids", "weights")
    masked = [inputs[f"masked_lm_{name}"] for name in names]
    text, replaced = layer(inputs["input_word_ids"], *masked, outputs["mlm_logits"])
    np.testing.assert_array_equal(outputs["replaced"], replaced)
    discriminator = models.electra_discriminator(encoder, model.get_layer("discriminator_head"))
    read = {**{name: inputs[name] for name in encoder.input}, "input_word_ids": np.asarray(text)}
    marks = discriminator(read)["discriminator_logits"]
    np.testing.assert_allclose(outputs["discriminator_logits"], marks, rtol=1e-5, atol=1e-5)


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

"""Which models have a counterpart in keras-hub, which need not be there for this."""

import keras
import pytest

from tfnlp import models
from tfnlp.checkpoints.keras_hub import _counterpart

SIZES = dict(
    vocab_size=9, num_layers=1, hidden_size=4, num_heads=2, intermediate_size=6, max_positions=5
)
FAMILIES = {
    "Bert": (models.bert, models.bert_pretrainer),
    "Roberta": (models.roberta, models.roberta_pretrainer),
    "DistilBert": (models.distilbert, models.distilbert_pretrainer),
    "Albert": (models.albert, models.albert_pretrainer),
    "GPT2": (lambda **sizes: models.gpt(**sizes, norm_first=True), models.gpt_pretrainer),
}


@pytest.mark.parametrize("title", FAMILIES)
def test_a_model_has_a_counterpart_if_all_its_weights_have(title):
    make, with_heads = FAMILIES[title]
    encoder = make(**SIZES)
    for model in (encoder, with_heads(encoder)):
        part, arguments = _counterpart(model)
        assert part.title == title
        assert {name: arguments[name] for name in SIZES} == SIZES
    more = keras.layers.Dense(2, name="more")(encoder.output["sequence_output"])
    model = keras.Model(encoder.input, {**encoder.output, "more": more}, name="other")
    with pytest.raises(ValueError, match="'other' has no counterpart"):
        _counterpart(model)

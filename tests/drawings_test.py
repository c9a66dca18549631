"""The drawings in docs/drawings are those of the models, and say what the models are."""

import re

import pytest

from tfnlp import models
from website import drawings


@pytest.mark.long
@pytest.mark.parametrize("name", drawings.models())
def test_the_drawings_are_those_of_the_models(name):
    title, make = drawings.models()[name]
    model = make()
    svg = (drawings.FOLDER / f"{name}.svg").read_text("utf-8")
    assert svg == drawings.drawing(model, title)
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) weights<", svg)]
    assert sum(counts) == model.count_params()
    for output in model.output:
        assert f">{output}<" in svg


def test_boxes_and_arrows_of_a_small_model():
    model = models.bert(vocab_size=50, num_layers=3, hidden_size=8, num_heads=2,
                        intermediate_size=16, max_positions=8)  # fmt: skip
    boxes = drawings.boxes_of(model)
    named = {box.name: box for box in boxes.values()}
    taken = {
        box.name: {(boxes[s].name, how) for s, how in box.takes.items()} for box in named.values()
    }
    blocks = "layer_0 ... 2"
    assert named[blocks].title == "3 x TransformerBlock" and named[blocks].shapes == "[B, T, 8]"
    assert taken[blocks] == {("embedding_norm", ""), ("input_mask", "mask")}
    assert taken["embedding_norm"] == {
        ("token_embedding", ""), ("segment_embedding", ""), ("position_embedding", "")
    }  # fmt: skip
    assert taken["pooler"] == taken["sequence_output"] == {(blocks, "")}
    assert named["encoder_outputs"].shapes == "3 x [B, T, 8]"
    assert sum(box.weights for box in boxes.values()) == model.count_params()

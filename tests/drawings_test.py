"""The drawings in docs/drawings are those of the models, and say what the models are."""

import re

import pytest

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

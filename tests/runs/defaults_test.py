"""Defaults that follow from a model's size, and runs that were made with other ones."""

import numpy as np
import pytest

import tfnlp
from tests.runs.conftest import ROWS, SMALL
from tfnlp.families.sizes import initializer_range, learning_rate

RATES = (3e-4, 3e-5)


@pytest.mark.parametrize(
    ("layers", "width", "expected"),
    [
        (12, 768, 3e-5),  # BERT-base
        (6, 384, 1.2e-4),  # MiniLM-L6
        (4, 256, 2.7e-4),
        (2, 128, 3e-4),
        (None, None, 3e-5),
    ],
)
def test_learning_rates(layers, width, expected):
    assert learning_rate(RATES, layers, width) == pytest.approx(expected, rel=1e-9)


def test_initial_weights():
    assert [initializer_range(n) for n in (1024, 768, 192)] == [0.02, 0.02, 0.04]


@pytest.mark.slow
def test_a_run_keeps_the_numbers_that_it_was_made_with(text, tmp_path):
    settings = {**SMALL, "steps": 1, "hidden_size": 192, "layout": "lines"}
    folder = tmp_path / "bert"
    run = tfnlp.pretrain("bert", text, folder, initializer_range=0.02, **settings)
    again = tfnlp.pretrain("bert", text, folder, **settings)
    assert again.config["initializer_range"] == 0.02
    other = tfnlp.pretrain("bert", text, tmp_path / "other", **settings)
    assert other.config["initializer_range"] == 0.04
    # One update changes little of the normal that is cut off at two deviations.
    tables = [loaded.encoder.get_layer("token_embedding").weights[0] for loaded in (run, other)]
    np.testing.assert_allclose([np.std(t) for t in tables], [0.0176, 0.0352], rtol=0.05)

    task = dict(train=ROWS, output=tmp_path / "task", epochs=0.5)
    tfnlp.finetune("classify", run, **task, learning_rate=1e-3)
    kept = tfnlp.finetune("classify", run, **task)
    assert kept.config["training"]["learning_rate"] == 1e-3

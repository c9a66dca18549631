"""Defaults that follow from a model's size, and runs that were made with other ones."""

import json
import types

import numpy as np
import pytest

import tfnlp
from tests.runs.conftest import ROWS, SMALL
from tfnlp.families import FAMILIES
from tfnlp.families.sizes import initializer_range, learning_rate
from tfnlp.runs.finetune_recipe import remedies, settings_of
from tfnlp.settings.tasks import TagSettings

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


MINILM = types.SimpleNamespace(
    family=FAMILIES["bert"], config={"num_layers": 6, "hidden_size": 384}, saved=False
)


def numbers(examples, features=None, **given):
    config = TagSettings.make(model="x", train="x", output="x", **given)
    return config, settings_of(config, MINILM, features, examples)


@pytest.mark.parametrize(
    ("examples", "features", "given", "epochs"),
    [
        (50_000, None, {}, 3.0),
        (3_200, None, {}, 3.0),  # 300 updates
        (1_200, None, {}, 8.0),  # 37.5 in an epoch
        (1_200, "sum-all", {}, 8.0),
        (50_000, "sum-all", {}, 6.0),
        (1_200, None, {"batch_size": 8}, 3.0),
        (60, None, {}, 20.0),
        (60, None, {"epochs": 2}, 2),
    ],
)
def test_few_examples_get_more_epochs(examples, features, given, epochs):
    assert numbers(examples, features, **given)[1]["epochs"] == epochs


def test_remedies_have_the_numbers_of_the_run():
    config, settings = numbers(1_200)
    assert remedies(config, MINILM, None, settings, 304) == (
        "try learning_rate 0.00024 or batch_size 16 or epochs 24 (they were 0.00012, 32 and 8: "
        "304 updates)"
    )
    # Of a rate of one's own the usual one; no batch is smaller than 1.
    config, settings = numbers(1_200, learning_rate=0.1, batch_size=1, epochs=0.5)
    assert remedies(config, MINILM, None, settings, 600) == (
        "try learning_rate 0.00012 or epochs 1.5 (they were 0.1, 1 and 0.5: 600 updates)"
    )


@pytest.mark.slow
def test_a_plateau_is_said_and_kept(run, tmp_path, capsys):
    flat = dict(train=ROWS, dev=ROWS, output=tmp_path / "flat", learning_rate=1e-9, epochs=2)
    task = tfnlp.finetune("classify", run, **flat)
    advice = "try learning_rate 0.0003 or batch_size 16 or epochs 6 (they were 1e-09, 32 and 2: 4 "
    said = [line for line in capsys.readouterr().err.splitlines() if advice in line]
    assert len(said) == 3 and all(line.startswith("dev: ") for line in said)  # of the best, too
    kept = json.loads((tmp_path / "flat" / "results.json").read_text())
    assert kept["plateau"] == said[-1].removeprefix("dev: ")
    tfnlp.finetune("classify", run, **flat)
    again = capsys.readouterr().err
    assert said[-1] in again and "classes or tags" not in again  # which a training begins with
    task.evaluate(ROWS)
    assert said[-1].partition("; ")[0].removeprefix("dev: ") in capsys.readouterr().err

    steep = dict(flat, output=tmp_path / "steep", learning_rate=1e-2, epochs=None)
    good = tfnlp.finetune("classify", run, **steep)
    assert good.results["metrics"]["accuracy"] > 0.9
    assert good.config["training"]["epochs"] == 20.0 and "plateau" not in good.results

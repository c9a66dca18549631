"""Fine-tuning of a part of a model: low-rank updates, bias terms, frozen weights."""

import numpy as np
import pytest

import tfnlp
from tests.cli.toy_tasks import backbone
from tests.runs.sentence_training_test import FAST, texts
from tfnlp.runs import task_folder

ROWS = [(text, "cat" if "cat" in text else "none") for text in texts(48)]
DEV = [(text, "cat" if "cat" in text else "none") for text in texts(24, 9)]
LORA = dict(lora=2, lora_matrices=["query", "value", "output"], **FAST)


@pytest.fixture(scope="module")
def bert():
    return tfnlp.load(backbone("bert", None))


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora") / "run"
    return tfnlp.finetune("classify", bert, ROWS, dev=DEV, output=folder, epochs=6, **LORA)


def weights(model):
    return {v.path: np.asarray(v) for v in model.weights}


@pytest.mark.slow
def test_only_the_updates_and_the_head_are_trained(run, bert):
    model, config, *_ = task_folder.load_task(run.folder, merged=False)
    assert config["adaptation"]["low_rank"]["rank"] == 2
    found, base = weights(model.model), weights(bert.encoder)
    assert any("/update/up" in path and array.any() for path, array in found.items())
    assert {path for path in found if path not in base and "/update/" not in path} == {
        "classifier/kernel",
        "classifier/bias",
    }
    for path in found.keys() & base.keys():
        np.testing.assert_array_equal(found[path], base[path])
    # What other commands load has none, and predicts the same.
    assert not any("/update/" in path for path in weights(run.task_model.model))
    rows = [(text,) for text, _ in DEV]
    kept, merged = model.predict(model.task.examples_of(rows)), run.predict(rows)
    for one, other in zip(kept, merged, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


@pytest.mark.slow
def test_adapters_may_stay_apart_in_the_module(run, tmp_path):
    import tensorflow as tf

    texts, modules = tf.constant([text for text, _ in DEV[:4]]), {}
    for name, more in (("merged", {}), ("apart", {"keep_adapters": True})):
        files = run.export(tmp_path / name, **more)
        modules[name] = tf.saved_model.load(files["module"])
    found = [module({"text": texts})["probabilities"].numpy() for module in modules.values()]
    np.testing.assert_allclose(*found, atol=1e-5)
    trained = {name: len(module.trainable_variables) for name, module in modules.items()}
    blocks = run.config["backbone"]["arguments"]["num_layers"]
    assert trained["apart"] == 4 * blocks + 2  # two matrices for q and v, two for the last
    assert trained["merged"] == len(run.task_model.model.weights)


@pytest.mark.slow
def test_bias_terms(bert, tmp_path, capsys):
    run = tfnlp.finetune("classify", bert, ROWS, dev=DEV, output=tmp_path / "run", epochs=1,
                         train_weights="layer_1/.*/(bias|beta)$", **FAST)  # fmt: skip
    assert "of them trained" in capsys.readouterr().out
    found, base = weights(run.task_model.model), weights(bert.encoder)
    changed = {path for path in base if path in found and (found[path] != base[path]).any()}
    assert changed and all(path.endswith(("/bias", "/beta")) for path in changed)
    assert all(path.startswith("layer_1/") for path in changed)
    assert len(run.task_model.model.trainable_variables) == len(found)  # what is exported


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", pytest.param("albert", marks=pytest.mark.long)])
def test_other_families(kind, tmp_path):
    model = tfnlp.load(backbone(kind, tmp_path))
    run = tfnlp.finetune("classify", model, ROWS, dev=DEV, output=tmp_path / "run", epochs=8,
                         lora_dropout=0.1, **LORA)  # fmt: skip
    assert run.results["metrics"]["accuracy"] > 0.6
    assert tfnlp.load(run.folder).evaluate(DEV) == run.results["metrics"]

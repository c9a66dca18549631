"""DistilBERT's checkpoints give the numbers that transformers gives."""

import json

import numpy as np
import pytest

import tfnlp
from tests.checkpoints.checkpoints import assert_hidden, assert_same_tensors, copied
from tests.support import golden
from tfnlp import models
from tfnlp.checkpoints.distilbert import load_distilbert, save_distilbert

FOLDER = "distilbert_huggingface"


@pytest.fixture(scope="module")
def expected():
    return np.load(golden(FOLDER) / "expected.npz")


def batch(expected):
    ids = expected["input_ids"].astype("int32")
    return {
        "input_word_ids": ids,
        "input_mask": expected["input_mask"].astype("int32"),
        "input_type_ids": np.zeros_like(ids),
        "masked_lm_positions": np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1)),
    }


def test_all_layers_and_logits(expected):
    loaded = load_distilbert(golden(FOLDER))
    outputs, real = loaded.pretrainer(batch(expected)), expected["input_mask"] > 0
    assert_hidden(outputs, expected, real)
    logits = np.asarray(outputs["mlm_logits"])[real]
    np.testing.assert_allclose(logits, expected["mlm_logits"][real], rtol=1e-5, atol=1e-5)
    assert loaded.tokenizer.vocab_size == 200 and loaded.lowercase
    assert loaded.config["max_positions"] == 40


TASKS = {
    "class": "SequenceClassification",
    "choice": "MultipleChoice",
    "tag": "TokenClassification",
    "span": "QuestionAnswering",
}


def tensors_of(kind):
    """The tensors of a fine-tuned class beside the encoder's."""
    heads = np.load(golden(FOLDER) / "heads.npz")
    return {n.split("/")[1]: heads[n] for n in heads.files if n.startswith(f"{kind}/")}


@pytest.mark.slow
@pytest.mark.parametrize("output", TASKS)
def test_fine_tuned_folders_are_read_and_written(output, expected, tmp_path):
    kind = TASKS[output]

    def fine_tuned(tensors):
        encoder = {name: x for name, x in tensors.items() if name.startswith("distilbert.")}
        return {**encoder, **tensors_of(kind)}

    names = {"0": "low", "1": "middle", "2": "high"}
    labels = {"id2label": names} if output in ("class", "tag") else {}
    config = dict(architectures=[f"DistilBertFor{kind}"], **labels)
    folder = copied(golden(FOLDER), tmp_path / "x", change=fine_tuned, **config)
    run = tfnlp.load(folder)
    assert not labels or list(run.labels) == list(names.values())
    inputs, real = batch(expected), expected["input_mask"] > 0
    del inputs["masked_lm_positions"]
    if output == "choice":
        inputs = {name: x[None] for name, x in inputs.items()}
    for name, got in run.task_model.model(inputs).items():
        difference = np.asarray(got) - expected[name]
        difference = difference[real] if output in ("tag", "span") else difference
        # A bias that changes no prediction is left out.
        constant = difference.flat[0] if output in ("choice", "span") else 0.0
        np.testing.assert_allclose(difference - constant, 0, atol=2e-5)
    run.save(tmp_path / "out")
    left_out = {"span": ["qa_outputs.bias"], "choice": ["classifier.bias"]}.get(output, ())
    assert_same_tensors(tmp_path / "out", folder, left_out)


@pytest.mark.parametrize(
    "config, said",
    [
        (dict(model_type="bert"), "model_type='bert'"),
        (dict(n_layers=2), "n_layers=2"),
        (dict(hidden_dim=47), "lin1"),
    ],
)
def test_configuration_that_does_not_fit(tmp_path, config, said):
    with pytest.raises(ValueError, match=said):
        load_distilbert(copied(golden(FOLDER), tmp_path / "x", **config))


def test_another_epsilon_can_not_be_written(tmp_path):
    encoder = models.distilbert(9, 1, 4, 2, 4, norm_epsilon=1e-5)
    with pytest.raises(ValueError, match="norm_epsilon=1e-12; model 'distilbert' has 1e-05"):
        save_distilbert(encoder, tmp_path / "out")


def test_written_as_it_was_read(tmp_path):
    loaded = load_distilbert(golden(FOLDER))
    save_distilbert(loaded.pretrainer, tmp_path / "out", loaded.tokenizer)
    assert_same_tensors(tmp_path / "out", golden(FOLDER))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    stated = json.loads((golden(FOLDER) / "config.json").read_text())
    assert config.items() <= stated.items() and config["model_type"] == "distilbert"
    tokens = [(f / "vocab.txt").read_text() for f in (tmp_path / "out", golden(FOLDER))]
    assert tokens[0] == tokens[1]

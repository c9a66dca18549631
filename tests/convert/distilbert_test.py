"""DistilBERT's checkpoints give the numbers that transformers gives."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.convert.checkpoints import assert_same_weights
from tests.support import golden
from tfnlp.convert.distilbert import load_distilbert

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


def copied(tmp_path, change=lambda tensors: None, **config):
    """The golden folder with some tensors and some of its configuration changed."""
    folder = tmp_path / "distilbert"
    shutil.copytree(golden(FOLDER), folder)
    tensors = load_file(folder / "model.safetensors")
    tensors = change(tensors) or tensors
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stated, **config}))
    return folder


def test_all_layers_and_logits(expected):
    loaded = load_distilbert(golden(FOLDER))
    outputs, real = loaded.pretrainer(batch(expected)), expected["input_mask"] > 0
    hidden = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    assert len(hidden) == 4 and "hidden_4" not in expected
    for index, got in enumerate(hidden):
        np.testing.assert_allclose(
            np.asarray(got)[real], expected[f"hidden_{index}"][real], rtol=0, atol=1e-5
        )
    logits = np.asarray(outputs["mlm_logits"])[real]
    np.testing.assert_allclose(logits, expected["mlm_logits"][real], rtol=1e-5, atol=1e-5)
    assert loaded.tokenizer.vocab_size == 200 and loaded.lowercase
    assert loaded.config["max_positions"] == 40


def test_encoder_without_a_head_and_without_the_prefix(tmp_path):
    def bare(tensors):
        return {
            name.removeprefix("distilbert."): tensor
            for name, tensor in tensors.items()
            if not name.startswith("vocab_")
        }

    loaded = load_distilbert(copied(tmp_path, bare))
    assert loaded.pretrainer is None
    assert_same_weights(loaded.encoder, load_distilbert(golden(FOLDER)).encoder)


def test_stored_copy_of_the_table(tmp_path):
    name = "vocab_projector.weight"

    def both(tensors):
        tensors[name] = tensors["distilbert.embeddings.word_embeddings.weight"].copy()

    folder = copied(tmp_path, both)
    assert_same_weights(
        load_distilbert(folder).pretrainer, load_distilbert(golden(FOLDER)).pretrainer
    )
    tensors = load_file(folder / "model.safetensors")
    tensors[name][3, 4] += 1e-3
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="different values in 'vocab_projector.weight'"):
        load_distilbert(folder)


@pytest.mark.parametrize(
    "config, said",
    [
        (dict(model_type="bert"), "model_type='bert'"),
        (dict(n_layers=2), "n_layers=2"),
        (dict(n_heads=5), "dim=32, which is not a multiple of n_heads=5"),
        (dict(hidden_dim=47), "lin1"),
        (dict(activation="elu"), "activation='elu'"),
    ],
)
def test_configuration_that_does_not_fit(tmp_path, config, said):
    with pytest.raises(ValueError, match=said):
        load_distilbert(copied(tmp_path, **config))

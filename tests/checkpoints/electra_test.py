"""ELECTRA's checkpoints give the numbers that transformers gives, and are written as it reads."""

import json
import shutil

import numpy as np
import pytest

from tests.checkpoints.checkpoints import assert_hidden, assert_same_tensors, copied
from tests.support import golden
from tfnlp.checkpoints import load_electra, save_electra

FOLDER = golden("electra_huggingface")
DISCRIMINATOR, GENERATOR = FOLDER / "discriminator", FOLDER / "generator"


@pytest.fixture(scope="module")
def expected():
    return np.load(FOLDER / "expected.npz")


def inputs_of(expected):
    names = {"word_ids": "input_ids", "mask": "attention_mask", "type_ids": "token_type_ids"}
    return {f"input_{ours}": expected[theirs].astype("int32") for ours, theirs in names.items()}


def both(folder):
    """A discriminator with its generator inside, as `save_electra` writes them."""
    shutil.copytree(DISCRIMINATOR, folder)
    shutil.copytree(GENERATOR, folder / "generator")
    return folder


def test_discriminator_reproduces_goldens(expected):
    loaded, inputs = load_electra(DISCRIMINATOR), inputs_of(expected)
    assert loaded.lowercase and loaded.tokenizer.vocab_size == 200
    outputs = loaded.pretrainer(inputs)
    real = expected["attention_mask"].astype(bool)
    assert_hidden(loaded.encoder(inputs), expected, real, "discriminator_")
    got = np.asarray(outputs["discriminator_logits"])[real]
    np.testing.assert_allclose(got, expected["discriminator_logits"][real], rtol=0, atol=1e-5)
    assert "mlm_logits" not in outputs


def test_generator_reproduces_goldens(expected):
    """It has no projection: its width is that of the tables."""
    loaded, inputs = load_electra(GENERATOR), inputs_of(expected)
    assert loaded.config["hidden_size"] == loaded.config["embedding_size"] == 16
    real = expected["attention_mask"].astype(bool)
    assert_hidden(loaded.encoder(inputs), expected, real, "generator_")
    positions = np.array([[1, 10, 4], [6, 0, 3], [2, 1, 3]], "int32")
    logits = loaded.pretrainer({**inputs, "masked_lm_positions": positions})["mlm_logits"]
    want = np.take_along_axis(expected["generator_logits"], positions[..., None], 1)
    np.testing.assert_allclose(logits, want, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_both_are_loaded_from_one_folder_and_written_again(tmp_path):
    loaded = load_electra(both(tmp_path / "both"))
    model = loaded.pretrainer
    save_electra(model, tmp_path / "written", loaded.tokenizer)
    for ours, theirs in ((".", DISCRIMINATOR), ("generator", GENERATOR)):
        ours = tmp_path / "written" / ours
        assert_same_tensors(ours, theirs)
        stated, config = (json.loads((f / "config.json").read_text()) for f in (ours, theirs))
        stated.pop("position_embedding_type", None)  # transformers 5 has only the absolute one
        assert stated.items() <= config.items()
        assert (ours / "vocab.txt").read_text() == (theirs / "vocab.txt").read_text()
    save_electra(model, tmp_path / "written", overwrite=True)
    assert not (tmp_path / "written" / "vocab.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["tables", "heads"])
def test_a_generator_of_another_discriminator_is_refused(wrong, tmp_path):
    def other_tables(tensors):
        name = "electra.embeddings.word_embeddings.weight"
        return {**tensors, name: tensors[name] + 1}

    shutil.copytree(DISCRIMINATOR, tmp_path / "both")
    changes = dict(change=other_tables) if wrong == "tables" else dict(num_attention_heads=4)
    copied(GENERATOR, tmp_path / "both" / "generator", **changes)
    with pytest.raises(ValueError, match="generator is not the generator of"):
        load_electra(tmp_path / "both")

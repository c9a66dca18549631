"""Files of families of encoders: written as they were read, and what does not fit is refused.

Their numbers are compared with those of transformers in `fuzz_test.py`. And which models have a
counterpart in keras-hub, which need not be there for this.
"""

import json
import shutil

import keras
import numpy as np
import pytest

import tfnlp
from tests.checkpoints.checkpoints import assert_same_tensors, copied
from tests.support import golden
from tfnlp import models
from tfnlp.checkpoints import load_electra, save_distilbert, save_electra
from tfnlp.checkpoints.keras_hub import _counterpart

ELECTRA = golden("electra_huggingface")
FOLDERS = {
    "albert": golden("albert_huggingface"),
    "distilbert": golden("distilbert_huggingface"),
    "roberta": golden("roberta_huggingface"),
    "discriminator": ELECTRA / "discriminator",
    "generator": ELECTRA / "generator",
}


def json_of(folder, name):
    return json.loads((folder / name).read_text())


def assert_written(folder, source):
    """The tensors of a folder are those of another, and what it states is stated there."""
    assert_same_tensors(folder, source)
    config, stated = json_of(folder, "config.json"), json_of(source, "config.json")
    assert {name: stated.get(name, value) for name, value in config.items()} == config


@pytest.mark.parametrize("name", FOLDERS)
def test_written_as_it_was_read(name, tmp_path):
    loaded = tfnlp.load(FOLDERS[name])
    loaded.save(tmp_path / "out")
    assert_written(tmp_path / "out", FOLDERS[name])
    again = tfnlp.load(tmp_path / "out")
    assert again.config == loaded.config and again.lowercase == loaded.lowercase
    assert again.tokenizer.vocabulary == loaded.tokenizer.vocabulary


@pytest.mark.parametrize(
    "name, config, said",
    [
        ("distilbert", dict(n_layers=2), "n_layers=2"),
        ("distilbert", dict(hidden_dim=47), "lin1"),
        ("albert", dict(num_hidden_groups=20), "num_hidden_groups=20"),
        ("roberta", dict(is_decoder=True), "is_decoder"),
        ("roberta", dict(pad_token_id=None), "pad_token_id"),
        ("roberta", dict(max_position_embeddings=2), "max_position_embeddings"),
    ],
)
def test_configuration_that_does_not_fit(name, config, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        tfnlp.load(copied(FOLDERS[name], tmp_path / "x", **config))


def test_an_epsilon_that_distilbert_does_not_state_can_not_be_written(tmp_path):
    encoder = models.distilbert(9, 1, 4, 2, 4, norm_epsilon=1e-5)
    with pytest.raises(ValueError, match="norm_epsilon=1e-12; this model has 1e-05"):
        save_distilbert(encoder, tmp_path / "out")


@pytest.mark.slow
def test_an_electra_of_two_models_is_loaded_from_one_folder_and_written_again(tmp_path):
    shutil.copytree(FOLDERS["discriminator"], tmp_path / "both")
    shutil.copytree(FOLDERS["generator"], tmp_path / "both" / "generator")
    loaded = load_electra(tmp_path / "both")
    save_electra(loaded.pretrainer, tmp_path / "written", loaded.tokenizer)
    for place, name in ((".", "discriminator"), ("generator", "generator")):
        assert_written(tmp_path / "written" / place, FOLDERS[name])
    save_electra(loaded.pretrainer, tmp_path / "written", overwrite=True)
    assert not (tmp_path / "written" / "vocab.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["tables", "heads"])
def test_a_generator_of_another_discriminator_is_refused(wrong, tmp_path):
    def other_tables(tensors):
        name = "electra.embeddings.word_embeddings.weight"
        return {**tensors, name: tensors[name] + np.float32(1)}

    shutil.copytree(FOLDERS["discriminator"], tmp_path / "both")
    changes = dict(change=other_tables) if wrong == "tables" else dict(num_attention_heads=4)
    copied(FOLDERS["generator"], tmp_path / "both" / "generator", **changes)
    with pytest.raises(ValueError, match="generator is not the generator of"):
        load_electra(tmp_path / "both")


SIZES = dict(
    vocab_size=9, num_layers=1, hidden_size=4, num_heads=2, intermediate_size=6, max_positions=5
)
COUNTERPARTS = {
    "Bert": (models.bert, models.bert_pretrainer),
    "Roberta": (models.roberta, models.roberta_pretrainer),
    "DistilBert": (models.distilbert, models.distilbert_pretrainer),
    "Albert": (models.albert, models.albert_pretrainer),
    "GPT2": (lambda **sizes: models.gpt(**sizes, norm_first=True), models.gpt_pretrainer),
}


@pytest.mark.parametrize("title", COUNTERPARTS)
def test_a_model_has_a_counterpart_if_all_its_weights_have(title):
    make, with_heads = COUNTERPARTS[title]
    encoder = make(**SIZES)
    for model in (encoder, with_heads(encoder)):
        part, arguments = _counterpart(model)
        assert part.title == title
        assert {name: arguments[name] for name in SIZES} == SIZES
    more = keras.layers.Dense(2, name="more")(encoder.output["sequence_output"])
    model = keras.Model(encoder.input, {**encoder.output, "more": more}, name="other")
    with pytest.raises(ValueError, match="'other' has no counterpart"):
        _counterpart(model)

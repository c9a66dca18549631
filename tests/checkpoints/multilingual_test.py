"""XLM-RoBERTa, BERTs with its tokenizer, and MPNet: as transformers and sentence-transformers."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.checkpoints.checkpoints import copied
from tests.checkpoints.faults import one_line
from tests.cli.command import tfnlp as command
from tests.support import golden

FOLDERS = golden("multilingual")
TEXTS, PAIRS = json.loads((FOLDERS / "texts.json").read_text()).values()
pytestmark = pytest.mark.filterwarnings("ignore:.*texts are longer")


def expected(name):
    with np.load(FOLDERS / name / "expected.npz") as file:
        return dict(file)


@functools.cache
def loaded(name):
    return tfnlp.load(FOLDERS / name)


def packed(model, *texts):
    """Inputs of texts, or of pairs."""
    reader = model.family.reader(model)
    ids, _, _ = reader.read([tf.constant(column) for column in texts])
    return {name: x.numpy() for name, x in reader.pack(ids, 40).items()}


MINILM = pytest.param("minilm", marks=pytest.mark.slow)  # the tokenizer is that of xlm


@pytest.mark.parametrize("name", ["xlm", "mpnet", MINILM])
def test_ids_are_those_of_the_library(name):
    """Tokens around texts and pairs included; a text has written a mask and padding."""
    model, want = loaded(name), expected(name)
    for found, ids in (
        (packed(model, TEXTS), want["ids"]),
        (packed(model, *zip(*PAIRS, strict=True)), want["pairs"]),
    ):
        ours = np.where(found["input_mask"] != 0, found["input_word_ids"], -1)
        np.testing.assert_array_equal(ours, ids)
        assert not found["input_type_ids"].any()


def test_logits_of_an_xlm_roberta():
    model = loaded("xlm")
    found = packed(model, TEXTS)
    positions = np.tile(np.arange(found["input_mask"].shape[1]), (len(TEXTS), 1))
    inputs = {**found, "masked_lm_positions": positions.astype("int32")}
    inputs = {name: inputs[name] for name in model.pretrainer.input}
    real = found["input_mask"] != 0
    logits = model.pretrainer(inputs)["mlm_logits"].numpy()
    np.testing.assert_allclose(logits[real], expected("xlm")["logits"][real], atol=1e-5)
    assert model.predict("the <mask> sang", top=2)[0]


def test_states_of_more_tokens_than_the_buckets_tell_apart():
    want, encoder = expected("mpnet"), loaded("mpnet").encoder
    ones = np.ones_like(want["long"], "int32")
    names = {"input_word_ids": want["long"].astype("int32"), "input_mask": ones}
    found = encoder({**names, "input_type_ids": 0 * ones})["sequence_output"]
    np.testing.assert_allclose(found, want["states"], atol=1e-5)


@pytest.mark.parametrize("name", ["mpnet", MINILM])
def test_vectors_are_those_of_sentence_transformers(name):
    model, want = loaded(name), expected(name)
    np.testing.assert_allclose(model.embed(TEXTS), want["vectors"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mpnet", "minilm"])
def test_what_is_written_has_the_same_vectors(name, tmp_path):
    """A folder of sentence-transformers, and a module of strings, by one command."""
    loaded(name).save(tmp_path / "out", format="sentence-transformers")
    again = tfnlp.load(tmp_path / "out").embed(TEXTS)
    given = ["--model", FOLDERS / name, "--output", tmp_path / "module", "--sentences"]
    assert command("export", *given) == 0
    module = tf.saved_model.load(str(tmp_path / "module"))(TEXTS)
    for found in (again, module):
        np.testing.assert_allclose(found, expected(name)["vectors"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "family, given",
    [
        ("xlm-roberta", dict(start=str(FOLDERS / "xlm"), learning_rate=1e-30)),
        ("mpnet", dict(vocab=str(FOLDERS / "mpnet"), num_layers=1, hidden_size=8, num_heads=2)),
    ],
)
def test_pretraining_with_a_given_vocabulary(family, given, tmp_path):
    """That of the start goes on; what is written of the run is read again."""
    steps = dict(steps=1, batch_size=2, seq_length=12, held_out=0.5, layout="lines")
    run = tfnlp.pretrain(family, TEXTS[2:] * 20, tmp_path / "run", **steps, **given)
    run.save(tmp_path / "out")
    again, mask = tfnlp.load(tmp_path / "out"), "the <mask> sang"
    assert again.family is run.family and again.predict(mask) == run.predict(mask)
    if "start" in given:
        start = loaded("xlm")
        assert run.tokenizer.contents == start.tokenizer.contents
        for weight, before in zip(run.encoder.weights, start.encoder.weights, strict=False):
            np.testing.assert_array_equal(weight, before)


def test_a_vocabulary_is_given_not_learnt(tmp_path):
    given = dict(output=str(tmp_path / "run"), steps=1)
    arguments = (ValueError, tfnlp.pretrain, "xlm-roberta", TEXTS * 9)
    one_line("`start`, a model to go on from, or `vocab`", *arguments, **given)
    one_line("has no tokenizer.json", *arguments, **given, vocab=str(tmp_path))


def test_a_table_of_too_few_distances_is_refused(tmp_path):
    folder = copied(FOLDERS / "mpnet", tmp_path / "x", relative_attention_num_buckets=31)
    one_line("relative_attention_num_buckets=31", ValueError, tfnlp.load, folder)

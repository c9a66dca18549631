"""What `--examples` gives to a training, and what it decides of it."""

import types

import keras
import pytest
import tensorflow as tf

from tests.data.examples_support import SEED, assert_same, documents_of, from_text
from tfnlp import models
from tfnlp.cli.command import parse
from tfnlp.cli.options import config_of
from tfnlp.families import FAMILIES
from tfnlp.families.preparation import readable, with_examples

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(params=["bert", "gpt"])
def examples(request, examples_of):
    return request.param, *examples_of(request.param)


def config_for(model, *flags):
    """The config of `tfnlp pretrain MODEL FLAGS`."""
    more = ["--output", "run", "--batch-size", "4"]
    return config_of(parse(["tfnlp", "pretrain", model, *more, *map(str, flags)]))


def prepare(config, model, before=None):
    """What training makes of a config with examples."""
    family = FAMILIES[model]
    return family.prepare(with_examples(config, model), before, tf.distribute.get_strategy())


def test_training_gets_what_the_text_would_give(examples, corpus):
    model, folder, manifest = examples
    config = config_for(model, "--examples", folder, "--evaluate-batches", 3)
    settled = with_examples(config, model)
    assert (settled.seq_length, settled.seed) == (32, SEED)
    train, valid = from_text(model, folder, documents_of(corpus, model), batch_size=4)
    found = prepare(config.replace(max_predictions=6) if model == "bert" else config, model)
    model_of_any_size = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    said = found.describe(model_of_any_size, model_of_any_size, 7)
    if model == "bert":
        assert f"{train.corpus.num_tokens:,} tokens of {train.corpus.num_documents} doc" in said
        assert f"held out: {valid.corpus.num_tokens:,} tokens" in said
        assert len(found.held_out) == min(3, valid.steps_per_epoch)
        for ours, theirs in zip(found.held_out, valid.evaluation_batches(3), strict=True):
            assert_same(ours, theirs)
        tokens = train.corpus.num_tokens
    else:
        tokens = len(train.stream) - 1
        words = sum(manifest["counts"]["train"][what] for what in ("words", "lines"))
        assert f"{tokens:,} tokens" in said and f"({tokens / words:.2f} a word)" in said
        assert f"held out: {len(valid.stream) - 1:,} tokens" in said
    assert_same(found.batches.batch(2), train.batch(2))
    assert found.corpus["tokens"] == tokens and found.corpus["examples"] > 0


def test_contradictions_are_refused(examples_of):
    folder, _ = examples_of("bert")
    for flags, message in (
        (["--seed", "0"], "`seed` 0 contradicts `examples` .*, made with 3; leave it out"),
        (["--seq-length", "128"], "`seq_length` 128 contradicts"),
        (["--input", "a.txt"], "`text` can't be given with `examples`, which has its own"),
        (["--vocab-size", "8000"], "`vocab_size` can't"),
    ):
        with pytest.raises(ValueError, match=message):
            with_examples(config_for("bert", "--examples", folder, *flags), "bert")
    same = config_for("bert", "--examples", folder, "--seed", SEED, "--seq-length", 32)
    assert with_examples(same, "bert").seed == SEED
    with pytest.raises(FileNotFoundError, match="holds no manifest.json"):
        with_examples(config_for("bert", "--examples", folder.parent), "bert")


def test_without_examples_the_text_is_needed():
    config = with_examples(config_for("gpt", "--input", "a.txt"), "gpt")
    decided = (config.seq_length, config.seed, config.held_out, config.layout)
    assert decided == (128, 0, 0.05, "auto")
    with readable(config, "gpt"):
        pass
    with pytest.raises(ValueError, match="give `text`, or `examples` made by tfnlp examples"):
        with_examples(config_for("gpt"), "gpt")


def test_another_vocabulary_is_refused(examples):
    model, folder, _ = examples
    config = config_for(model, "--examples", folder, "--from", "there")
    tokenizer = types.SimpleNamespace(vocabulary=["[PAD]"], lowercase=True, merges=[], marks=())
    encoder = models.bert(**models.BERT_TINY) if model == "bert" else None
    before = types.SimpleNamespace(
        tokenizer=tokenizer, encoder=encoder, config=dict(models.GPT_MINI, max_positions=64)
    )
    with pytest.raises(ValueError, match="with another vocabulary than `start` there has"):
        prepare(config, model, before)

"""What `--examples` gives to training."""

import argparse

import numpy as np
import pytest

from tests.data.examples_support import (
    SEED,
    assert_same,
    documents_of,
    from_text,
    make,
    write_corpus,
)
from tfnlp.commands.example_batches import add_examples, open_bert, open_gpt, readable, settle

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", params=["bert", "gpt"])
def examples(request, tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp(request.param) / "examples"
    return request.param, folder, make(request.param, corpus, folder)


def parse(model, *flags):
    """Arguments as `tfnlp pretrain` has them."""
    parser = argparse.ArgumentParser()
    for name in ("--input", "--valid"):
        parser.add_argument(name, nargs="+")
    parser.add_argument("--vocab")
    parser.add_argument("--from", dest="start")
    parser.add_argument("--layout", default="auto")
    parser.add_argument("--held-out", type=float, default=0.05)
    for name, value in (("vocab-size", 8000), ("seq-length", 128), ("seed", 0), ("batch-size", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    if model == "bert":
        parser.add_argument("--cased", action="store_true")
        parser.add_argument("--whole-word", action="store_true")
        parser.add_argument("--evaluate-batches", type=int, default=3)
    add_examples(parser)
    return parser.parse_args(flags)


def test_training_gets_what_the_text_would_give(examples, corpus):
    model, folder, manifest = examples
    args = parse(model, "--examples", str(folder))
    settle(args, model)
    assert (args.seq_length, args.seed) == (32, SEED)
    train, valid = from_text(model, folder, documents_of(corpus, model), batch_size=4)
    if model == "bert":
        text = open_bert(args, None, 6)
        assert text.size == train.corpus.num_tokens and text.tokens == text.tokenizer.vocabulary
        assert text.documents == train.corpus.num_documents
        assert text.held_out_size == valid.corpus.num_tokens
        assert text.commonest == np.bincount(train.corpus.tokens).argmax()
        assert len(text.held_out) == min(3, valid.steps_per_epoch)
        for ours, theirs in zip(text.held_out, valid.evaluation_batches(3), strict=True):
            assert_same(ours, theirs)
    else:
        text = open_gpt(args, None)
        assert text.size == len(train.stream) - 1
        np.testing.assert_array_equal(text.valid.stream, valid.stream)
        assert text.tokens_per_word == text.size / sum(
            manifest["counts"]["train"][what] for what in ("words", "lines")
        )
    assert_same(text.batches.batch(2), train.batch(2))
    assert text.corpus["tokens"] == text.size and text.corpus["examples"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "0"], "--seed 0 contradicts --examples .*, made with 3; leave it out"),
        (["--seq-length", "128"], "--seq-length 128 contradicts --examples .*, made with 32"),
        (["--input", "a.txt"], "--input can't be given with --examples, which has its own"),
        (["--layout", "auto"], "--layout can't be given with --examples"),
        (["--vocab-size", "8000"], "--vocab-size can't be given with --examples"),
        (["--held-out", "0.05"], "--held-out can't be given with --examples"),
    ],
)
def test_contradictions_are_refused(examples, flags, message):
    model, folder, _ = examples
    with pytest.raises(ValueError, match=message):
        settle(parse(model, "--examples", str(folder), *flags), model)
    same = parse(model, "--examples", str(folder), "--seed", str(SEED), "--seq-length", "32")
    settle(same, model)


def test_without_examples_the_text_is_needed(examples):
    model, folder, _ = examples
    args = parse(model, "--input", "a.txt")
    settle(args, model)
    assert (args.seq_length, args.seed, args.held_out, args.layout) == (128, 0, 0.05, "auto")
    with readable(args, model):
        pass
    with pytest.raises(ValueError, match="give --input, or --examples made by tfnlp examples"):
        settle(parse(model), model)
    with pytest.raises(FileNotFoundError, match="holds no manifest.json"):
        settle(parse(model, "--examples", str(folder.parent)), model)


def test_another_vocabulary_is_refused(examples):
    model, folder, _ = examples
    args = parse(model, "--examples", str(folder), "--from", "there")
    settle(args, model)
    tokenizer = argparse.Namespace(vocabulary=["[PAD]"], lowercase=True, merges=[])
    before = argparse.Namespace(tokenizer=tokenizer)
    with pytest.raises(ValueError, match="with another vocabulary than --from there has"):
        open_bert(args, before, 6) if model == "bert" else open_gpt(args, before)

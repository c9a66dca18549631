"""`tfnlp pretrain elmo` and `tfnlp evaluate` on it, from text to perplexity, and bad input."""

import json
import math
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from tests.cli.cli_test import pretrain as pretrain_bert
from tests.cli.command import RUN, error, tfnlp, write_texts
from tests.support import golden
from tfnlp.convert import load_elmo
from tfnlp.text import read_words

pytestmark = pytest.mark.slow

TOY = ["--size", "mini", "--units", "12", "--projection-size", "8", "--num-layers", "1"]
TRAINING = ["--batch-size", "8", "--window", "5", "--steps", "4", "--steps-per-call", "2"]
TRAINING += ["--samples", "50", "--evaluate-batches", "3"]
PERPLEXITY = re.compile(r"perplexity ([\d.]+) \(forward ([\d.]+), backward ([\d.]+)\)")


def pretrain(text, output, *more, size=TOY):
    return tfnlp("pretrain", "elmo", "--input", text, "--output", output, *size, *TRAINING, *more)


def perplexities(printed):
    """Of each line that has some: (mean, forward, backward)."""
    return [tuple(map(float, match)) for match in PERPLEXITY.findall(printed)]


def evaluate(run, text, capsys, *more):
    capsys.readouterr()
    command = ["evaluate", "--model", run, "--input", text, "--layout", "lines", "--json"]
    assert tfnlp(*command, *more) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A training text, a sentence a line, and a held-out one."""
    return write_texts(tmp_path_factory.mktemp("text"), 30_000, words=11, held_out=60)


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A finished toy run, and its command."""
    train, valid = texts
    folder = tmp_path_factory.mktemp("run") / "run"
    command = ["--layout", "lines", "--valid", valid, "--max-vocab", "300", "--reset", "sentence"]
    assert pretrain(train, folder, *command) == 0
    return folder, command


def test_run_leaves_all_that_its_model_is_made_of(run):
    folder, _ = run
    assert sorted(os.listdir(folder)) == RUN
    words = read_words(folder / "vocab.txt")
    assert len(words) == 300 and words[:3] == ["<S>", "</S>", "<UNK>"]
    config = json.loads((folder / "config.json").read_text())
    assert config["model"] == "elmo" and config["heads"]["vocab_size"] == 300
    from tfnlp import models

    encoder = models.elmo(**config["arguments"])
    bilm = encoder.get_layer("bilm")
    assert (bilm.num_layers, bilm.units, bilm.projection_size) == (1, 12, 8)
    assert config["training"]["window"] == 5 and config["training"]["reset"] == "sentence"


def test_evaluate_says_what_training_said(run, texts, capsys):
    folder, command = run
    train, valid = texts
    before = sorted(os.listdir(folder / "checkpoints"))
    assert pretrain(train, folder, *command) == 0  # nothing left to do but the last evaluation
    assert sorted(os.listdir(folder / "checkpoints")) == before
    ((mean, forward, backward),) = perplexities(capsys.readouterr().out)
    assert 100 < mean < 600  # about as many as there are words

    found = evaluate(folder, valid, capsys)
    assert (round(found["perplexity"], 2), round(found["forward_perplexity"], 2)) == (mean, forward)
    assert round(found["backward_perplexity"], 2) == backward
    np.testing.assert_allclose(math.exp(found["loss"] / 2), found["perplexity"], rtol=1e-6)
    vocabulary = set(read_words(folder / "vocab.txt"))
    words = valid.read_text(encoding="utf-8").split()
    assert found["words"] == len(words) and found["sentences"] == 60
    assert found["tokens"] == len(words) + 60
    assert found["unknown_words"] == sum(word not in vocabulary for word in words) > 100

    assert tfnlp("evaluate", "--model", folder, "--input", valid, "--layout", "lines") == 0
    printed = capsys.readouterr().out
    assert perplexities(printed) == [(mean, forward, backward)]
    assert f"{len(words):,} words" in printed

    # Sentences alone: it does not matter how they are laid out in rows, but for rows' starts.
    alone = evaluate(folder, valid, capsys, "--batch-size", "1")
    np.testing.assert_allclose(alone["perplexity"], mean, rtol=0.01)


def test_changed_settings_are_refused_and_restart_starts_anew(run, texts, tmp_path, capsys):
    folder, command = run
    train, valid = texts
    for change, message in (
        (["--window", "6"], "training.window was 5, now 6"),
        (["--reset", "never"], "training.reset was sentence, now never"),
        (["--seed", "1"], "training.seed was 0, now 1"),
        (["--units", "13"], "arguments.units was 12, now 13"),
    ):
        assert pretrain(train, folder, *command, *change) == 1
        assert message in error(capsys)
    # Another text: the vocabulary is the run's, the corpus is not.
    assert pretrain(valid, folder, *command) == 1
    assert "corpus.crc32" in error(capsys)
    kept = tmp_path / "run"
    shutil.copytree(folder, kept)
    # What is asked for can't be had: the run must survive.
    assert pretrain("nowhere.txt", kept, *command, "--restart") == 1
    assert pretrain(train, kept, *command, "--restart", "--window", "5000") == 1
    assert pretrain(train, kept, *command, "--restart", "--from", kept) == 1
    assert "--from and --output are the same folder" in error(capsys)
    assert (kept / "checkpoints" / "step-0000000004").exists()

    assert pretrain(train, kept, *command[:4], "--min-count", "9", "--restart") == 0
    config = json.loads((kept / "config.json").read_text())
    assert config["training"]["reset"] == "never"
    words = read_words(kept / "vocab.txt")
    assert len(words) == config["heads"]["vocab_size"] < 200
    text = train.read_text(encoding="utf-8").split()
    assert all(text.count(word) >= 9 for word in words[3:])


def test_going_on_from_a_run(run, texts, tmp_path, capsys):
    folder, _ = run
    train, valid = texts
    was = evaluate(folder, valid, capsys)
    command = ["--valid", valid, "--layout", "lines", "--from", folder, "--reset", "sentence"]
    more = ["--learning-rate", "0.5", "--dropout", "0"]
    assert pretrain(valid, tmp_path / "run", *command, *more, size=[]) == 0
    before, after = perplexities(capsys.readouterr().out)
    # It starts where the other run ended, and has seen this very text afterwards.
    np.testing.assert_allclose(before[0], was["perplexity"], atol=0.006)
    assert after[0] < before[0] - 1
    assert (tmp_path / "run" / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()
    np.testing.assert_allclose(
        evaluate(tmp_path / "run", valid, capsys)["perplexity"], after[0], atol=0.006
    )
    # Resumed, it does not speak of "before" any more.
    assert pretrain(valid, tmp_path / "run", *command, *more, size=[]) == 0
    assert perplexities(capsys.readouterr().out) == [after]

    vocab = folder / "vocab.txt"
    for option, message in (
        (["--vocab", vocab], "--vocab can't be given with --from"),
        (["--max-vocab", "9"], "--max-vocab can't be given with --from"),
        (["--units", "13"], "--units can't be changed with --from"),
    ):
        assert pretrain(train, tmp_path / "other", *command, *option, size=[]) == 1
        assert message in error(capsys)
    assert not (tmp_path / "other").exists()


def test_going_on_from_a_bilm_tf_checkpoint(texts, tmp_path, capsys):
    train, valid = texts
    source = golden("elmo_bilm_tf")
    command = ["--valid", valid, "--layout", "lines", "--from", source, "--reset", "document"]
    command += ["--learning-rate", "1e-6"]  # so that its weights can be told again
    assert pretrain(train, tmp_path / "run", *command, size=[]) == 0
    before, after = perplexities(capsys.readouterr().out)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["arguments"]["units"], config["arguments"]["residual"]) == (64, False)
    size = len(read_words(tmp_path / "run" / "vocab.txt"))
    # Its file has no softmax over words; a new one knows next to nothing.
    assert size / 3 < before[0] < 3 * size

    export = ["export", "--model", tmp_path / "run", "--output", tmp_path / "bilm"]
    assert tfnlp(*export, "--format", "bilm") == 0
    ours, theirs = load_elmo(tmp_path / "bilm").encoder, load_elmo(source).encoder
    for a, b in zip(ours.trainable_weights, theirs.trainable_weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_words_one_a_line_and_a_vocabulary_that_is_given(texts, tmp_path, capsys):
    train, valid = texts
    words = tmp_path / "words.txt"
    lines = train.read_text(encoding="utf-8").split("\n")
    words.write_text("\n\n".join("\n".join(line.split()) for line in lines), encoding="utf-8")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("</S>\n<S>\n<UNK>\nthe\nand\nshe\n", encoding="utf-8")
    command = ["--layout", "words", "--vocab", vocab, "--reset", "sentence", "--steps", "1"]
    assert pretrain(words, tmp_path / "run", *command) == 0
    printed = capsys.readouterr().out
    count = len(train.read_text(encoding="utf-8").split())
    numbers = re.search(r"over 6 words .*; ([\d,]+) tokens of ([\d,]+) sentences", printed)
    held = re.search(r"held out: ([\d,]+) tokens", printed)
    total = sum(int(x.replace(",", "")) for x in (numbers[1], held[1]))
    assert total == count + len(lines) - 1  # every word, and every sentence's end
    assert (tmp_path / "run" / "vocab.txt").read_text() == vocab.read_text()
    assert perplexities(printed)[-1][0] < 12


def test_text_that_is_not_tokenized_can_be(tmp_path, texts, capsys):
    text = tmp_path / "text.txt"
    text.write_text('"No," she said, "it didn\'t."\nIt rained.\n\n' * 40, encoding="utf-8")
    command = ["--layout", "lines", "--valid", text, "--steps", "1", "--tokenize"]
    assert pretrain(text, tmp_path / "run", *command) == 0
    assert {"No", ",", "n't", '"', "rained"} < set(read_words(tmp_path / "run" / "vocab.txt"))
    # The run remembers; nothing of its own text is unknown to it.
    assert evaluate(tmp_path / "run", text, capsys)["unknown_words"] == 0


BAD = {
    "missing": (None, "none.txt"),
    "empty": (b"", "empty.txt"),
    "binary": (b"\x00\x01\x02" * 999, "binary.txt"),
    "not UTF-8": (b"caf\xe9 au lait .\n" * 99, "UTF-8.txt"),
    "small": (b"It rained .\nAll day .\n\n" * 5, "too few for one batch of 8 rows"),
    "one sentence": (b"It rained .\n", "sentence"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text_is_named_and_nothing_is_written(name, tmp_path, capsys):
    data, message = BAD[name]
    path = tmp_path / f"{'none' if data is None else name.split()[-1]}.txt"
    if data is not None:
        path.write_bytes(data)
    assert pretrain(path, tmp_path / "run") == 1
    assert message in error(capsys)
    assert not (tmp_path / "run").exists()


def test_models_are_not_taken_for_one_another(run, texts, tmp_path, capsys):
    train, valid = texts
    bert = tmp_path / "bert"
    assert pretrain_bert(train, bert, "--vocab-size", "300", "--steps", "1") == 0
    assert pretrain(train, tmp_path / "run", "--from", bert, size=[]) == 1
    assert "is a run of bert, expected one of elmo" in error(capsys)
    assert pretrain(train, tmp_path / "run", "--vocab", bert / "vocab.txt") == 1
    assert "lacks <S>, </S>, <UNK>" in error(capsys)
    assert not (tmp_path / "run").exists()
    # A BERT's folder is refused as a place for an ELMo, and left as it is.
    before = sorted(p.name for p in pathlib.Path(bert).rglob("*"))
    assert pretrain(train, bert) == 1
    assert "bert" in error(capsys)
    assert sorted(p.name for p in pathlib.Path(bert).rglob("*")) == before
    assert tfnlp("evaluate", "--model", bert, "--input", valid, "--tokenize") == 1
    assert "--tokenize is for an ELMo" in error(capsys)
    assert tfnlp("predict", "bert", "--model", run[0], "a [MASK]") == 1
    assert "is an ELMo, expected a BERT" in error(capsys)
    assert tfnlp("evaluate", "--model", golden("elmo_bilm_tf"), "--input", valid) == 1
    assert "does not say which words it predicts" in error(capsys)

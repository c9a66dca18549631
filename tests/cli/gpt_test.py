"""`tfnlp pretrain gpt` and what the other commands do with its run, and bad input."""

import json
import math
import os
import re
import shutil

import numpy as np
import pytest

from tests.cli.command import checkpoint, error, tfnlp
from tests.support import run_python
from tfnlp import books
from tfnlp.convert import load_gpt
from tfnlp.text import ROBERTA_TOKENS, GPT2Tokenizer, read_bpe, write_bpe

pytestmark = pytest.mark.slow

TOY = ["--hidden-size", "16", "--num-heads", "2", "--num-layers", "2"]
TRAINING = ["--batch-size", "8", "--seq-length", "16", "--steps", "4", "--steps-per-call", "2"]
TRAINING += ["--evaluate-batches", "3", "--layout", "lines", "--initializer-range", "0.02"]
PERPLEXITY = re.compile(r"perplexity ([\d.]+) a token, ([\d.]+) a word")


def pretrain(text, output, *more):
    command = ["pretrain", "gpt", "--input", text, "--output", output, "--vocab-size", "320"]
    return tfnlp(*command, *TOY, *TRAINING, *more)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A training text, a line a sentence, ten lines a document, and a held-out one."""
    folder = tmp_path_factory.mktemp("text")
    words = books.path().read_text(encoding="utf-8")[:20_000].split()
    lines = [" ".join(words[i : i + 11]) for i in range(0, len(words), 11)]
    documents = ["\n".join(lines[i : i + 10]) for i in range(0, len(lines), 10)]
    (folder / "train.txt").write_text("\n\n".join(documents[:-5]) + "\n", encoding="utf-8")
    (folder / "valid.txt").write_text("\n\n".join(documents[-5:]) + "\n", encoding="utf-8")
    return folder / "train.txt", folder / "valid.txt"


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A finished toy run."""
    train, valid = texts
    folder = tmp_path_factory.mktemp("run") / "run"
    assert pretrain(train, folder, "--valid", valid) == 0
    return folder


def test_run_leaves_all_that_its_model_is_made_of(run, texts):
    names = ["checkpoints", "config.json", "curve.png", "logs", "vocab"]
    assert sorted(os.listdir(run)) == names
    tokens, merges = read_bpe(run / "vocab")
    assert len(tokens) == 320 and tokens[-1] == "<|endoftext|>"
    assert len(merges) == 320 - 256 - 1
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "gpt" and config["training"]["seq_length"] == 16
    assert config["arguments"]["vocab_size"] == 320 and config["arguments"]["norm_first"]
    layers = {name.split("/")[1] for name in checkpoint(run) if name.startswith("model/layer_")}
    assert layers == {"layer_0", "layer_1"}


def test_evaluate_says_what_training_said(run, texts, capsys):
    train, valid = texts
    before = sorted(os.listdir(run / "checkpoints"))
    assert pretrain(train, run, "--valid", valid) == 0  # only the last evaluation is left to do
    assert sorted(os.listdir(run / "checkpoints")) == before
    ((token, word),) = PERPLEXITY.findall(capsys.readouterr().out)
    command = ["evaluate", "--model", run, "--input", valid, "--layout", "lines"]
    assert tfnlp(*command, "--json", "--batch-size", "8") == 0
    found = json.loads(capsys.readouterr().out)
    assert (f"{found['perplexity']:.2f}", f"{found['word_perplexity']:.2f}") == (token, word)

    lines = [line.split() for line in valid.read_text(encoding="utf-8").split("\n") if line]
    assert found["lines"] == len(lines) and found["words"] == sum(map(len, lines))
    tokenizer = GPT2Tokenizer(run / "vocab")
    pieces = tokenizer.tokenize([" ".join(line) for line in lines]).flat_values
    assert found["tokens"] == len(pieces) + len(lines)
    nats = found["tokens"] * math.log(found["perplexity"])
    words = found["words"] + found["lines"]
    np.testing.assert_allclose(math.exp(nats / words), found["word_perplexity"], rtol=1e-6)

    assert tfnlp(*command) == 0
    printed = capsys.readouterr().out
    ((again, _),) = PERPLEXITY.findall(printed)
    np.testing.assert_allclose(float(again), float(token), rtol=1e-3)
    assert f"{found['words']:,} words" in printed
    # No token has more context with a smaller stride, and most have less with a larger one.
    assert tfnlp(*command, "--stride", "16", "--json") == 0
    far = json.loads(capsys.readouterr().out)
    assert far["tokens"] == found["tokens"] and far["perplexity"] != found["perplexity"]


def test_going_on_from_a_run(run, texts, tmp_path, capsys):
    train, valid = texts
    more = ["--from", run, "--valid", valid]
    command = ["pretrain", "gpt", "--input", train, "--output", tmp_path / "more", *TRAINING]
    assert tfnlp(*command, *more) == 0
    before, _ = PERPLEXITY.findall(capsys.readouterr().out)
    assert tfnlp("evaluate", "--model", run, "--input", valid, "--layout", "lines") == 0
    (evaluated,) = PERPLEXITY.findall(capsys.readouterr().out)
    np.testing.assert_allclose(float(before[0]), float(evaluated[0]), rtol=1e-3)
    assert read_bpe(tmp_path / "more/vocab") == read_bpe(run / "vocab")
    assert tfnlp(*command, *more, "--hidden-size", "8") == 1
    assert "--hidden-size can't be changed with --from" in error(capsys)


def test_words_of_gpt(texts, tmp_path, capsys):
    train, valid = texts
    folder = tmp_path / "run"
    assert pretrain(train, folder, "--valid", valid, "--bpe", "gpt") == 0
    assert "\n</w>" in read_bpe(folder / "vocab")[0]
    capsys.readouterr()
    command = ["predict", "gpt", "--model", folder, "--max-new-tokens", "3", "Mary went"]
    assert tfnlp(*command) == 0
    assert capsys.readouterr().out.startswith("Mary went ")


def test_predict_continues_a_text(run, capsys):
    command = ["predict", "gpt", "--model", run, "Mary went", "--max-new-tokens", "12"]
    capsys.readouterr()
    drawn = []
    for seed in ("0", "0", "1"):
        assert tfnlp(*command, "--seed", seed) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0].startswith("Mary went") and drawn[0].endswith("\n")
    assert tfnlp(*command, "--samples", "2") == 0  # the second has the next seed
    assert capsys.readouterr().out == drawn[0] + drawn[2]
    assert tfnlp(*command, "--temperature", "0") == 0
    greedy = capsys.readouterr().out
    assert tfnlp(*command, "--beams", "1") == 0
    assert capsys.readouterr().out == greedy


def test_export_for_tensorflow_and_for_hugging_face(run, tmp_path, capsys):
    export = ["export", "--model", run, "--output"]
    assert tfnlp(*export, tmp_path / "modules", "--seq-length", "8") == 0
    assert f"model: {tmp_path}/modules/model" in capsys.readouterr().out
    script = f"""
import sys
import tensorflow as tf, tensorflow_text
module = tf.saved_model.load({str(tmp_path / "modules/model")!r})
preprocessor = tf.saved_model.load({str(tmp_path / "modules/preprocessor")!r})
inputs = preprocessor(tf.constant(["Mary went"]))
print(inputs["input_word_ids"].shape, module(inputs)["lm_logits"].shape)
written = module.signatures["generate"](
    prompt=tf.constant(["Mary went"]), max_new_tokens=tf.constant(12), temperature=tf.constant(0.0),
    top_k=tf.constant(0), top_p=tf.constant(1.0), seed=tf.constant(0))
print(written["text"].numpy()[0].decode(errors="replace"))
"""
    shapes, text = run_python(script, without_tfnlp=True).stdout.split("\n", 1)
    assert shapes == "(1, 8) (1, 8, 320)"
    command = ["predict", "gpt", "--model", run, "Mary went", "--max-new-tokens", "12"]
    assert tfnlp(*command, "--temperature", "0") == 0
    assert capsys.readouterr().out == text

    assert tfnlp(*export, tmp_path / "hf", "--format", "huggingface") == 0
    assert load_gpt(tmp_path / "hf").config["vocab_size"] == 320
    capsys.readouterr()
    command[3] = tmp_path / "hf"
    assert tfnlp(*command, "--temperature", "0") == 0
    assert capsys.readouterr().out == text


def test_other_settings_need_another_folder(run, texts, capsys):
    train, valid = texts
    assert pretrain(train, run, "--valid", valid, "--learning-rate", "0.5") == 1
    assert "other settings (training.learning_rate was 0.001, now 0.5)" in error(capsys)


def test_broken_vocabulary_of_a_run(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/vocab/encoder.json").write_text('{"a": 0', encoding="utf-8")
    assert tfnlp("predict", "gpt", "--model", tmp_path / "run", "Mary") == 1
    assert "encoder.json" in error(capsys)


@pytest.mark.parametrize("family", ["gpt", "roberta"])
def test_vocabulary_that_lacks_a_byte(family, texts, tmp_path, capsys):
    first = ["<|endoftext|>"] if family == "gpt" else ROBERTA_TOKENS
    write_bpe(tmp_path / "vocab", [*first, *map(chr, range(ord("a"), ord("z") + 1))], [])
    command = ["pretrain", family, "--input", texts[0], "--output", tmp_path / "run"]
    assert tfnlp(*command, "--vocab", tmp_path / "vocab") == 1
    assert "the text needs tokens that the vocabulary lacks" in error(capsys)
    assert not (tmp_path / "run").exists()


def test_part_of_a_vocabulary_that_is_enough_for_the_text(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a b b a\n\nb a a b\n" * 40, encoding="utf-8")
    write_bpe(tmp_path / "vocab", ["<|endoftext|>", "a", "b", "Ġ", "Ċ"], [])
    settings = ["--vocab", tmp_path / "vocab", "--held-out", "0.2"]
    assert pretrain(tmp_path / "text.txt", tmp_path / "run", *settings) == 0
    (tmp_path / "other.txt").write_text("a b\n\nMary\n", encoding="utf-8")
    (tmp_path / "labels.tsv").write_text("text\tlabel\n" + "a b\t1\nMary\t0\n" * 4)
    for command in (
        ["predict", "gpt", "--model", tmp_path / "run", "Mary"],
        ["evaluate", "--model", tmp_path / "run", "--input", tmp_path / "other.txt"],
        ["finetune", "classify", "--model", tmp_path / "run", "--train", tmp_path / "labels.tsv"]
        + ["--output", tmp_path / "tuned", "--epochs", "1"],
    ):
        capsys.readouterr()
        assert tfnlp(*command) == 1
        assert "the text needs tokens that the vocabulary lacks" in error(capsys)

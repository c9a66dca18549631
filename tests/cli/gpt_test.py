"""`tfnlp pretrain gpt` and what the other commands do with its run, and bad input."""

import json
import math
import os
import re
import shutil

import numpy as np
import pytest

from tests.cli.command import error, tfnlp
from tests.support import run_python
from tfnlp.convert import load_gpt
from tfnlp.text import ROBERTA_TOKENS, GPT2Tokenizer, read_bpe, write_bpe

pytestmark = pytest.mark.slow

PERPLEXITY = re.compile(r"perplexity ([\d.]+) a token, ([\d.]+) a word")


def test_run_leaves_all_that_its_model_is_made_of(made):
    run = made("gpt").run
    names = ["checkpoints", "config.json", "curve.png", "logs", "vocab"]
    assert sorted(os.listdir(run)) == names
    tokens, merges = read_bpe(run / "vocab")
    assert len(tokens) == 320 and tokens[-1] == "<|endoftext|>"
    assert len(merges) == 320 - 256 - 1


def test_evaluate_says_what_training_said(made, tmp_path, capsys):
    run, valid = made("gpt").copied(tmp_path), made("gpt").valid
    before = sorted(os.listdir(run / "checkpoints"))
    capsys.readouterr()
    assert tfnlp(*made("gpt").command(run)) == 0  # only the last evaluation is left to do
    assert sorted(os.listdir(run / "checkpoints")) == before
    ((token, word),) = PERPLEXITY.findall(capsys.readouterr().out)
    command = ["evaluate", "--model", run, "--input", valid, "--layout", "lines", "--json"]
    assert tfnlp(*command, "--batch-size", "8") == 0
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
    # No token has more context with a smaller stride, and most have less with a larger one.
    assert tfnlp(*command, "--stride", "16") == 0
    far = json.loads(capsys.readouterr().out)
    assert far["tokens"] == found["tokens"] and far["perplexity"] != found["perplexity"]


def test_going_on_from_a_run(made, tmp_path, capsys):
    toy = made("gpt")
    command = ["pretrain", "gpt", "--input", toy.train, "--valid", toy.valid, "--from", toy.run]
    command += ["--output", tmp_path / "more", "--layout", "lines", "--seq-length", 16]
    command += ["--batch-size", 8, "--steps", 2]
    assert tfnlp(*command) == 0
    before, _ = PERPLEXITY.findall(capsys.readouterr().out)
    assert tfnlp("evaluate", "--model", toy.run, "--input", toy.valid, "--layout", "lines") == 0
    (evaluated,) = PERPLEXITY.findall(capsys.readouterr().out)
    np.testing.assert_allclose(float(before[0]), float(evaluated[0]), rtol=1e-3)
    assert read_bpe(tmp_path / "more/vocab") == read_bpe(toy.run / "vocab")


def test_words_of_gpt(made, tmp_path, capsys):
    folder = tmp_path / "run"
    assert tfnlp(*made("gpt").command(folder, bpe="gpt", steps=2)) == 0
    assert "\n</w>" in read_bpe(folder / "vocab")[0]
    capsys.readouterr()
    command = ["predict", "gpt", "--model", folder, "--max-new-tokens", "3", "Mary went"]
    assert tfnlp(*command) == 0
    assert capsys.readouterr().out.startswith("Mary went ")


def test_predict_continues_a_text(made, capsys):
    command = ["predict", "gpt", "--model", made("gpt").run, "Mary went", "--max-new-tokens", "12"]
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


READER = """
import sys
import tensorflow as tf, tensorflow_text
module, preprocessor = (
    tf.saved_model.load(f"{sys.argv[1]}/{name}") for name in ("model", "preprocessor")
)
inputs = preprocessor(tf.constant(["Mary went"]))
print(inputs["input_word_ids"].shape, module(inputs)["lm_logits"].shape)
written = module.signatures["generate"](
    prompt=tf.constant(["Mary went"]), max_new_tokens=tf.constant(12), temperature=tf.constant(0.0),
    top_k=tf.constant(0), top_p=tf.constant(1.0), seed=tf.constant(0))
print(written["text"].numpy()[0].decode(errors="replace"))
"""


def test_export_for_tensorflow_and_for_hugging_face(made, tmp_path, capsys):
    toy = made("gpt")
    said = run_python(READER, toy.exported, without_tfnlp=True).stdout
    shapes, text = said.split("\n", 1)
    assert shapes == "(1, 48) (1, 48, 320)"
    export = ["export", "--model", toy.run, "--output", tmp_path / "hf"]
    assert tfnlp(*export, "--format", "huggingface") == 0
    assert load_gpt(tmp_path / "hf").config["vocab_size"] == 320
    for model in (toy.run, tmp_path / "hf"):
        capsys.readouterr()
        command = ["predict", "gpt", "--model", model, "Mary went", "--max-new-tokens", "12"]
        assert tfnlp(*command, "--temperature", "0") == 0
        assert capsys.readouterr().out == text


def test_broken_vocabulary_of_a_run(made, tmp_path, capsys):
    shutil.copytree(made("gpt").run, tmp_path / "run")
    (tmp_path / "run/vocab/encoder.json").write_text('{"a": 0', encoding="utf-8")
    assert tfnlp("predict", "gpt", "--model", tmp_path / "run", "Mary") == 1
    assert "encoder.json" in error(capsys)


@pytest.mark.parametrize("family", ["gpt", "roberta"])
def test_vocabulary_that_lacks_a_byte(family, made, tmp_path, capsys):
    first = ["<|endoftext|>"] if family == "gpt" else ROBERTA_TOKENS
    write_bpe(tmp_path / "vocab", [*first, *map(chr, range(ord("a"), ord("z") + 1))], [])
    command = made(family).command(tmp_path / "run", vocab=tmp_path / "vocab")
    assert tfnlp(*command) == 1
    assert "the text needs tokens that the vocabulary lacks" in error(capsys)
    assert not (tmp_path / "run").exists()


def test_part_of_a_vocabulary_that_is_enough_for_the_text(made, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a b b a\n\nb a a b\n" * 40, encoding="utf-8")
    write_bpe(tmp_path / "vocab", ["<|endoftext|>", "a", "b", "Ġ", "Ċ"], [])
    text = ["--input", tmp_path / "text.txt", "--valid", tmp_path / "text.txt"]
    command = made("gpt").command(tmp_path / "run", vocab=tmp_path / "vocab")
    assert tfnlp(*command, *text) == 0
    (tmp_path / "labels.tsv").write_text("text\tlabel\n" + "a b\t1\nMary\t0\n" * 4)
    finetune = ["finetune", "classify", "--train", tmp_path / "labels.tsv", "--epochs", "1"]
    for command in (["predict", "gpt", "Mary"], [*finetune, "--output", tmp_path / "tuned"]):
        capsys.readouterr()
        assert tfnlp(*command, "--model", tmp_path / "run") == 1
        assert "the text needs tokens that the vocabulary lacks" in error(capsys)

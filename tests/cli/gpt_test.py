"""`tfnlp pretrain gpt` and what the other commands do with its run, and bad input."""

import json
import math
import os
import re

import numpy as np
import pytest

from tests.cli.command import error, tfnlp
from tfnlp.text import ROBERTA_TOKENS, GPT2Tokenizer, read_bpe, write_bpe

pytestmark = pytest.mark.slow

PERPLEXITY = re.compile(r"perplexity ([\d.]+) a token, ([\d.]+) a word")


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


def test_words_of_gpt(made, tmp_path, capsys):
    folder = tmp_path / "run"
    assert tfnlp(*made("gpt").command(folder, bpe="gpt", steps=2)) == 0
    assert "\n</w>" in read_bpe(folder / "vocab")[0]
    capsys.readouterr()
    command = ["predict", "--model", folder, "--max-new-tokens", "3", "Mary went"]
    assert tfnlp(*command) == 0
    assert capsys.readouterr().out.startswith("Mary went ")


def test_predict_continues_a_text(made, capsys):
    def said(*more):
        capsys.readouterr()
        command = ["predict", "--model", made("gpt").run, "Mary went"]
        command += ["--max-new-tokens", "12"]
        assert tfnlp(*command, *more) == 0
        return capsys.readouterr().out

    both = said("--samples", "2", "--seed", "1")  # the second has the next seed
    second = said("--seed", "2")
    assert second.startswith("Mary went") and both.endswith(second) and both != 2 * second
    greedy = said("--temperature", "0")
    assert said("--beams", "1") == greedy


def test_vocabulary_that_lacks_a_byte(made, tmp_path, capsys):
    write_bpe(tmp_path / "vocab", [*ROBERTA_TOKENS, *map(chr, range(ord("a"), ord("z") + 1))], [])
    command = made("roberta").command(tmp_path / "run", vocab=tmp_path / "vocab", vocab_size=None)
    assert tfnlp(*command) == 1
    assert "the text needs tokens that the vocabulary lacks" in error(capsys)
    assert not (tmp_path / "run").exists()

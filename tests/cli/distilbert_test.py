"""What a DistilBERT learns from a teacher."""

import json

import numpy as np
import pytest

from tests.cli.command import checkpoint, error, tfnlp
from tfnlp.models.distilbert import teacher_layers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINING = ["--seq-length", "16", "--batch-size", "8"]


@pytest.fixture
def teacher(made):
    return made("bert").run


@pytest.fixture
def distil(made):
    """A function of a folder and options to a command that trains a student there."""
    command = ["pretrain", "distilbert", "--input", made("bert").train, "--layout", "lines"]
    return lambda output, *more: [*command, *TRAINING, "--output", output, *more]


def test_the_run_has_half_the_layers_and_the_teachers_vocabulary(made, teacher):
    student = made("distilbert").run
    config, theirs = (json.loads((x / "config.json").read_text()) for x in (student, teacher))
    assert config["arguments"]["num_layers"] == 1
    same = ("vocab_size", "hidden_size", "num_heads", "intermediate_size", "max_positions")
    assert all(config["arguments"][name] == theirs["arguments"][name] for name in same)
    assert (student / "vocab.txt").read_bytes() == (teacher / "vocab.txt").read_bytes()


def test_it_starts_from_the_teachers_layers(distil, teacher, tmp_path):
    # An update of a size that changes nothing in float32.
    more = ["--teacher", teacher, "--steps", 1, "--learning-rate", "1e-30"]
    assert tfnlp(*distil(tmp_path / "run", *more)) == 0
    found, theirs = checkpoint(tmp_path / "run"), checkpoint(teacher, "best")
    name = "model/layer_{}/intermediate/kernel"
    (other,) = teacher_layers(1, 2)
    np.testing.assert_array_equal(found[name.format(0)], theirs[name.format(other)])
    assert tfnlp(*distil(tmp_path / "new", *more, "--new-weights")) == 0
    new = checkpoint(tmp_path / "new")[name.format(0)]
    assert np.abs(new - theirs[name.format(other)]).max() > 1e-3


def test_a_run_that_goes_on_has_the_same_teacher(made, tmp_path, capsys):
    toy, other = made("distilbert"), tmp_path / "other"
    changes = dict(vocab=toy.run / "vocab.txt", vocab_size=None, steps=1, seed=2)
    command = made("bert").command(other, **changes)
    assert tfnlp(*command) == 0
    assert tfnlp(*toy.command(toy.copied(tmp_path), teacher=other)) == 1
    assert "teacher_crc32 was" in error(capsys)

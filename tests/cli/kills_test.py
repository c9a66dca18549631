"""Runs that are killed or stopped end with the weights of uninterrupted ones."""

import numpy as np
import pytest

from tests.cli.command import checkpoint, tfnlp
from tests.support import kill_at_checkpoint, shown_on, start_python
from tfnlp.training import Trainer


def assert_same(one, other):
    assert shown_on(one / "page.html") == shown_on(other / "page.html")
    for file in (one / "logs").rglob("projector*/*"):
        assert (other / file.relative_to(one)).read_bytes() == file.read_bytes()
    one, other = checkpoint(one), checkpoint(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("family", ["electra", "distilbert", "albert", "roberta"])
def test_a_killed_run_ends_bit_identical(family, made, tmp_path):
    command = made(family).command(tmp_path / "run", steps_per_call=1, checkpoint_every=1)
    kill_at_checkpoint(start_python("-m", "tfnlp", *command), tmp_path / "run")
    assert tfnlp(*command) == 0
    assert_same(made(family).run, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["word2vec", "glove"])
def test_a_run_that_was_stopped_ends_bit_identical(family, made, tmp_path, monkeypatch):
    steps = Trainer.train_steps

    def stopped(self, iterator, count):
        if self.step >= 6:
            raise KeyboardInterrupt("stop")
        return steps.__get__(self, Trainer)(iterator, count)

    changes = {"checkpoint_every": 4, "evaluate_every": 2}
    command = made(family).command(tmp_path / "run", **changes)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_steps", stopped)
        assert tfnlp(*command) == 130
    assert max(x.name for x in (tmp_path / "run" / "checkpoints").iterdir()).endswith("4")
    assert tfnlp(*command) == 0
    assert_same(made(family).run, tmp_path / "run")

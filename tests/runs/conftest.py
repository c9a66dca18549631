"""A BERT that is pretrained once for all tests of runs, and fine-tuned once."""

import pytest

import tfnlp
from tests.runs.engine_run import write_texts

SMALL = dict(
    size="tiny", num_layers=1, hidden_size=8, num_heads=2, seq_length=16, max_positions=16,
    vocab_size=300, batch_size=8, steps=4, steps_per_call=2, evaluate_batches=2,
)  # fmt: skip
ROWS = [(f"the {'good' if i % 2 else 'bad'} book number {i}", "no yes".split()[i % 2])
        for i in range(40)]  # fmt: skip


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A file of sentences, a blank line between documents."""
    folder = tmp_path_factory.mktemp("text")
    write_texts(folder)
    return folder / "text.txt"


@pytest.fixture(scope="session")
def run(text, tmp_path_factory):
    """A toy that `tfnlp.pretrain` has made."""
    folder = tmp_path_factory.mktemp("run") / "run"
    return tfnlp.pretrain("bert", text=text, layout="lines", output=folder, **SMALL)


@pytest.fixture(scope="session")
def task(run, tmp_path_factory):
    """A toy that `tfnlp.finetune` has made, without dev examples of its own."""
    folder = tmp_path_factory.mktemp("task") / "task"
    return tfnlp.finetune("classify", run, train=ROWS, output=folder, epochs=2, batch_size=8)

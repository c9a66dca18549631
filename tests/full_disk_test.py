"""Writing to a full disk: one line that names the file and says why, and nothing stays there.

A limit on the size of files fails the same writes as a full disk does.
"""

import os
import resource

import pytest
import tensorflow as tf

from tests.support import run_python
from tfnlp import checkpoints, hub, models
from tfnlp.data.shards.folder import Folder
from tfnlp.files import WriteError, write_text, written_whole
from tfnlp.training import Checkpoints

FULL = "can't be written: (File too large|No space left on device); free some space"
LIMIT = 4096


@pytest.fixture
def full():
    """No file can grow beyond 4 KB."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.fixture(scope="module")
def bert():
    return models.bert(300, 1, 16, 2, 32, max_positions=8)


def text(path, _):
    write_text(path, "a line\n" * 2000)


def examples(path, _):
    Folder(os.path.dirname(path)).write_records(os.path.basename(path), [bytes(3000)] * 3)


def huggingface(path, encoder):
    checkpoints.save_huggingface(encoder, path)


def saved_model(path, encoder):
    hub.export(encoder, path)


def checkpoint(path, encoder):
    Checkpoints(path, {"w": tf.Variable(tf.ones([10_000]))}).save(1, {})


def elmo(path, _):
    sizes = dict(num_layers=1, units=8, projection_size=6, embedding_size=4, num_highway=1)
    checkpoints.save_elmo(path, models.elmo(**sizes, filters=((1, 2), (3, 4))))


@pytest.mark.parametrize(
    "write",
    [text, examples, huggingface, saved_model, checkpoint, elmo],
    ids=lambda write: write.__name__,
)  # fmt: skip
def test_each_writer_names_the_file_and_leaves_nothing(tmp_path, bert, full, write):
    with pytest.raises(WriteError, match=rf"{tmp_path}\S* {FULL}") as caught:
        write(str(tmp_path / "result"), bert)
    assert ".partial" not in str(caught.value) and "\n" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("place", ["missing/file", "taken"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, place):
    (tmp_path / "taken").mkdir()
    with pytest.raises(WriteError, match=rf"^{tmp_path / place} can't be written: (No such|Is a)"):
        write_text(tmp_path / place, "a")
    assert os.listdir(tmp_path) == ["taken"]


def test_other_errors_in_the_block_are_not_changed(tmp_path):
    with pytest.raises(FileNotFoundError, match="source"), written_whole(tmp_path / "file"):
        open(tmp_path / "source")
    inner = str(tmp_path / "inner")
    with pytest.raises(WriteError, match=rf"^{inner}/x can't"), written_whole(tmp_path / "file"):
        write_text(f"{inner}/x", "a")


STANDARD_OUTPUT = """
import sys
from tfnlp.cli import command as cli
sys.exit(cli.main(cli.parse(["tfnlp", "inspect", sys.argv[1]])))
"""


@pytest.mark.slow
def test_standard_output(made):
    done = run_python(
        f"import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n{STANDARD_OUTPUT}",
        made("nnlm").exported,
        check=False,
    )
    said = "standard output can't be written: No space left on device; free some space or choose"
    assert done.returncode == 1 and done.stderr.startswith(f"tfnlp: error: {said}")
    assert len(done.stderr.splitlines()) == 1

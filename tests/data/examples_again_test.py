"""Examples made again: after a kill, with other settings, with damaged shards and bad input."""

import os
import shutil
import signal

import pytest
import tensorflow as tf

from tests.data.examples_support import bert_shards, by_command, contents, make
from tests.support import ROOT, run_python
from tfnlp.data import WindowShards

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Runs the command, but kills the process when it is about to write its nth noted file.
_KILLED = """
import os, signal, sys
from tests.data.examples_support import make
from tfnlp.data.shards.folder import Folder

left, kind = int(sys.argv[1]), sys.argv[2]
note = Folder._note

def killed(self, name, *more):
    global left
    left -= kind in name
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, name, *more)

Folder._note = killed
make("bert", *eval(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def bert(examples_of):
    return examples_of("bert")[0]


@pytest.fixture
def copy(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.long
@pytest.mark.parametrize(("files", "number"), [("piece", 3), ("train", 4)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(corpus, bert, tmp_path, files, number):
    folder = tmp_path / "killed"
    arguments = repr((corpus, str(folder)))
    run = run_python(_KILLED, number, files, arguments, folder=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    notes = sorted((folder / "work").glob(f"{files}*.json"))
    assert len(notes) == number - 1
    with pytest.raises(ValueError, match="are not finished; give the same tfnlp examples command"):
        bert_shards(folder)
    before = {}
    for note in notes:
        name = note.name.removesuffix(".json")
        path = (folder if files == "train" else folder / "work") / name
        before[path] = path.stat().st_ino  # of a file that is written again it is another
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfnlp.data.shards.folder.Folder.remove_work", lambda self: kept.append(1))
        make("bert", corpus, folder)
    assert kept and {path: path.stat().st_ino for path in before} == before
    make("bert", corpus, folder)  # only removes what served its making
    assert contents(folder) == contents(bert)


def test_another_text_or_model_or_setting_or_folder_is_refused(corpus, bert, tmp_path):
    before = contents(bert)
    flags = ["--seed", "4", "--epochs", "3", "--cased"]
    changed = "epochs was 2, now 3; lowercase was true, now false; seed was 3, now 4"
    with pytest.raises(ValueError, match=f"{bert} .*{changed}"):
        make("bert", corpus, bert, *flags)
    with pytest.raises(ValueError, match="input was "):
        make("bert", corpus[:2], bert)
    assert contents(bert) == before
    with pytest.raises(ValueError, match="pairs for bert, not windows"):
        WindowShards(bert, batch_size=4)
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        WindowShards(tmp_path, batch_size=4)
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(ValueError, match="holds other files"):
        make("bert", corpus, tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_damaged_shards_are_named_and_mended(corpus, bert, copy):
    name = "train-00001-00001.tfrecord"
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:-9])
    with pytest.raises(OSError, match=f"{name} has {len(whole) - 9} bytes, not the {len(whole)}"):
        bert_shards(copy)
    (copy / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing; give the command"):
        bert_shards(copy)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    (copy / name).write_bytes(changed)
    shards = bert_shards(copy)
    with pytest.raises(OSError, match=f"{copy / name} is damaged"), shards.readable():
        for _ in shards.dataset().take(2 * shards.steps_per_epoch):
            pass
    (copy / "held_out.tfrecord").write_bytes((copy / "held_out.tfrecord").read_bytes()[:-1] + b"?")
    with pytest.raises(OSError, match="held_out.tfrecord is damaged"):
        bert_shards(copy).held_out()
    intact = (copy / "train-00000-00000.tfrecord").stat().st_ino
    make("bert", corpus, copy)
    assert contents(copy) == contents(bert)
    assert (copy / "train-00000-00000.tfrecord").stat().st_ino == intact
    with pytest.raises(tf.errors.InvalidArgumentError), shards.readable():  # no damage: as it is
        tf.reshape([1, 2], [3])
    for content in ("{", "[]"):
        (copy / "manifest.json").write_text(content)
        with pytest.raises(ValueError, match="manifest.json"):
            bert_shards(copy)


def test_the_command_leaves_finished_examples_alone_and_shows_them(corpus, bert, copy, capsys):
    before = {path: path.stat().st_ino for path in copy.iterdir() if path.suffix == ".tfrecord"}
    assert by_command("bert", corpus, copy) == 0
    assert {path: path.stat().st_ino for path in before} == before
    assert contents(copy) == contents(bert)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["shard", "epoch", "examples", "MB"] and len(lines) == 11
    assert lines[-4].startswith("to train on: ") and lines[-3].startswith("held out: ")
    assert "real pairs" in lines[-2] and lines[-1] == f"examples: {copy}"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epochs", "0"], "--epochs"),
        (["--workers", "2", "--runner", "FlinkRunner"], "--workers"),
        (["--vocab", "nowhere"], "nowhere"),
    ],
)
def test_wrong_arguments(corpus, tmp_path, capsys, flags, message):
    assert by_command("bert", corpus[:1], tmp_path / "x", *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tfnlp: error: ") and message in error


def test_bad_text_is_named(bert, corpus, tmp_path, capsys):
    path = tmp_path / "latin1.txt"
    path.write_bytes("Ein Märchen.\nUnd es war einmal.\n".encode("latin-1"))
    arguments = ([*corpus, str(path)], tmp_path / "x", "--vocab", bert / "vocab.txt")
    assert by_command("bert", *arguments) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"tfnlp: error: {path} is not UTF-8 text: invalid byte 0xe4 at byte 5")

"""Making examples again: after a kill, with other settings, with damaged shards and bad input."""

import os
import shutil
import signal

import pytest
import tensorflow as tf

from tests.data.examples_support import command, contents, make, write_corpus
from tests.support import ROOT, run_python
from tfnlp import cli
from tfnlp.data.shards.batches import PairShards, WindowShards
from tfnlp.text import WordPieceTokenizer, read_vocabulary

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Runs the command, but kills the process when it is about to write its nth noted file.
_KILLED = """
import os, signal, sys
import tfnlp.runs.examples as command
from tests.data.examples_support import make
from tfnlp.data.shards.folder import Folder

command.CHUNK, left, kind = 600, int(sys.argv[1]), sys.argv[2]
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
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfnlp.runs.examples.CHUNK", 600)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("bert") / "examples"
    make("bert", corpus, folder)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def open_bert(folder):
    tokenizer = WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"))
    return PairShards(folder, tokenizer, batch_size=4)


@pytest.mark.long
@pytest.mark.parametrize(("files", "number"), [("piece", 3), ("train", 4)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(corpus, made, tmp_path, files, number):
    folder = tmp_path / "killed"
    arguments = repr((corpus, str(folder)))
    run = run_python(_KILLED, number, files, arguments, folder=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    notes = sorted((folder / "work").glob(f"{files}*.json"))
    assert len(notes) == number - 1
    with pytest.raises(ValueError, match="are not finished; give the same tfnlp examples command"):
        open_bert(folder)
    before = {}
    for note in notes:
        name = note.name.removesuffix(".json")
        path = (folder if files == "train" else folder / "work") / name
        before[path] = path.stat().st_ino  # of a file that is written again it is another
    if files == "train":
        make("bert", corpus, folder)
        assert {path: path.stat().st_ino for path in before} == before
    else:
        kept = []
        remove = "tfnlp.data.shards.folder.Folder.remove_work"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remove, lambda self: kept.append(1))
            make("bert", corpus, folder)
        assert kept and {path: path.stat().st_ino for path in before} == before
        make("bert", corpus, folder)  # only removes what served its making
    assert contents(folder) == contents(made)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "4", "--epochs", "3"], "epochs was 2, now 3; seed was 3, now 4"),
        (["--cased"], "lowercase was true, now false"),
    ],
)
def test_other_settings_are_refused(corpus, made, flags, message):
    before = contents(made)
    with pytest.raises(ValueError, match=f"{made} .*{message}"):
        make("bert", corpus, made, *flags)
    assert contents(made) == before


def test_another_text_or_model_or_folder_is_refused(corpus, made, tmp_path):
    with pytest.raises(ValueError, match="input was "):
        make("bert", corpus[:2], made)
    with pytest.raises(ValueError, match="pairs for bert, not windows"):
        WindowShards(made, batch_size=4)
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        WindowShards(tmp_path, batch_size=4)
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(ValueError, match="holds other files"):
        make("bert", corpus, tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_damaged_shards_are_named_and_mended(corpus, made, copy):
    name = "train-00001-00001.tfrecord"
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:-9])
    with pytest.raises(OSError, match=f"{name} has {len(whole) - 9} bytes, not the {len(whole)}"):
        open_bert(copy)
    (copy / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing; give the command"):
        open_bert(copy)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    (copy / name).write_bytes(changed)
    shards = open_bert(copy)
    with pytest.raises(OSError, match=f"{copy / name} is damaged"), shards.readable():
        for _ in shards.dataset().take(2 * shards.steps_per_epoch):
            pass
    (copy / "held_out.tfrecord").write_bytes((copy / "held_out.tfrecord").read_bytes()[:-1] + b"?")
    with pytest.raises(OSError, match="held_out.tfrecord is damaged"):
        open_bert(copy).held_out()
    intact = (copy / "train-00000-00000.tfrecord").stat().st_ino
    make("bert", corpus, copy)
    assert contents(copy) == contents(made)
    assert (copy / "train-00000-00000.tfrecord").stat().st_ino == intact


def test_readable_leaves_other_errors(made):
    with pytest.raises(tf.errors.InvalidArgumentError), open_bert(made).readable():
        tf.reshape([1, 2], [3])


def test_finished_examples_are_left_alone(corpus, made, copy):
    before = {path: path.stat().st_ino for path in copy.iterdir() if path.suffix == ".tfrecord"}
    make("bert", corpus, copy)
    assert {path: path.stat().st_ino for path in before} == before
    assert contents(copy) == contents(made)


def test_a_bad_manifest(copy):
    for content in ("{", "[]"):
        (copy / "manifest.json").write_text(content)
        with pytest.raises(ValueError, match="manifest.json"):
            open_bert(copy)


def tfnlp(*arguments):
    """The command line as people give it; returns the exit code."""
    return cli.main(cli.parse(["tfnlp", "examples", *arguments]))


def test_the_command(made, corpus, tmp_path, capsys):
    assert tfnlp(*command("bert", corpus, tmp_path / "x")) == 0
    assert contents(tmp_path / "x") == contents(made)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["shard", "epoch", "examples", "MB"] and len(lines) == 11
    assert lines[-4].startswith("to train on: ") and lines[-3].startswith("held out: ")
    assert "real pairs" in lines[-2] and lines[-1] == f"examples: {tmp_path / 'x'}"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epochs", "0"], "--epochs"),
        (["--seq-length", "5"], "seq_length"),
        (["--workers", "2", "--runner", "FlinkRunner"], "--workers"),
        (["--vocab", "nowhere"], "nowhere"),
        (["--short-seq-prob", "2"], "short_seq_prob"),
        (["--held-out", "1.5"], "held_out_fraction"),
    ],
)
def test_wrong_arguments(corpus, tmp_path, capsys, flags, message):
    assert tfnlp(*command("bert", corpus[:1], tmp_path / "x"), *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tfnlp: error: ") and message in error


def test_bad_text_is_named(made, corpus, tmp_path, capsys):
    path = tmp_path / "latin1.txt"
    path.write_bytes("Ein Märchen.\nUnd es war einmal.\n".encode("latin-1"))
    vocabulary = ["--vocab", str(made / "vocab.txt")]
    assert tfnlp(*command("bert", [*corpus, str(path)], tmp_path / "x"), *vocabulary) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"tfnlp: error: {path} is not UTF-8 text: invalid byte 0xe4 at byte 5")
    # Once it is mended, the same command goes on... with a file of another size it can't.
    path.write_text("Once upon a time.\nThere was a dog.\n")
    assert tfnlp(*command("bert", [*corpus, str(path)], tmp_path / "x"), *vocabulary) == 1
    assert "holds examples with other settings" in capsys.readouterr().err
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    assert tfnlp(*command("bert", [str(empty)], tmp_path / "y"), *vocabulary) == 1
    assert "the corpus holds no tokens to train on" in capsys.readouterr().err

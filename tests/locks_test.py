"""One process writes an output folder; a second one is refused."""

import errno
import fcntl
import json
import os

import pytest
import tensorflow as tf

from tests.support import holding
from tfnlp.files import place
from tfnlp.locks import locked


@pytest.fixture
def holder(tmp_path):
    """A process that has locked `tmp_path / "run"`, a folder with one file."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").touch()
    with holding(tmp_path / "run") as process:
        yield process


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path, holder):
    before = (tmp_path / "run" / ".lock").read_text()
    host = os.uname().nodename
    for folder in (tmp_path / "run", os.path.relpath(tmp_path / "run")):
        with pytest.raises(BlockingIOError) as refused, locked(folder):
            pass
    message = f"`output` .*run is being written by process {holder.pid} on {host} since 20"
    assert refused.match(message + ".*; wait for it or stop it, or give another `output`$")
    assert (tmp_path / "run" / ".lock").read_text() == before
    assert json.loads(before)["pid"] == holder.pid


def test_a_lock_ends_with_its_process(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / ".lock").exists()
    with locked(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / ".lock").read_text())["pid"] == os.getpid()
    assert os.listdir(tmp_path / "run") == ["kept"]


def test_a_folder_that_stays_empty_is_removed_and_no_other(tmp_path):
    with locked(tmp_path / "new" / "run"), locked(tmp_path / "new" / "run"):
        assert os.listdir(tmp_path / "new" / "run") == [".lock"]
    assert os.listdir(tmp_path) == []
    with locked(tmp_path / "new" / "run"):
        (tmp_path / "new" / "file").touch()
    assert os.listdir(tmp_path / "new") == ["file"]


@pytest.mark.parametrize("where", ["remote", "no locks"])
def test_without_locks_of_the_system_a_file_is_the_claim(tmp_path, where, monkeypatch, holder):
    folder = f"ram://{tmp_path.name}/run" if where == "remote" else str(tmp_path / "nfs")
    if where == "no locks":

        def flock(*arguments):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "flock", flock)

    def claim(pid, of):
        tf.io.gfile.makedirs(folder)
        if claims():
            tf.io.gfile.remove(f"{folder}/.lock-00000000")  # ram:// appends
        with tf.io.gfile.GFile(f"{folder}/.lock-00000000", "w") as file:
            record = {"pid": pid, "host": "there", "since": "2026-01-01 00:00:00", "place": of}
            file.write(json.dumps(record))

    def claims():
        return [name for name in tf.io.gfile.listdir(folder) if name.startswith(".lock")]

    with locked(folder), locked(folder):
        assert len(claims()) == 1 and claims() != [".lock"]
    claim(holder.pid, place())
    with pytest.raises(BlockingIOError, match=f"process {holder.pid} on there since 2026"):
        with locked(folder):
            pass
    claim(holder.pid, "00000000")  # the number of a process of another machine
    holder.kill()
    holder.wait()
    with pytest.raises(BlockingIOError, match=r"if that has ended, delete .*/\.lock-00000000$"):
        with locked(folder):
            pass
    assert claims() == [".lock-00000000"]
    claim(holder.pid, place())
    with locked(folder):
        assert len(claims()) == 1
    assert claims() == []

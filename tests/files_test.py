"""Files and folders that are written whole or not at all, local and remote."""

import os
import pathlib
import subprocess

import pytest
import tensorflow as tf

from tests.support import start_python
from tfnlp.files import is_remote, local_copy, no_file, written_whole


@pytest.fixture(params=["local", "remote"])
def folder(request, tmp_path):
    path = str(tmp_path) if request.param == "local" else "ram://files"
    tf.io.gfile.makedirs(path)
    yield path
    tf.io.gfile.rmtree(path)


def write_file(path, text):
    pathlib.Path(path).write_text(text)


def write_folder(path, text):
    os.makedirs(os.path.join(path, "inner"))
    write_file(os.path.join(path, f"{text}.txt"), text)
    write_file(os.path.join(path, "inner", "x.txt"), text)


def contents(path):
    """A dict of relative path to text; of a file itself `{"": text}`."""
    if not tf.io.gfile.isdir(path):
        return {"": tf.io.gfile.GFile(path).read()}
    found = {}
    for name in tf.io.gfile.listdir(path):
        name = name.rstrip("/")
        inner = contents(tf.io.gfile.join(path, name))
        found.update({f"{name}/{rest}".rstrip("/"): text for rest, text in inner.items()})
    return found


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_a_path_gets_what_was_written_when_the_block_succeeds(folder, write):
    path = tf.io.gfile.join(folder, "result.png")
    for text in ("one", "two"):  # the second replaces the first
        with written_whole(path) as temporary:
            assert temporary != path and temporary.endswith(".png")
            write(temporary, text)
        with local_copy(path) as copy:
            found = contents(copy)
        inner = {"two.txt": "two", "inner/x.txt": "two"}
        want = {"": "two"} if write is write_file else inner
        assert found == {k.replace("two", text): text for k in want}
    assert [name.rstrip("/") for name in tf.io.gfile.listdir(folder)] == ["result.png"]


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_an_error_changes_nothing_and_leaves_nothing(folder, write):
    path = tf.io.gfile.join(folder, "result")
    for before in ([], ["result"]):
        with pytest.raises(ZeroDivisionError), written_whole(path) as temporary:
            write(temporary, "new")
            raise ZeroDivisionError
        assert [name.rstrip("/") for name in tf.io.gfile.listdir(folder)] == before
        if before:
            assert "old" in contents(path).values()
            continue
        with written_whole(path) as temporary:
            write(temporary, "old")


# Writes a file or folder in part, says so, and waits.
WRITER = """
import os, sys
from tfnlp.files import written_whole
with written_whole(sys.argv[1]) as path:
    if sys.argv[2] == "file":
        open(path, "w").write("half")
    else:
        os.makedirs(os.path.join(path, "inner"))
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_deleted_and_nothing_else(tmp_path, kind):
    path = tmp_path / "vocab.txt"
    if kind == "folder":
        path.mkdir()
    alive, killed, of_another = (
        start_python("-c", WRITER, target, kind, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for target in (path, path, tmp_path / "other-vocab.txt")
    )
    alive_name, killed_name, other_name = (
        os.path.basename(p.stdout.readline().strip()) for p in (alive, killed, of_another)
    )
    for process in (killed, of_another):
        process.kill()
        process.communicate()
    machine = killed_name.split("-")[1]
    elsewhere = killed_name.replace(machine, "00000000")
    write_file(tmp_path / elsewhere, "of another machine")
    replaced = tmp_path / killed_name.replace("partial", "replaced")
    write_file(replaced, "what was there before")
    assert killed_name in os.listdir(tmp_path)
    with written_whole(path) as temporary:
        assert replaced.exists()  # until its successor is there
        (write_file if kind == "file" else write_folder)(temporary, "whole")
    names = {alive_name, other_name, elsewhere, "vocab.txt"}
    assert set(os.listdir(tmp_path)) == names
    alive.communicate("")
    assert alive.returncode == 0 and set(os.listdir(tmp_path)) == names - {alive_name}


def test_local_paths_are_read_where_they_are(tmp_path):
    with local_copy(tmp_path / "b") as path:
        assert path == str(tmp_path / "b")
    assert is_remote("gs://bucket/run") and not is_remote(tmp_path)
    with pytest.raises(FileNotFoundError, match="ram://none does not exist"):
        with local_copy("ram://none"):
            pass


def test_a_missing_file_names_the_nearest_one_and_no_folder(tmp_path):
    (tmp_path / "reviews").mkdir()
    assert "did you mean" not in str(no_file(tmp_path / "reviews.csv"))
    (tmp_path / "review.csv").touch()
    assert str(no_file(tmp_path / "reviews.csv")).endswith(f"did you mean {tmp_path}/review.csv?")

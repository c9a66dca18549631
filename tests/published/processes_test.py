"""Downloads in processes of their own: the environment, kills, and two at once."""

import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from tests.published.hub_server import files_in
from tests.support import run_python

# It imports neither TensorFlow nor Keras: what is tested comes before.
FETCH = """
import sys
from tfnlp.published import fetch
try:
    print(fetch(sys.argv[1], lambda files, path_of: files).folder)
except OSError as error:
    sys.exit(f"{error}")
"""
WAIT = 60
FILES = {
    "config.json": b"{}",
    "vocab.txt": b"[UNK]\n" * 100,
    "model-00001-of-00002.safetensors": bytes(range(256)) * 4000,
    "model-00002-of-00002.safetensors": bytes(range(255)) * 5000,
}


@pytest.fixture
def started():
    """A function that starts the download of `hf://org/name` in a process."""
    processes = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", FETCH, "hf://org/name"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def held(hub, file):
    """Let the answer with `file` wait after its half; returns the two events."""
    hub.held[file] = threading.Event(), threading.Event()
    return hub.held[file]


def test_variables(hub, tmp_path):
    commit = hub.put("org/name", FILES)
    hub.token = "hf_secret"
    cache = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    refused = run_python(FETCH, "hf://org/name", env=cache, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"hf://org/name is gated: accept its conditions at {hub.url}")
    done = run_python(FETCH, "hf://org/name", env={**cache, "HF_TOKEN": "hf_secret"})
    folder = tmp_path / f"cache/models--org--name/snapshots/{commit}"
    assert done.stdout.strip() == str(folder) and files_in(folder) == FILES
    assert f"hf://org/name is commit {commit}" in done.stderr
    assert "100%" in done.stderr  # of the progress bar
    hub.token = "nobody has it"
    offline = run_python(FETCH, "hf://org/name", env={**cache, "HF_HUB_OFFLINE": "1"})
    assert offline.stdout == done.stdout
    elsewhere = {"HF_HOME": str(tmp_path / "other"), "HF_HUB_OFFLINE": "1"}
    missing = run_python(FETCH, "hf://org/name", env=elsewhere, check=False)
    assert missing.stderr.splitlines()[-1] == (
        f"hf://org/name is not complete in the cache {tmp_path}/other/hub, and HF_HUB_OFFLINE is "
        "set; unset it to download the rest"
    )


@pytest.mark.parametrize("file", sorted(FILES)[1:3])
def test_killed(hub, started, file):
    """The same command goes on: files that were complete are not downloaded again."""
    hub.put("org/name", FILES)
    half_sent, go_on = held(hub, file)
    process = started()
    assert half_sent.wait(WAIT)
    process.send_signal(signal.SIGKILL)
    assert process.wait(WAIT) == -signal.SIGKILL
    go_on.set()
    hub.held.clear()
    (snapshot,) = pathlib.Path(os.environ["HF_HOME"]).glob("hub/models--org--name/snapshots/*")
    complete = set(files_in(snapshot))
    assert file not in complete
    hub.asked.clear()
    again = started()
    assert again.wait(WAIT) == 0
    assert files_in(pathlib.Path(again.stdout.read().strip())) == FILES
    assert file in hub.downloads() and not complete & set(hub.downloads())


def test_two_at_once(hub, started):
    hub.put("org/name", FILES)
    half_sent, go_on = held(hub, "model-00001-of-00002.safetensors")
    first = started()
    assert half_sent.wait(WAIT)
    second = started()
    assert all(hub.looked_up.acquire(timeout=WAIT) for _ in "12")
    go_on.set()
    for process in (first, second):
        assert process.wait(WAIT) == 0
        assert files_in(pathlib.Path(process.stdout.read().strip())) == FILES
    assert sorted(hub.downloads()) == sorted(FILES)  # each once
    assert not list(pathlib.Path(os.environ["HF_HOME"]).rglob("*.incomplete"))

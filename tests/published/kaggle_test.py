"""`kaggle://` names: kagglehub against a server on this machine, and its cache."""

import http.server
import json
import pathlib
import sys
import threading

import numpy as np
import pytest

import tfnlp
from tests.published.hub_server import files_in
from tfnlp.formats import Module
from tfnlp.published import at_revision, fetch
from tfnlp.text import WordVectors

pytestmark = pytest.mark.slow

kagglehub = pytest.importorskip("kagglehub")
NAME = "kaggle://me/words/tensorFlow2/small"


class Kaggle:
    """The versions of one model, and what has been asked for.

    Attributes:
        versions: Dict of version to a dict of path to bytes.
        status: What every request is answered with, if it is not 200.
        asked: The names of the requests; of downloads the path.
    """

    def __init__(self):
        self.versions, self.status, self.asked = {}, 200, []


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """A server that is the proxy of everything asked of "localhost", as kagglehub is told to."""
    model = Kaggle()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            size = int(self.headers.get("Content-Length", 0))
            asked = json.loads(self.rfile.read(size))
            name = self.path.rpartition("/")[2]
            model.asked.append(name)
            if model.status != 200:
                return self.answer(b"{}", "application/json", model.status)
            if name == "GetModelInstance":
                newest = {"versionNumber": max(model.versions)}
                return self.answer(json.dumps(newest).encode(), "application/json")
            number = asked["versionNumber"]
            if number not in model.versions:
                return self.answer(b"{}", "application/json", 404)
            files = model.versions[number]
            if name == "ListModelInstanceVersionFiles":
                listed = [{"name": file} for file in files][: asked["pageSize"]]
                rest = "more" if len(listed) < len(files) else ""
                listing = {"files": listed, "nextPageToken": rest}
                return self.answer(json.dumps(listing).encode(), "application/json")
            assert name == "DownloadModelInstanceVersion" and asked["ownerSlug"] == "me"
            self.send_response(302)
            self.send_header("Location", f"http://localhost/{number}/{asked['path']}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            number, path = self.path.removeprefix("http://localhost/").split("/", 1)
            files = model.versions[int(number)]
            model.asked.append((path,))
            self.answer(files[path], "application/octet-stream")

        def answer(self, data, kind, status=200):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
    monkeypatch.setenv("KAGGLE_API_TOKEN", "a-token")
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    for name in ("no_proxy", "NO_PROXY", "KAGGLE_KERNEL_RUN_TYPE", "TBE_RUNTIME_ADDR"):
        monkeypatch.delenv(name, raising=False)
    yield model
    server.shutdown()
    thread.join()
    server.server_close()


def test_versions(kaggle, tmp_path, capsys):
    vectors = WordVectors(["a", "b"], np.eye(2, dtype="float32"))
    module = files_in(pathlib.Path(tfnlp.hub.export_word_vectors(tmp_path / "module", vectors)))
    kaggle.versions = {1: {"a": b"old"}, 2: module}
    found = fetch(NAME, None)
    assert found.revision == "2" and files_in(pathlib.Path(found.folder)) == module
    assert found.folder.startswith(str(tmp_path / "kaggle"))
    assert fetch(f"{NAME}/1", None).revision == "1"
    assert at_revision(NAME, "2") == at_revision(f"{NAME}/1", "2") == f"{NAME}/2"
    loaded = tfnlp.load(NAME)
    assert isinstance(loaded, Module) and loaded.path == NAME
    downloads = [asked for asked in kaggle.asked if isinstance(asked, tuple)]
    assert sorted(downloads) == sorted((file,) for file in [*module, "a"])
    assert capsys.readouterr().out == ""  # which commands print predictions to


def test_without_network(kaggle, monkeypatch):
    """The version that is asked for, or the newest in the cache."""
    kaggle.versions = {number: {"a": b"%d" % number} for number in (9, 10)}
    newest = fetch(NAME, None)
    fetch(f"{NAME}/9", None)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert fetch(NAME, None) == newest
    assert fetch(f"{NAME}/9", None).revision == "9"
    for name in (f"{NAME}/8", f"{NAME}er"):
        with pytest.raises(OSError, match=f"^{name} is not in the cache"):
            fetch(name, None)


def test_refusals(kaggle, monkeypatch):
    kaggle.versions = {1: {"a": b""}}
    with pytest.raises(FileNotFoundError, match=f"^{NAME}/7 does not exist on Kaggle"):
        fetch(f"{NAME}/7", None)
    for status, says in ((403, "can't be downloaded without permission"), (500, "500 Server Err")):
        kaggle.status = status
        with pytest.raises(OSError, match=f"^{NAME} .*{says}"):
            fetch(NAME, None)
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    with pytest.raises(ImportError, match=f"^{NAME} needs kagglehub"):
        fetch(NAME, None)

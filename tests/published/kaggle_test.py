"""`kaggle://` names: kagglehub against a server on this machine, and its cache."""

import contextlib
import http.server
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import threading

import pytest

import tfnlp
from tests.published.hub_server import files_in
from tests.support import golden, run_python
from tfnlp.published import at_revision, fetch
from tfnlp.runs.module import Module

kagglehub = pytest.importorskip("kagglehub")
NAME = "kaggle://me/words/tensorFlow2/small"
FETCH = """
import sys
from tfnlp.published import fetch
print(fetch(sys.argv[1], None).folder)
"""


class Kaggle:
    """The versions of one model, and what has been asked for.

    Attributes:
        versions: Dict of version to a dict of path to bytes.
        status: What every request is answered with, if it is not 200.
        short: Whether the connection is closed after half of a file.
        asked: The names of the requests; of downloads the path and `Range`.
    """

    def __init__(self):
        self.versions, self.status, self.short, self.asked = {}, 200, False, []


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
            path = asked.get("path") or "archive.tar.gz"
            self.send_header("Location", f"http://localhost/{number}/{path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            number, path = self.path.removeprefix("http://localhost/").split("/", 1)
            files = model.versions[int(number)]
            data = files[path] if path in files else archive(files)
            part = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            model.asked.append((path, self.headers.get("Range")))
            first = int(part[1]) if part else 0
            self.answer(data[first:], "application/octet-stream", 206 if part else 200)

        def answer(self, data, kind, status=200):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            cut = len(data) // 2 if model.short and "json" not in kind else len(data)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data[:cut])

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


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def test_versions(kaggle, tmp_path, capsys):
    module = files_in(golden("runs_0.1.0/module"))
    kaggle.versions = {1: {"a": b"old"}, 2: module}
    found = fetch(NAME, None)
    assert found.revision == "2" and files_in(pathlib.Path(found.folder)) == module
    assert found.folder.startswith(str(tmp_path / "kaggle"))
    assert fetch(f"{NAME}/1", None).revision == "1"
    assert at_revision(NAME, "2") == at_revision(f"{NAME}/1", "2") == f"{NAME}/2"
    loaded = tfnlp.load(NAME)
    assert isinstance(loaded, Module) and loaded.path == NAME
    downloads = [asked for asked in kaggle.asked if isinstance(asked, tuple)]
    assert sorted(downloads) == sorted((file, None) for file in [*module, "a"])
    assert capsys.readouterr().out == ""  # which commands print predictions to


@pytest.mark.slow
def test_without_network(kaggle, monkeypatch):
    """The version that is asked for, or the newest in the cache."""
    kaggle.versions = {number: {"a": b"%d" % number} for number in (9, 10)}
    newest = fetch(NAME, None)
    fetch(f"{NAME}/9", None)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert fetch(NAME, None) == newest
    assert fetch(f"{NAME}/9", None).revision == "9"
    for name in (f"{NAME}/8", f"{NAME}er"):
        with pytest.raises(OSError, match=f"^{name} is not in the cache .*, and Kaggle can't be"):
            fetch(name, None)


def test_refusals(kaggle, monkeypatch):
    kaggle.versions = {1: {"a": b""}}
    with pytest.raises(FileNotFoundError, match=f"^{NAME}/7 does not exist on Kaggle; correct"):
        fetch(f"{NAME}/7", None)
    for status in (401, 403):
        kaggle.status = status
        with pytest.raises(OSError, match=f"^{NAME} can't be downloaded without permission: acc"):
            fetch(NAME, None)
    kaggle.status = 500
    with pytest.raises(OSError, match=f"^{NAME} can't be downloaded: 500 Server Error.*; try ag"):
        fetch(NAME, None)
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    says = rf"^{NAME} needs kagglehub: pip install kagglehub \(the extra `kaggle`\)$"
    with pytest.raises(ImportError, match=says):
        fetch(NAME, None)


def test_cut_off(kaggle):
    """What has come is kept, and the rest is asked for the next time."""
    data = os.urandom(3 << 20)
    kaggle.versions, kaggle.short = {1: {"saved_model.pb": data}}, True
    with pytest.raises(OSError, match=f"^{NAME} (can't be downloaded|is not in the cache)"):
        fetch(NAME, None)
    kaggle.short = False
    found = fetch(NAME, None)
    assert files_in(pathlib.Path(found.folder)) == {"saved_model.pb": data}
    assert re.fullmatch(r"bytes=\d+-", kaggle.asked[-1][1])


def test_archive_in_a_process(kaggle):
    """Of many files kagglehub downloads an archive."""
    files = {f"part-{number}": b"%d" % number for number in range(30)}
    kaggle.versions = {3: files}
    done = run_python(FETCH, NAME)
    assert files_in(pathlib.Path(done.stdout.strip())) == files
    assert kaggle.asked[-1] == ("archive.tar.gz", None)

"""Folders, archives and addresses of one tiny SavedModel; the addresses are of this machine."""

import concurrent.futures
import http.server
import os
import pathlib
import signal
import sys
import tarfile
import threading
import urllib.parse

import pytest
import tensorflow as tf
import tensorflow_hub

from tests.hub.archives_test import MODULE, contents, files_of, member, packed
from tfnlp.hub.loading.resolve import resolve

CODE = sys.modules[resolve.__module__]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "it.tgz"
    path.write_bytes(packed(prefix="module/", zipped=True))
    return path


def cached(cache):
    return sorted(os.listdir(cache)) if cache.exists() else []


def never(*_):
    raise AssertionError("it was unpacked again")


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "home" / "m").mkdir(parents=True)
        (tmp_path / "home" / "m" / "saved_model.pb").write_bytes(b"1")
        return tmp_path / "home" / "m"

    def test_forms(self, folder, monkeypatch, cache):
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.chdir(folder.parent)
        for handle in (folder, str(folder), f"{folder}/", "~/m", "m", "./m/"):
            assert resolve(handle) == str(folder)
        assert not cache.exists()

    def test_text_format(self, folder):
        (folder / "saved_model.pb").rename(folder / "saved_model.pbtxt")
        assert resolve(folder) == str(folder)

    def test_none_in_it(self, folder):
        with pytest.raises(FileNotFoundError, match=r"home is not a SavedModel.* folders m$"):
            resolve(folder.parent)
        (folder / "saved_model.pb").unlink()
        with pytest.raises(FileNotFoundError, match="m is not a SavedModel: it has no saved_model"):
            resolve(folder)

    def test_an_archive_s_name(self, folder):
        renamed = folder.rename(folder.parent / "m.tgz")
        assert resolve(renamed) == str(renamed)


@pytest.mark.parametrize(
    "handle, error, says",
    [
        (None, ValueError, "^handle is None; expected the folder"),
        (3, ValueError, "^handle is 3; expected"),
        ("", ValueError, "^handle is ''; expected"),
        ("/no/such", FileNotFoundError, "^/no/such does not exist; give the folder"),
        ("no\0\nsuch", FileNotFoundError, r"^'no\\x00\\nsuch' does not exist"),
        ("/no/such.tar.gz", FileNotFoundError, "does not exist"),
        (__file__, ValueError, r"resolve_test.py is neither the folder of a SavedModel nor"),
        ("ftp://x/m.tgz", ValueError, "^ftp://x/m.tgz cannot be fetched; expected"),
        ("http://x/\nm", ValueError, r"^'http://x/\\nm' cannot be fetched"),
        ("HTTP://x/m.tgz", ValueError, "cannot be fetched; expected an address that begins with"),
    ],
)
def test_not_a_handle(handle, error, says):
    with pytest.raises(error, match=says) as caught:
        resolve(handle)
    assert "\n" not in str(caught.value)


class TestArchive:
    @pytest.mark.parametrize("prefix", ["", "module/"])
    @pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".TGZ"])
    def test_unpacked_once(self, tmp_path, cache, monkeypatch, suffix, prefix):
        path = tmp_path / f"it{suffix}"
        path.write_bytes(packed(prefix=prefix, zipped="g" in suffix.lower()))
        folder = resolve(path)
        assert files_of(contents(folder)) == MODULE
        assert len(cached(cache)) == 1 and folder.startswith(str(cache))
        monkeypatch.setattr(CODE, "unpack", never)
        assert resolve(str(path)) == folder

    def test_by_content(self, tmp_path, cache, archive):
        stamp, first = os.stat(archive), resolve(archive)
        same = tmp_path / "same.tar.gz"
        same.write_bytes(archive.read_bytes())
        assert resolve(same) == first
        other = packed({**MODULE, "saved_model.pb": b"hparg" * 400}, "module/")
        for content in (packed(prefix="module/"), other):  # of one size and time
            archive.write_bytes(content)
            os.utime(archive, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            last = resolve(archive)
        assert files_of(contents(last))["saved_model.pb"] == b"hparg" * 400
        assert files_of(contents(first)) == MODULE and len(cached(cache)) == 3

    @pytest.mark.parametrize(
        "content",
        [
            b"", b"\x1f\x8b", b"no archive", packed(zipped=True)[:-100], packed({"x": b""}),
            packed(more=member("../../evil", b"1")), packed()[:99],
            packed({f"{k}/saved_model.pb": b"" for k in "ab"}),
        ],
    )  # fmt: skip
    def test_nothing_stays_of_a_bad_one(self, tmp_path, cache, content):
        path = tmp_path / "it.tar"
        path.write_bytes(content)
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=f"^{path} .*; pack or download it again$"):
            resolve(path)
        assert cached(cache) == []
        cache.rmdir()
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("full")])
    def test_interrupted(self, cache, archive, monkeypatch, error):
        def broken(_, folder, name):
            (pathlib.Path(folder) / "saved_model.pb").write_bytes(b"half")
            raise error

        with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, OSError)):
            patch.setattr(CODE, "unpack", broken)
            resolve(archive)
        assert cached(cache) == []
        assert files_of(contents(resolve(archive))) == MODULE

    def test_killed(self, cache, archive, monkeypatch):
        def killed(_, folder, name):
            (pathlib.Path(folder) / "saved_model.pb").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            monkeypatch.setattr(CODE, "unpack", killed)
            try:
                resolve(archive)
            finally:
                os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        [left] = cached(cache)
        assert left.endswith(".tmp")
        assert files_of(contents(resolve(archive))) == MODULE and len(cached(cache)) == 2
        os.utime(cache / left, (0, 0))  # nobody unpacks for a day
        archive.write_bytes(packed())
        resolve(archive)
        assert left not in cached(cache) and len(cached(cache)) == 2

    def test_at_once(self, cache, archive, monkeypatch):
        unpack, together = CODE.unpack, threading.Barrier(3, timeout=60)

        def unpack_together(*arguments):
            unpack(*arguments)
            together.wait()

        monkeypatch.setattr(CODE, "unpack", unpack_together)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            folders = set(pool.map(resolve, [archive] * 3))
        assert len(folders) == 1 and len(cached(cache)) == 1
        assert files_of(contents(folders.pop())) == MODULE

    def test_cache_cannot_be_written(self, cache, archive):
        cache.write_bytes(b"a file")
        with pytest.raises(OSError, match=f"^the cache {cache} cannot be written .*TFHUB_CACHE"):
            resolve(archive)

    def test_emptied_cache(self, cache, archive):
        folder = resolve(archive)
        os.unlink(os.path.join(folder, "saved_model.pb"))
        with pytest.raises(FileNotFoundError, match="is cached in .*; delete that folder"):
            resolve(archive)


class _Server(http.server.BaseHTTPRequestHandler):
    pages, asked = {}, []

    def do_GET(self):
        place = urllib.parse.urlparse(self.path)
        self.asked.append((place.path, urllib.parse.parse_qs(place.query)))
        status, content, length = self.pages.get(place.path, (404, b"<html>", 6))
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """Serves what is put into `pages` by `put`; gives its address."""
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    _Server.pages, _Server.asked = {}, []
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def put(content, path="/m", status=200, length=None):
    _Server.pages[path] = (status, content, len(content) if length is None else length)


class TestAddress:
    @pytest.mark.parametrize("zipped", [False, True])
    def test_fetched_once(self, server, cache, zipped):
        put(packed(prefix="module/", zipped=zipped))
        folder = resolve(f"{server}/m")
        assert files_of(contents(folder)) == MODULE and folder.endswith("/module")
        assert _Server.asked == [("/m", {"tf-hub-format": ["compressed"]})]
        assert resolve(f"{server}/m") == folder and len(_Server.asked) == 1
        assert not [name for name in cached(cache) if name.endswith((".tmp", ".lock"))]

    def test_one_cache_with_tensorflow_hub(self, server):
        put(packed({"saved_model.pb": b"1"}, zipped=True), "/ours")
        put(packed({"saved_model.pb": b"1"}, zipped=True), "/theirs")
        ours = resolve(f"{server}/ours")
        assert tensorflow_hub.resolve(f"{server}/ours") == ours
        theirs = tensorflow_hub.resolve(f"{server}/theirs")
        assert resolve(f"{server}/theirs") == theirs and len(_Server.asked) == 2

    @pytest.mark.parametrize(
        "content, says",
        [
            (b"<!DOCTYPE html>" * 99, "is neither a tar nor"),
            (packed(more=member("../../evil", b"1"), zipped=True), "a path that leads out"),
            (packed(more=member("x", kind=tarfile.SYMTYPE, link="/etc")), "a symbolic link"),
            (packed({"x": b"1"}), "holds no SavedModel"),
        ],
    )
    def test_bad_archive(self, server, cache, tmp_path, content, says):
        put(content)
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=f"^{server}/m .*{says}"):
            resolve(f"{server}/m")
        assert cached(cache) == []
        cache.rmdir()
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("zipped", [False, True])
    def test_cut_off(self, server, cache, zipped):
        whole = packed(zipped=zipped)
        for length in (len(whole), 512):  # as announced, and as the server has it
            put(whole[:512], length=length)
            with pytest.raises((ValueError, OSError), match=f"^{server}/m "):
                resolve(f"{server}/m")
        assert cached(cache) == []
        put(whole)
        assert files_of(contents(resolve(f"{server}/m"))) == MODULE

    def test_not_there(self, server, cache):
        put(b"", "/broken", status=500)
        for path, status in (("/none", 404), ("/broken", 500)):
            with pytest.raises(OSError, match=f"^{server}{path} could not be fetched.* {status}"):
                resolve(server + path)
        assert cached(cache) == []

    def test_nobody_there(self, server, cache):
        _, port = server.rsplit(":", 1)
        address = f"http://127.0.0.1:{1 if port != '1' else 2}/m"
        with pytest.raises(OSError, match=f"^{address} could not be fetched .*refused"):
            resolve(address)
        for bad in ("http://", "http://127.0.0.1:x/m", "https://[::1/m", "http://127.0.0.1/ x"):
            with pytest.raises(OSError, match="could not be fetched") as caught:
                resolve(bad)
            assert "\n" not in str(caught.value)
        assert cached(cache) == []

    def test_cloud_storage(self, cache, tmp_path, monkeypatch, archive):
        opened, GFile = [], tf.io.gfile.GFile

        def local(name, mode="r"):
            if name.startswith("gs://"):
                opened.append(name)
                name = str(archive)
            return GFile(name, mode)

        monkeypatch.setattr(tf.io.gfile, "GFile", local)
        for _ in range(2):
            assert files_of(contents(resolve("gs://bucket/m.tar.gz"))) == MODULE
        assert opened == ["gs://bucket/m.tar.gz"]

    def test_cache_cannot_be_written(self, server, cache):
        cache.write_bytes(b"a file")
        with pytest.raises(OSError, match=f"could not be written to the cache {cache} "):
            resolve(f"{server}/m")

    def test_disk_full(self, server, cache, monkeypatch):
        put(packed())
        monkeypatch.setattr("tfnlp.hub.loading.downloads._ROOM", 1 << 62)
        with pytest.raises(OSError, match="could not be fetched .the disk has"):
            resolve(f"{server}/m")
        assert cached(cache) == []

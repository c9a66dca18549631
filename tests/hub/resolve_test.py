"""Folders, archives and URLs of one tiny SavedModel."""

import concurrent.futures
import http.client
import io
import os
import pathlib
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import tensorflow as tf
import tensorflow_hub

from tests.hub.archives_test import MODULE, member, packed, zip_file
from tests.published.hub_server import files_in
from tfnlp.hub.loading import downloads
from tfnlp.hub.loading.saved_model import resolve


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


def module_files(folder):
    return files_in(pathlib.Path(folder))


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "home" / "m").mkdir(parents=True)
        (tmp_path / "home" / "m" / "saved_model.pb").write_bytes(b"1")
        return tmp_path / "home" / "m"

    def test_forms(self, folder, monkeypatch):
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.chdir(folder.parent)
        for handle in (folder, str(folder), f"{folder}/", "~/m", "m", "./m/"):
            assert resolve(handle) == str(folder)
        renamed = folder.rename(folder.parent / "m.tgz")
        (renamed / "saved_model.pb").rename(renamed / "saved_model.pbtxt")
        assert resolve(renamed) == str(renamed)
        assert resolve("gs://bucket/m") == "gs://bucket/m"

    def test_none_in_it(self, folder):
        (folder / "saved_model.pb").unlink()
        with pytest.raises(FileNotFoundError, match="m is not a SavedModel: it has no saved_model"):
            resolve(folder)


@pytest.mark.parametrize(
    "handle, error",
    [
        (3, ValueError),
        ("/no/such.tar.gz", FileNotFoundError),
        ("no\0\nsuch", FileNotFoundError),
        (__file__, ValueError),
        ("ftp://x/m.tgz", ValueError),
    ],
)
def test_not_a_handle(handle, error):
    with pytest.raises(error, match="SavedModel") as caught:
        resolve(handle)
    assert repr(handle)[1:-1] in str(caught.value) and "\n" not in str(caught.value)


class TestArchive:
    @pytest.mark.parametrize("suffix", [".tar", ".TGZ", ".zip"])
    def test_unpacked_once(self, tmp_path, cache, monkeypatch, suffix):
        path, prefix = tmp_path / f"it{suffix}", "module/" if suffix == ".tar" else ""
        content = packed(prefix=prefix, zipped="g" in suffix.lower())
        path.write_bytes(zip_file() if suffix == ".zip" else content)
        folder = resolve(path)
        assert module_files(folder) == MODULE
        assert len(cached(cache)) == 1 and folder.startswith(str(cache))
        monkeypatch.setattr(downloads, "unpack", None)
        assert resolve(str(path)) == folder

    def test_by_content(self, cache, archive):
        stamp, first = os.stat(archive), resolve(archive)
        other = packed({**MODULE, "saved_model.pb": b"hparg" * 400}, "module/", zipped=True)
        archive.write_bytes(other)
        os.utime(archive, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert module_files(resolve(archive))["saved_model.pb"] == b"hparg" * 400
        assert module_files(first) == MODULE and len(cached(cache)) == 2

    @pytest.mark.parametrize(
        "content",
        [
            packed(more=member("../../evil", b"1")),
            packed({"x": b""}),
            packed({f"{k}/saved_model.pb": b"" for k in "ab"}),
        ],
    )  # fmt: skip
    def test_nothing_stays_of_a_bad_one(self, tmp_path, cache, content):
        path = tmp_path / "it.tar"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{path} "):
            resolve(path)
        assert cached(cache) == [] and list(files_in(tmp_path)) == ["it.tar"]

    def test_killed_and_interrupted(self, cache, archive, monkeypatch):
        def broken(_, folder, name):
            (pathlib.Path(folder) / "saved_model.pb").write_bytes(b"half")
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(downloads, "unpack", broken)
            resolve(archive)
        assert cached(cache) == []
        recent, old = (cache / f"{'a' * 64}.{x * 8}.tmp" for x in "bc")
        for partial in (recent, old):  # of killed processes
            partial.mkdir()
            (partial / "saved_model.pb").write_bytes(b"half")
        os.utime(old, (0, 0))  # no process unpacks for a day
        assert module_files(resolve(archive)) == MODULE
        assert recent.exists() and not old.exists() and len(cached(cache)) == 2

    def test_at_once(self, cache, archive, monkeypatch):
        unpack, together = downloads.unpack, threading.Barrier(3, timeout=60)

        def unpack_together(*arguments):
            unpack(*arguments)
            together.wait()

        monkeypatch.setattr(downloads, "unpack", unpack_together)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            folders = set(pool.map(resolve, [archive] * 3))
        assert len(folders) == 1 and len(cached(cache)) == 1
        assert module_files(folders.pop()) == MODULE

    def test_the_cache_is_told(self, cache, archive, monkeypatch):
        os.unlink(os.path.join(resolve(archive), "saved_model.pb"))
        with pytest.raises(FileNotFoundError, match="is cached in"):
            resolve(archive)
        monkeypatch.setenv("TFHUB_CACHE_DIR", str(archive))  # a file
        with pytest.raises(OSError, match=f"^the cache {archive} .*TFHUB_CACHE_DIR"):
            resolve(archive)
        monkeypatch.setenv("TFHUB_CACHE_DIR", "gs://bucket/cache")
        with pytest.raises(ValueError, match="TFHUB_CACHE_DIR=gs://bucket/cache"):
            resolve(archive)


class Web:
    """Pages in place of the network: `put` a page, `url` is its address, `asked` the requests."""

    url = "http://host"

    def __init__(self):
        self.pages, self.asked = {}, []

    def put(self, content, path="/m", error=None):
        self.pages[path] = content, error

    def open(self, request, **_):
        address = urllib.parse.urlparse(request.full_url)
        self.asked.append((address.path, urllib.parse.parse_qs(address.query)))
        if address.path not in self.pages:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", {}, None)
        return Response(*self.pages[address.path])


class Response(io.BytesIO):
    """A response that may end with an error after its content."""

    def __init__(self, content, error):
        super().__init__(content)
        self.error = error

    def read(self, size=-1):
        data = super().read(size)
        if not data and self.error is not None:
            raise self.error
        return data


@pytest.fixture
def web(monkeypatch):
    web = Web()
    monkeypatch.setattr(urllib.request, "urlopen", web.open)
    return web


class TestAddress:
    def test_fetched_once(self, web, cache):
        web.put(packed(prefix="module/", zipped=True))
        folder = resolve(f"{web.url}/m?a=b")
        assert module_files(folder) == MODULE and folder.endswith("/module")
        assert web.asked == [("/m", {"a": ["b"], "tf-hub-format": ["compressed"]})]
        assert resolve(f"{web.url}/m?a=b") == folder and len(web.asked) == 1

    def test_one_cache_with_tensorflow_hub(self, web):
        web.put(packed({"saved_model.pb": b"1"}, zipped=True), "/ours")
        web.put(packed({"saved_model.pb": b"1"}, zipped=True), "/theirs")
        ours = resolve(f"{web.url}/ours")
        assert tensorflow_hub.resolve(f"{web.url}/ours") == ours
        theirs = tensorflow_hub.resolve(f"{web.url}/theirs")
        assert resolve(f"{web.url}/theirs") == theirs and len(web.asked) == 2

    def test_bad_archives_and_lost_connections(self, web, cache, tmp_path):
        whole = packed(zipped=True)
        for content, error in (
            (b"<!DOCTYPE html>" * 99, None),
            (whole[:512], None),
            (packed()[:2560], None),  # between two files
            (whole, http.client.IncompleteRead(b"", 99)),
            (whole, TimeoutError("timed out")),
        ):
            web.put(content, error=error)
            with pytest.raises((ValueError, OSError), match=f"^{web.url}/m "):
                resolve(f"{web.url}/m")
            assert cached(cache) == [] and not files_in(tmp_path)
        web.put(whole)
        assert module_files(resolve(f"{web.url}/m")) == MODULE

    def test_not_there(self, web, cache, monkeypatch):
        with pytest.raises(OSError, match=f"^{web.url}/none could not be downloaded.* 404"):
            resolve(f"{web.url}/none")
        monkeypatch.undo()
        monkeypatch.setenv("TFHUB_CACHE_DIR", str(cache))
        with pytest.raises(OSError, match="could not be downloaded"):
            resolve("http://127.0.0.1:x/m")
        assert cached(cache) == []

    def test_cloud_storage(self, monkeypatch, archive):
        opened, GFile = [], tf.io.gfile.GFile

        def local(name, mode="r"):
            opened.append(name)
            return GFile(str(archive), mode)

        monkeypatch.setattr(tf.io.gfile, "GFile", local)
        for _ in range(2):
            assert module_files(resolve("gs://bucket/m.tar.gz")) == MODULE
        assert opened == ["gs://bucket/m.tar.gz"]

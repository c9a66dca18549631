"""Folders, archives and URLs of one tiny SavedModel."""

import concurrent.futures
import http.client
import io
import os
import pathlib
import sys
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request

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
        ("ftp://x/m.tgz", ValueError, "^ftp://x/m.tgz cannot be downloaded; expected"),
        ("http://x/\nm", ValueError, r"^'http://x/\\nm' cannot be downloaded"),
        ("HTTP://x/m.tgz", ValueError, "cannot be downloaded; expected a URL that begins with"),
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

    def test_partial_folders_of_killed_processes(self, cache, archive):
        folder = resolve(archive)
        recent, old = (cache / f"{'a' * 64}.{x * 8}.tmp" for x in "bc")
        for partial in (recent, old):
            partial.mkdir()
            (partial / "saved_model.pb").write_bytes(b"half")
        os.utime(old, (0, 0))  # no process unpacks for a day
        archive.write_bytes(packed())
        assert resolve(archive) != folder
        assert recent.exists() and not old.exists() and len(cached(cache)) == 3

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
    @pytest.mark.parametrize("zipped", [False, True])
    def test_fetched_once(self, web, cache, zipped):
        web.put(packed(prefix="module/", zipped=zipped))
        folder = resolve(f"{web.url}/m")
        assert files_of(contents(folder)) == MODULE and folder.endswith("/module")
        assert web.asked == [("/m", {"tf-hub-format": ["compressed"]})]
        assert resolve(f"{web.url}/m") == folder and len(web.asked) == 1
        assert not [name for name in cached(cache) if name.endswith((".tmp", ".lock"))]

    def test_one_cache_with_tensorflow_hub(self, web):
        web.put(packed({"saved_model.pb": b"1"}, zipped=True), "/ours")
        web.put(packed({"saved_model.pb": b"1"}, zipped=True), "/theirs")
        ours = resolve(f"{web.url}/ours")
        assert tensorflow_hub.resolve(f"{web.url}/ours") == ours
        theirs = tensorflow_hub.resolve(f"{web.url}/theirs")
        assert resolve(f"{web.url}/theirs") == theirs and len(web.asked) == 2

    @pytest.mark.parametrize(
        "content, says",
        [
            (b"<!DOCTYPE html>" * 99, "is neither a tar nor"),
            (packed(more=member("../../evil", b"1"), zipped=True), "a path that leads out"),
            (packed(more=member("x", kind=tarfile.SYMTYPE, link="/etc")), "a symbolic link"),
            (packed({"x": b"1"}), "holds no SavedModel"),
        ],
    )
    def test_bad_archive(self, web, cache, tmp_path, content, says):
        web.put(content)
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=f"^{web.url}/m .*{says}"):
            resolve(f"{web.url}/m")
        assert cached(cache) == []
        cache.rmdir()
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("zipped", [False, True])
    def test_cut_off(self, web, cache, zipped):
        whole = packed(zipped=zipped)
        for error in (None, http.client.IncompleteRead(b"", 99), TimeoutError("timed out")):
            web.put(whole[:512], error=error)
            with pytest.raises((ValueError, OSError), match=f"^{web.url}/m "):
                resolve(f"{web.url}/m")
        assert cached(cache) == []
        web.put(whole)
        assert files_of(contents(resolve(f"{web.url}/m"))) == MODULE

    def test_not_there(self, web, cache):
        with pytest.raises(OSError, match=f"^{web.url}/none could not be downloaded.* 404"):
            resolve(f"{web.url}/none")
        assert cached(cache) == []

    @pytest.mark.parametrize("url", ["http://", "http://127.0.0.1:x/m", "https://[::1/m"])
    def test_bad_urls(self, cache, url):
        with pytest.raises(OSError, match="could not be downloaded") as caught:
            resolve(url)
        assert "\n" not in str(caught.value) and cached(cache) == []

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

    def test_cache_cannot_be_written(self, web, cache):
        cache.write_bytes(b"a file")
        with pytest.raises(OSError, match=f"could not be written to the cache {cache} "):
            resolve(f"{web.url}/m")

    def test_disk_full(self, web, cache, monkeypatch):
        web.put(packed())
        monkeypatch.setattr("tfnlp.hub.loading.downloads._FREE", 1 << 62)
        with pytest.raises(OSError, match="could not be downloaded .only .* bytes of disk"):
            resolve(f"{web.url}/m")
        assert cached(cache) == []

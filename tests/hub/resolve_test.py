"""Folders, archives and URLs of one tiny SavedModel; archives that were packed to do harm."""

import concurrent.futures
import gzip
import http.client
import io
import os
import pathlib
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
import zipfile

import pytest
import tensorflow as tf
import tensorflow_hub

from tests.published.hub_server import files_in
from tfnlp.hub.loading import downloads
from tfnlp.hub.loading.saved_model import resolve

MODULE = {
    "saved_model.pb": b"graph" * 400, "variables/variables.index": b"i" * 512,
    "variables/variables.data-00000-of-00001": bytes(range(256)) * 9, "assets/vocab.txt": b"",
}  # fmt: skip


def member(name, data=b"", kind=tarfile.REGTYPE, size=None, link="", form=tarfile.PAX_FORMAT):
    """The blocks of one member, of which the header may lie about the size."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if size is None else size
    return info.tobuf(form) + data + bytes(-len(data) % 512)


def packed(files=MODULE, prefix="", zipped=False, more=b""):
    """A tar file, or a gzipped one, with the blocks `more` at its end."""
    whole = b"".join(member(prefix + name, data) for name, data in files.items())
    whole += more + bytes(1024)
    return gzip.compress(whole, 1, mtime=0) if zipped else whole


def zip_file(files=MODULE, prefix=""):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(prefix + name, data)
    return content.getvalue()


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
        path, prefix = tmp_path / f"it{suffix}", "a/./b//c/" if suffix == ".tar" else ""
        content = packed(prefix=prefix, zipped="g" in suffix.lower())
        path.write_bytes(zip_file(prefix="a/b/") if suffix == ".zip" else content)
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
            (whole[:512], None),
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


# --- Archives that were packed badly or to do harm: nothing is written outside of the target


def unpack(content, folder):
    os.makedirs(folder)
    downloads.unpack(io.BytesIO(content), str(folder), "it.tgz")
    return files_in(folder)


@pytest.mark.parametrize(
    "content",
    [
        packed(more=member("../evil", b"1")),
        packed(more=member("x/../../evil", b"1"), zipped=True),
        packed(more=member("x", kind=tarfile.SYMTYPE, link="/etc") + member("x/evil", b"1")),
        packed(more=member("x", kind=tarfile.LNKTYPE, link="../secret")),
        packed(more=member("x", kind=tarfile.FIFOTYPE)),
        packed(more=member("x", size=-512, form=tarfile.GNU_FORMAT)),
        packed(more=b"garbage " * 64),
        zip_file({"../evil": b"1"}),
        zip_file({"/evil": b"1"}),
        b"",
        b"<!DOCTYPE html>" * 99,
    ],
    ids=range(11),
)
def test_refused(tmp_path, content):
    (tmp_path / "secret").write_bytes(b"secret")
    with pytest.raises(ValueError, match="^it.tgz can't be unpacked") as error:
        unpack(content, tmp_path / "a" / "m")
    assert "\n" not in str(error.value)
    outside = {name for name in files_in(tmp_path) if not name.startswith("a/m/")}
    assert outside == {"secret"} and not any(path.is_symlink() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_cut_off_anywhere(tmp_path, kind):
    content = zip_file() if kind == "zip" else packed(zipped=kind != "tar")
    # A tar file ends with two empty blocks, of which one is enough.
    ends = range(0, len(content) - (512 if kind == "tar" else 0), 256 if kind == "tar" else 23)
    for length in ends:
        with pytest.raises(ValueError, match="it.tgz can't be unpacked"):
            unpack(content[:length], tmp_path / str(length))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_size_and_number_are_limited(tmp_path, monkeypatch, kind):
    def made(files):
        return zip_file(files) if kind == "zip" else packed(files, zipped=kind != "tar")

    files = {**MODULE, "x": bytes(1 << 20)}
    content = made(files)
    monkeypatch.setattr(downloads, "ANY_SIZE", 1 << 10)
    if kind == "tar":  # which is as large as what is in it
        assert unpack(content, tmp_path / "m") == files
        huge = member("x", kind=tarfile.XHDTYPE, size=1 << 40, form=tarfile.GNU_FORMAT)
        content = packed(more=huge)  # a header of a terabyte
    with pytest.raises(ValueError, match="it.tgz can't be unpacked"):
        unpack(content, tmp_path / "large")
    monkeypatch.setattr(downloads, "MAX_RATIO", 1 << 20)
    monkeypatch.setattr(downloads, "MAX_MEMBERS", 4)
    assert unpack(made(MODULE), tmp_path / "four") == MODULE
    with pytest.raises(ValueError, match="over 4 members"):
        unpack(made({**MODULE, "y": b""}), tmp_path / "five")

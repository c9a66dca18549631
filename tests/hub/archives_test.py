"""Archives that were packed badly or to do harm: nothing is written outside of the target."""

import gzip
import io
import os
import tarfile
import zipfile

import pytest

from tests.published.hub_server import files_in
from tfnlp.hub.loading import downloads

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


def unpack(content, folder):
    os.makedirs(folder)
    downloads.unpack(io.BytesIO(content), str(folder), "it.tgz")
    return files_in(folder)


@pytest.mark.parametrize("prefix", ["", "a/./b//c/"])
@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_good(tmp_path, kind, prefix):
    content = zip_file(MODULE, prefix) if kind == "zip" else packed(MODULE, prefix, kind != "tar")
    found = unpack(content, tmp_path / "m")
    assert found == {os.path.normpath(prefix + name): data for name, data in MODULE.items()}


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
    files = {**MODULE, "x": bytes(1 << 20)}
    content = zip_file(files) if kind == "zip" else packed(files, zipped=kind != "tar")
    monkeypatch.setattr(downloads, "ANY_SIZE", 1 << 10)
    if kind == "tar":  # which is as large as what is in it
        assert unpack(content, tmp_path / "m") == files
        huge = member("x", kind=tarfile.XHDTYPE, size=1 << 40, form=tarfile.GNU_FORMAT)
        content = packed(more=huge)  # a header of a terabyte
    with pytest.raises(ValueError, match="it.tgz can't be unpacked"):
        unpack(content, tmp_path / "large")
    monkeypatch.setattr(downloads, "MAX_RATIO", 1 << 20)
    if kind != "tar":
        assert unpack(content, tmp_path / "m") == files
    monkeypatch.setattr(downloads, "MAX_MEMBERS", 4)
    for some in (MODULE, {**MODULE, "y": b""}):
        content = zip_file(some) if kind == "zip" else packed(some, zipped=kind != "tar")
        folder = tmp_path / str(len(some))
        if some is MODULE:
            assert unpack(content, folder) == MODULE
        else:
            with pytest.raises(ValueError, match="over 4 members"):
                unpack(content, folder)

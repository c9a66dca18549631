"""Archives that were packed badly or to do harm: nothing is written outside of the target."""

import contextlib
import gzip
import io
import os
import random
import shutil
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfnlp.hub.loading import archives

MODULE = {
    "saved_model.pb": b"graph" * 400, "variables/variables.index": b"i" * 512,
    "variables/variables.data-00000-of-00001": bytes(range(256)) * 9, "assets/vocab.txt": b"",
}  # fmt: skip
FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE)
FUZZ = settings(
    deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def member(name, data=b"", kind=tarfile.REGTYPE, size=None, link="", form=tarfile.PAX_FORMAT):
    """The blocks of one member, of which the header may lie about the size."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if size is None else size
    return info.tobuf(form, errors="surrogateescape") + data + bytes(-len(data) % 512)


def record(text):
    length = len(text) + 2  # of the blank and the newline, and of its own digits
    return b"%d %s\n" % (length + (2 if length > 8 else 1), text)


def packed(files=MODULE, prefix="", form=tarfile.PAX_FORMAT, zipped=False, more=b""):
    blocks = b"".join(member(prefix + name, data, form=form) for name, data in files.items())
    whole = blocks + more + bytes(1024)
    return gzip.compress(whole, 1, mtime=0) if zipped else whole


def unpack(content, folder):
    os.makedirs(folder)
    archives.unpack(io.BytesIO(content), str(folder), "it.tgz")
    return contents(folder)


def contents(folder):
    """Everything below a folder: bytes of files, None for folders, targets of links."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(place, name)
            value = os.readlink(path) if os.path.islink(path) else None
            if not os.path.islink(path) and os.path.isfile(path):
                with open(path, "rb") as file:
                    value = file.read()
            found[os.path.relpath(path, folder)] = value
    return found


def files_of(found):
    return {name: data for name, data in found.items() if data is not None}


@contextlib.contextmanager
def sandbox(tmp_path):
    """A target with neighbours that must stay as they are; only documented errors come out."""
    place = tmp_path / str(len(os.listdir(tmp_path)))
    (place / "a" / "b").mkdir(parents=True)
    (place / "secret").write_bytes(b"secret")
    (place / "a" / "saved_model.pb").write_bytes(b"neighbour")
    before = contents(place)
    target = place / "a" / "b" / "target"
    try:
        yield target
    except (ValueError, OSError) as error:
        assert str(error).startswith("it.tgz ") and "\n" not in str(error), repr(error)
    shutil.rmtree(target)
    assert contents(place) == before
    shutil.rmtree(place)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("prefix", ["", "./", "module/", "a/./b//c/"])
@pytest.mark.parametrize("form", FORMATS)
def test_good(tmp_path, form, prefix, zipped):
    found = unpack(packed(MODULE, prefix, form, zipped), tmp_path / "m")
    at = os.path.normpath(prefix) if prefix else "."
    assert files_of(found) == {os.path.normpath(f"{at}/{k}"): v for k, v in MODULE.items()}


@pytest.mark.parametrize("form", FORMATS[1:])
def test_long_names_and_listed_folders(tmp_path, form):
    files = {**MODULE, f"assets/{'ü' * 60}/{'x' * 120}": b"1", "assets/" + "y" * 250: b"2"}
    folders = b"".join(member(f, kind=tarfile.DIRTYPE, form=form) for f in ("./", "assets/"))
    content = folders + packed(files, form=form, more=member("empty", kind=tarfile.DIRTYPE))
    found = unpack(content, tmp_path / "m")
    assert files_of(found) == files and found["empty"] is None and "empty" in found


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    "more, says",
    [
        (member("/etc/evil", b"1"), "an absolute path"),
        (member("C:evil", b"1"), "an absolute path"),
        (member("../evil", b"1"), "leads out"),
        (member("x/../../evil", b"1"), "leads out"),
        (member("..", kind=tarfile.DIRTYPE), "leads out"),
        (member("x\\..\\evil", b"1"), "backslash"),
        (member("x\udcff", b"1", form=tarfile.GNU_FORMAT), "not UTF-8"),
        (member("x", kind=tarfile.SYMTYPE, link="/etc"), "a symbolic link"),
        (member("x", kind=tarfile.SYMTYPE, link="saved_model.pb"), "a symbolic link"),
        (member("x", kind=tarfile.LNKTYPE, link="saved_model.pb"), "a hard link"),
        (member("x", kind=tarfile.FIFOTYPE), "a fifo"),
        (member("x", kind=tarfile.CHRTYPE), "a device"),
        (member("x", kind=tarfile.BLKTYPE), "a device"),
        (member("x", kind=tarfile.GNUTYPE_SPARSE), "sparse"),
        (member("x", kind=b"Q"), "unknown"),
        (member("x" * 5000, b"1") + member("x" * 5000, b"2"), "lists 'x{9,99}[.]{3}x{9,99}' twice"),
        (member("../" + "x" * 5000, b"1"), "holds '../x{9,99}[.]{3}x{9,99}', a path"),
        (member("saved_model.pb", b"2"), "'saved_model.pb' twice"),
        (member("./saved_model.pb", b"2"), "'saved_model.pb' twice"),
        (member("variables", b"2"), "'variables' twice"),
        (member("saved_model.pb/x", b"2"), "both as a file and as a folder"),
        (member("./", b"2", kind=b"0"), "named '.*'"),
        (member("p", record(b"path=../evil"), tarfile.XHDTYPE) + member("x", b"1"), "leads out"),
        (member("p", record(b"size=-512"), tarfile.XHDTYPE) + member("x", b"1"), "damaged"),
        (member("L", b"../evil\0", tarfile.GNUTYPE_LONGNAME) + member("x", b"1"), "leads out"),
        (member("x", b"12", size=5000), "cut off"),
        (member("x", size=-512, form=tarfile.GNU_FORMAT), "damaged"),
        (member("x", kind=tarfile.XHDTYPE, size=1 << 40, form=tarfile.GNU_FORMAT), "damaged"),
        (member("x", kind=tarfile.GNUTYPE_LONGNAME, size=1 << 33, form=1), "damaged"),
        (b"garbage " * 64, "its end is not marked"),
    ],
)
def test_refused(tmp_path, more, says, zipped):
    with sandbox(tmp_path) as target:
        with pytest.raises(ValueError, match=f"^it.tgz .*{says}.*; pack or download it again$"):
            unpack(packed(more=more, zipped=zipped), target)
        assert contents(target) == {}  # seen before anything was written


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "empty file"),
        (bytes(10240), "holds no SavedModel"),
        (gzip.compress(b""), "empty file"),
        (packed({"x/y": b"1"}), "holds no SavedModel: there is no saved_model.pb in it"),
        (b"<!DOCTYPE html>" * 99, "neither a tar nor a gzipped tar file: .* b'<!DOCTYP'"),
        (b"BZh91AY&SY" * 99, "neither a tar"),
        (gzip.compress(b"PK" * 999), "cut off or damaged"),
        (packed({"b/saved_model.pb": b"", "a/x/saved_model.pbtxt": b""}), "2 Saved.*'a/x' and 'b'"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",  # gzip writes the time
)
def test_no_archive_of_a_module(tmp_path, content, says):
    with sandbox(tmp_path) as target, pytest.raises(ValueError, match=says):
        unpack(content, target)


def test_outermost():
    assert archives.outermost(["saved_model.pb", "x/saved_model.pb"]) == ""
    assert archives.outermost(["m/y", "m/saved_model.pb", "m/x/saved_model.pb"]) == "m"
    with pytest.raises(ValueError, match="'m' and 'mm'"):
        archives.outermost(["m/saved_model.pb", "mm/saved_model.pb"])


def test_cut_off_anywhere(tmp_path):
    for zipped, step in ((False, 256), (True, 7)):
        content = packed(zipped=zipped)
        # A tar file ends with two empty blocks, of which one is enough.
        for length in range(0, len(content) - (0 if zipped else 512), step):
            with sandbox(tmp_path) as target, pytest.raises(ValueError):
                unpack(content[:length], target)


class TestBombs:
    def refused(self, tmp_path, content, error, says):
        with sandbox(tmp_path) as target:
            with pytest.raises(error, match=says):
                unpack(content, target)
            assert contents(target) == {}

    def test_larger_than_the_disk(self, tmp_path, monkeypatch):
        huge = member("x", size=1 << 60, form=tarfile.GNU_FORMAT)
        self.refused(tmp_path, packed(more=huge), ValueError, "would grow")
        monkeypatch.setattr(archives, "ANY_RATIO", 1 << 62)
        self.refused(tmp_path, packed(more=huge), OSError, "needs over .* free")
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4000))
        self.refused(tmp_path, packed(), OSError, "needs over .* has 4000 free$")

    def test_ratio(self, tmp_path, monkeypatch):
        files = {**MODULE, "x": bytes(3 << 20)}
        assert files_of(unpack(packed(files, zipped=True), tmp_path / "small")) == files
        monkeypatch.setattr(archives, "ANY_RATIO", 1 << 20)
        self.refused(tmp_path, packed(files, zipped=True), ValueError, "would grow from")
        assert files_of(unpack(packed(files), tmp_path / "plain")) == files

    def test_members(self, tmp_path, monkeypatch):
        monkeypatch.setattr(archives, "MAX_MEMBERS", 40)
        more = b"".join(member(f"x/{k}") for k in range(37))
        self.refused(tmp_path, packed(more=more, zipped=True), ValueError, "over 40 members")
        assert len(files_of(unpack(packed(more=more[512:]), tmp_path / "m"))) == 40

    def test_headers(self, tmp_path, monkeypatch):
        chain = member("x", b"5 a=\n", tarfile.XHDTYPE) * 200
        self.refused(tmp_path, packed(more=chain), ValueError, "header or padding of over")
        monkeypatch.setattr(archives, "MAX_HEADERS", 1024)
        self.refused(tmp_path, packed(), ValueError, "1024 bytes of headers")

    def test_padding(self, tmp_path):
        more = bytes(archives.MAX_TRAILER + 2048)
        self.refused(tmp_path, packed(more=more, zipped=True), ValueError, "padding of over")
        assert files_of(unpack(packed(more=more[4096:], zipped=True), tmp_path / "m")) == MODULE


PARTS = ["a", "b", "x", "..", ".", "", "saved_model.pb", "target", "C:", "a\\b", "\udcfe", "\n"]
NAMES = st.builds(
    lambda root, parts: root + "/".join(parts),
    st.sampled_from(["", "", "", "/", "./", "../"]),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=5),
)
KINDS = [
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, *LINKS, tarfile.FIFOTYPE, tarfile.CHRTYPE,
    tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, b"\xff",
]  # fmt: skip
PAX = st.sampled_from(
    [b"9999999999 x=\n", b"5 \xff=\n", b"19 path=../../evil"]
    + [
        record(text) for text in (
            b"path=../../evil", b"size=-1024", b"size=999", b"x=\xff\xfe", b"linkpath=/etc/passwd",
            b"GNU.sparse.major=1", b"GNU.sparse.minor=0", b"GNU.sparse.map=0,1,2,3",
            b"GNU.sparse.name=../out", b"GNU.sparse.realsize=10000", b"GNU.sparse.size=5",
        )
    ]
)  # fmt: skip


@st.composite
def members(draw):
    kind = draw(st.sampled_from(KINDS[:3] * 3 + KINDS))
    data = draw(st.binary(max_size=600))
    if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE):
        data = b"".join(draw(st.lists(PAX, max_size=4)))
    elif kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
        data = draw(NAMES).encode(errors="surrogateescape") + b"\0"
    sizes = st.sampled_from([None] * 6 + [-1, -512, 0, 511, 4096, 1 << 40, 1 << 70])
    size = draw(sizes)
    return member(draw(NAMES), data, kind, size, draw(NAMES), draw(st.sampled_from(FORMATS[1:])))


@settings(FUZZ, max_examples=300)
@given(st.lists(members(), max_size=6), st.booleans(), st.integers(0, 3))
def test_random_members(tmp_path, more, zipped, tail):
    content = member("saved_model.pb", b"1") + b"".join(more) + bytes(512 * tail)
    with sandbox(tmp_path) as target:
        found = unpack(gzip.compress(content, 1) if zipped else content, target)
        assert found["saved_model.pb"] == b"1" and tail
        assert not any(os.path.islink(target / name) for name in found)


def edited(content, seed, edits):
    rng, content = random.Random(seed), bytearray(content)
    for _ in range(edits):
        at, length = rng.randrange(len(content)), rng.choice([1, 1, 2, 8, 40])
        kind = rng.randrange(4)
        if kind == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            content[at : at + length] = rng.randbytes(len(content[at : at + length]))
        elif kind == 2:
            content[at:at] = content[at : at + length]
        else:
            del content[at : at + length]
    return bytes(content)


@settings(FUZZ, max_examples=250)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.booleans())
def test_edited_headers(tmp_path, seed, edits, sign):
    """With the checksum of the header made right again, so that the edit is looked at."""
    content, at = packed(form=random.Random(seed).choice(FORMATS)), 0
    rng = random.Random(seed + 1)
    headers = []
    for data in MODULE.values():
        headers.append(at)
        at += 512 + len(data) + -len(data) % 512
    at = rng.choice(headers)
    header = bytearray((edited(content[at : at + 512], seed, edits) + bytes(512))[:512])
    if sign:
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
    with sandbox(tmp_path) as target:
        unpack(content[:at] + bytes(header) + content[at + 512 :], target)

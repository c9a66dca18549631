"""An index whose files are right by their checksums and wrong by what is in them."""

import json
import types

import numpy as np
import pytest

from tfnlp.checksums import checksums
from tfnlp.runs.search_index import GRAPH, INDEX, STARTS, TEXTS, VECTORS, Index, write_index

DRAW = np.random.default_rng(0)
_VECTORS = DRAW.normal(size=(9, 4)).astype("float32")
_VECTORS /= np.linalg.norm(_VECTORS, axis=1, keepdims=True)
_TEXTS = [f"text {n} é" for n in range(9)]
EMBED = {"pooling": None, "layer": -1, "max_length": None, "normalize": True}


def write(folder, vectors=_VECTORS, texts=_TEXTS, approximate=False):
    folder.mkdir()
    write_index(str(folder), [vectors], texts, {"model": "m", "embed": EMBED}, approximate)
    return folder


def opened(folder):
    """The index, whose model gives each query the vector that it names."""
    index = Index(folder)
    family = types.SimpleNamespace(
        embedded=lambda model, texts, settings: np.array([json.loads(t) for t in texts], "float32")
    )
    index.model = types.SimpleNamespace(family=family)
    return index


def search(index, vector, **settings):
    return index.search(json.dumps(np.asarray(vector).tolist()), **settings)


def damage(folder, name, content=None, **settings):
    """Change a file of an index, or its settings, and make its checksums right again."""
    if content is not None:
        with open(folder / name, "wb") as file:
            file.write(content) if isinstance(content, bytes) else np.save(file, content)
    stated = json.loads((folder / INDEX).read_text())
    names = [path.name for path in folder.iterdir() if path.name != INDEX]
    stated = {**stated, "files": checksums(str(folder), names), **settings}
    (folder / INDEX).write_text(json.dumps({k: v for k, v in stated.items() if v != "absent"}))


CHANGES = [
    (VECTORS, _VECTORS[:4]), (VECTORS, _VECTORS.astype("float64")), (VECTORS, _VECTORS[:, 0]),
    (VECTORS, np.where(np.eye(9, 4), np.float32("nan"), _VECTORS)), (VECTORS, _VECTORS[:0]),
    (VECTORS, np.array([{}])), (VECTORS, b"PK\3\4"), (VECTORS, b""),
    (STARTS, np.array([0, 5, 9])), (STARTS, np.arange(10.0)), (STARTS, np.arange(10)[::-1]),
    (STARTS, np.full(10, 2**62)), (TEXTS, b""), (TEXTS, b'"a"\n' * 8),
]  # fmt: skip


def test_starts_whose_differences_overflow(tmp_path):
    folder = write(tmp_path / "index")
    starts = np.load(folder / STARTS)
    starts[6:8] = 6 * 10**18, -6 * 10**18
    assert (np.diff(starts) > 0).all()
    damage(folder, STARTS, starts)
    with pytest.raises(ValueError, match=r"starts\.npy holds no places of 9 lines"):
        Index(folder)


def test_a_file_that_was_changed_or_whose_name_has_a_line_end(tmp_path):
    folder = write(tmp_path / "index")
    files = json.loads((folder / INDEX).read_text())["files"]
    damage(folder, INDEX, files={**files, "\n": "0"})
    with pytest.raises(ValueError, match="checksums of something else") as error:
        Index(folder)
    assert "\n" not in str(error.value)
    damage(folder, INDEX)
    (folder / TEXTS).write_bytes((folder / TEXTS).read_bytes().swapcase())
    with pytest.raises(ValueError, match="texts.jsonl was changed"):
        Index(folder)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_files_are_compared_with_each_other(number, tmp_path):
    name, content = CHANGES[number]
    folder = write(tmp_path / "index")
    damage(folder, name, content)
    with pytest.raises(ValueError, match="embed the texts again|fetch it again") as error:
        Index(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("settings", [
    {"files": None}, {"files": {}}, {"files": [VECTORS]}, {"embed": []}, {"embed": {"nope": 1}},
    {"embed": {**EMBED, "layer": "1"}}, {"model": 3}, {"model": "absent"}, {"approximate": 1},
    {"approximate": True},
])  # fmt: skip
def test_settings_that_are_none(settings, tmp_path):
    folder = write(tmp_path / "index")
    damage(folder, INDEX, **settings)
    with pytest.raises(ValueError, match=r"index.json is damaged: .*embed the texts again"):
        Index(folder)


def test_a_line_that_is_no_text(tmp_path):
    folder = write(tmp_path / "index")
    lines = (folder / TEXTS).read_bytes().split(b"\n")
    lines[3] = b"[" * len(lines[3])
    damage(folder, TEXTS, b"\n".join(lines))
    index = opened(folder)
    with pytest.raises(ValueError, match=r"texts.jsonl holds no text in line 4"):
        search(index, _VECTORS[3])
    with pytest.raises(ValueError, match=r"texts.jsonl holds no text in line 4"):
        list(index.texts())


def test_repeated_texts_leave_no_row_out(tmp_path):
    """faiss answers -1 where a graph has no way from equal vectors to others."""
    pytest.importorskip("faiss")
    same = np.repeat(_VECTORS[:1], 600, 0)
    vectors, texts = np.concatenate([same, _VECTORS]), [*["same"] * 600, *_TEXTS]
    index = opened(write(tmp_path / "index", vectors, texts, approximate=True))
    _, rows = index._graph.search(_VECTORS, 609)
    assert (rows < 0).any()
    for query in _VECTORS[:3]:
        found = search(index, query, top=609)
        assert found == search(index, query, top=609, exact=True)
        assert sorted(one["row"] for one in found) == list(range(609))


def test_a_graph_of_other_vectors(tmp_path):
    pytest.importorskip("faiss")
    folder = write(tmp_path / "index", approximate=True)
    other = write(tmp_path / "other", _VECTORS[:5], _TEXTS[:5], approximate=True)
    damage(folder, GRAPH, (other / GRAPH).read_bytes())
    with pytest.raises(ValueError, match=r"IndexHNSWFlat \(5, 4\), not a graph of vectors.npy"):
        search(opened(folder), _VECTORS[0])
    damage(folder, GRAPH, b"IxHN")
    with pytest.raises(ValueError, match=r"graph.faiss is truncated"):
        search(opened(folder), _VECTORS[0])

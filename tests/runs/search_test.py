"""Search by vectors: exact as NumPy does it, by a graph, in a module, and made by workers."""

import json

import numpy as np
import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone
from tests.runs.sentence_training_test import texts
from tests.support import run_python
from tfnlp.runs import embedding, search_index

pytestmark = pytest.mark.slow

TEXTS = [*texts(300), "tab\tand \"quotes\" ä\u2028", "the dog ran"]  # fmt: skip
QUERIES = ["a cat was here", "the dog ran", "new"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    return folder


def write(folder, output, **more):
    return tfnlp.embed(str(backbone("bert", None)), folder / "texts.jsonl", output, **more)


@pytest.fixture(scope="module")
def index(folder):
    assert write(folder, folder / "index")["texts"] == len(TEXTS)
    return folder / "index"


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_search_is_a_product_with_all_vectors(index, monkeypatch, capsys):
    monkeypatch.setattr(search_index, "_BLOCK", 7)
    model, found = tfnlp.load(backbone("bert", None)), tfnlp.load(index)
    products = model.embed(QUERIES) @ model.embed(TEXTS).T
    for rows, scores in zip(found.search(QUERIES, top=9), products, strict=True):
        assert [row["row"] for row in rows] == np.argsort(-scores, kind="stable")[:9].tolist()
        np.testing.assert_allclose([r["score"] for r in rows], np.sort(scores)[::-1][:9], atol=1e-5)
        assert all(row["text"] == TEXTS[row["row"]] for row in rows)
    assert found.search(QUERIES[0], top=999)[-1]["row"] == products[0].argmin()
    assert list(found.texts()) == TEXTS
    assert command("predict", "--model", index, "--top", "2", "--json", *QUERIES) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["query"] for line in lines] == QUERIES
    assert lines[1]["found"] == found.search(QUERIES, top=2)[1]
    assert lines[1]["found"][0]["text"] == "the dog ran"


def test_an_index_of_a_loaded_model_states_its_path(folder, index, tmp_path):
    tfnlp.embed(tfnlp.load(backbone("bert", None)), folder / "texts.jsonl", tmp_path / "other")
    assert files(tmp_path / "other") == files(index)


def test_a_graph_finds_nearly_the_same(folder, index):
    pytest.importorskip("faiss")
    write(folder, folder / "graph", approximate=True)
    near, exact = (tfnlp.load(folder / "graph").search(QUERIES, exact=e) for e in (None, True))
    assert exact == tfnlp.load(index).search(QUERIES)
    write(folder, folder / "again", approximate=True)
    assert files(folder / "again") == files(folder / "graph")
    same = [{r["row"] for r in a} & {r["row"] for r in b} for a, b in zip(near, exact, strict=True)]
    assert sum(map(len, same)) >= 14  # of 15


def test_a_module_of_an_index_needs_no_tfnlp(folder, index, tmp_path):
    assert command("export", "--model", index, "--output", tmp_path / "module", "--top", "3") == 0
    script = f"""
import json, sys
import tensorflow as tf, tensorflow_text
module = tf.saved_model.load(sys.argv[1])
found = module({QUERIES!r})
served = module.signatures["serving_default"](inputs=tf.constant({QUERIES!r}))
assert (served["rows"].numpy() == found["rows"].numpy()).all()
texts = [[t.decode() for t in row] for row in found["texts"].numpy()]
print(json.dumps([texts, found["scores"].numpy().tolist()]))
"""
    done = run_python(script, tmp_path / "module", without_tfnlp=True)
    texts, scores = json.loads(done.stdout.splitlines()[-1])
    want = tfnlp.load(index).search(QUERIES, top=3)
    assert texts == [[row["text"] for row in rows] for rows in want]
    np.testing.assert_allclose(scores, [[r["score"] for r in rows] for rows in want], atol=1e-5)


@pytest.mark.long
def test_workers_of_a_pipeline_make_the_same(folder, tmp_path):
    """Parts of 64 texts, some of which an earlier call has left."""
    script = """
import sys
from tfnlp.runs import embedding
embedding.PART = 64
import tfnlp
source, output, workers, runner = sys.argv[1:]
more = {"runner": "DirectRunner", "workers": int(workers)} if runner == "beam" else {}
from tests.cli.toy_tasks import backbone
print(tfnlp.embed(str(backbone("bert", None)), source, output, **more)["texts"])
"""
    source = folder / "texts.jsonl"
    for runner in ("beam", "none"):
        done = run_python(script, source, tmp_path / runner, 2, runner)
        assert done.stdout.split()[-1] == str(len(TEXTS))
    assert files(tmp_path / "beam") == files(tmp_path / "none")
    assert not (tmp_path / "beam.parts").exists()


def test_what_can_not_be_is_one_line(folder, index, tmp_path, capsys):
    model = backbone("bert", None)
    more = ["--model", model, "--input", folder / "texts.jsonl", "--output"]
    for arguments, said in (
        ([index], "exists"),
        ([tmp_path / "x.npy", "--approximate"], "--approximate"),
        ([tmp_path / "x", "--workers", "2"], "--runner"),
        ([tmp_path, "--overwrite"], "is a folder but no index"),
    ):
        assert command("embed", *more, *arguments)
        assert said in error(capsys)
    assert not list(tmp_path.iterdir())
    assert command("predict", "--model", tmp_path, "a")
    assert "is an empty folder" in error(capsys)
    found = tfnlp.load(index)
    with pytest.raises(ValueError, match="has no graph"):
        found.search("a", exact=False)
    assert command("embed", *more, index, "--overwrite") == 0
    assert tfnlp.load(index).search("the dog ran", top=1)[0]["text"] == "the dog ran"


def test_parts_are_those_of_one_call(folder, tmp_path, monkeypatch):
    """A call that was stopped goes on, whichever of its parts are there."""
    monkeypatch.setattr(embedding, "PART", 50)
    write(folder, tmp_path / "whole.npy")
    made, computed = [], embedding.sentence_function

    def stopped(*arguments):
        vectors = computed(*arguments)

        def some(part, *more):
            if len(part) > 1 and len(made) == 3:
                raise KeyboardInterrupt
            made.append(len(part))
            return vectors(part, *more)

        return some

    monkeypatch.setattr(embedding, "sentence_function", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(folder, tmp_path / "again.npy")
    (tmp_path / "again.npy.parts" / "000000.npy").unlink()
    monkeypatch.setattr(embedding, "sentence_function", computed)
    write(folder, tmp_path / "again.npy")
    assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npy", "whole.npy"]

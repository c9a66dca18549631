"""Training of sentence vectors from files and rows: runs, what they leave, and resume."""

import json

import numpy as np
import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone
from tests.support import shown_on
from tests.tensorboard_pages import projected
from tfnlp.data import TaskExample
from tfnlp.tasks.embed import lesson_of

WORDS = "the dog ran a cat sat man will go he was here it is end new day".split()
FAST = dict(batch_size=8, learning_rate=5e-3, dropout=0.1)


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(count)]


def pairs(count, seed=0):
    """A text, and the same words in another order."""
    rng = np.random.default_rng(seed)
    return [(text, " ".join(rng.permutation(text.split()))) for text in texts(count, seed)]


def rated(count, seed=0):
    rows, others = pairs(count, seed), texts(count, seed + 50)
    return [(a, b, 5.0) if i % 2 else (a, c, 0.0) for i, ((a, b), c) in
            enumerate(zip(rows, others, strict=True))]  # fmt: skip


@pytest.fixture(scope="module")
def bert():
    return tfnlp.load(backbone("bert", None))


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    more = dict(epochs=6, sizes=[4], seeds=[1, 2], **FAST)
    return tfnlp.finetune("embed", bert, pairs(48), dev=pairs(24, 9), output=folder, **more)


@pytest.mark.slow
def test_pairs_come_nearer_and_the_run_is_a_model(run, bert, tmp_path, capsys):
    assert run.results["metrics"]["mrr"] > run.results["before"]["mrr"] + 0.05
    assert "plateau" not in run.results
    best = tfnlp.load(run.results["folder"])
    rows = texts(5)
    np.testing.assert_array_equal(best.embed(rows), run.embed(rows))
    table = json.loads((tmp_path / run.path / "runs.json").read_text())
    assert len(table["runs"]["fine-tuned"]) == 2
    # The model that was given is as it was.
    assert bert.pretrainer is not None and np.abs(bert.embed(rows) - run.embed(rows)).max() > 1e-3

    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps({"anchor": a, "positive": b}) + "\n"
                            for a, b in pairs(24, 9)))  # fmt: skip
    capsys.readouterr()
    assert command("evaluate", "--model", run.path, "--pairs", file, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("pairs") == 24
    assert found == pytest.approx(run.results["metrics"])
    before = bert.evaluate(pairs=pairs(24, 9))
    assert before["mrr"] == pytest.approx(run.results["before"]["mrr"])
    page = shown_on(tmp_path / run.results["folder"] / "page.html")
    values = [f"{run.results[when]['mrr']:.4f}" for when in ("metrics", "before")]
    assert ["MRR", *values] in page["measures"][0]["rows"]
    titles = ["24 pairs, before", "24 pairs, after", "Cosines, before", "Cosines, after"]
    assert [chart["title"] for chart in page["charts"]] == titles

    vectors, lines = projected(tmp_path / run.results["folder"])
    assert lines == [text for pair in pairs(24, 9) for text in pair]
    np.testing.assert_allclose(vectors, run.embed(lines), rtol=1e-5, atol=1e-6)

    assert command("pretrain", "bert", "--input", file, "--from", run.path,
                   "--output", tmp_path / "no") == 1  # fmt: skip
    assert "no masked-LM head" in error(capsys)


@pytest.mark.slow
def test_vectors_that_are_no_better_than_before(bert, tmp_path, capsys):
    slow = dict(epochs=1, batch_size=8, learning_rate=1e-9)
    run = tfnlp.finetune("embed", bert, pairs(16), dev=pairs(24, 9), output=tmp_path, **slow)
    before = run.results["before"]["mrr"]
    found = f"mrr {before:.4f} is not better than {before:.4f}, that before the training; try lear"
    assert capsys.readouterr().err.count(f"dev: {found}") == 2
    assert run.results["plateau"].startswith(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, objective",
    [
        ("bert", "cosine"),
        ("gpt", "ranking"),
        pytest.param("bert", "simcse", marks=pytest.mark.long),
        pytest.param("albert", "softmax", marks=pytest.mark.long),
    ],
)
def test_every_objective_and_every_encoder(kind, objective, tmp_path):
    model = tfnlp.load(backbone(kind, tmp_path))
    rows = {
        "cosine": rated(24),
        "softmax": [(a, b, "entailment" if r else "neutral") for a, b, r in rated(24)],
        "simcse": texts(24),
        "ranking": [(a, b, c) for (a, b), c in zip(pairs(24), texts(24, 7), strict=True)],
    }[objective]
    found = tfnlp.finetune("embed", model, rows, dev=rated(12, 3), output=tmp_path / "run",
                           epochs=1, accumulation=2, pooling="last", **FAST)  # fmt: skip
    assert found.run["training"]["objective"] == objective
    assert set(found.results["metrics"]) == {"spearman", "pearson"}
    loaded = tfnlp.load(tmp_path / "run")
    assert loaded.sentences.pooling == ("last",)
    measured = loaded.evaluate(pairs=rated(12, 3))["spearman"]
    assert measured == pytest.approx(found.results["metrics"]["spearman"])


def test_what_rows_teach():
    nli = [
        TaskExample(("p", "e1"), "entailment"),
        TaskExample(("p", "c"), "contradiction"),
        TaskExample(("p", "e2"), "entailment"),
        TaskExample(("q", "n"), "neutral"),
        TaskExample(("r", "e"), "entailment"),
    ]
    assert lesson_of(nli, "ranking", "`train`").rows == [("p", "e1", "c"), ("p", "e2", "c")]
    softmax = lesson_of(nli, None, "`train`")
    assert softmax.objective == "softmax"
    assert [softmax.classes[n] for n in softmax.labels] == [e.label for e in nli]
    rows = [
        TaskExample(("a", "b"), 4.0),
        TaskExample(("a", "c"), 2.0),
        TaskExample(("d", "b"), 3.0),
    ]
    assert lesson_of(rows, None, "`train`").labels == [1.0, 0.0, 0.5]
    alone = lesson_of(rows, "simcse", "`train`")
    assert alone.rows == [(t, t) for t in "abcd"] and alone.loss == "ranking"
    for examples, objective, said in (
        (rows, "softmax", "`objective` softmax"),
        (nli, "cosine", "`objective` cosine"),
        (rows[:1], None, "rating 4 alone"),
        (nli[:1], None, "entailment alone"),
        (nli[3:4], "ranking", "no pair of the class entailment"),
        ([TaskExample(("a",), None)], "ranking", "single texts"),
        ([*rows, TaskExample(("a", "b", "c"), 1.0)], None, "example 4"),
        ([*rows, TaskExample(("a", "b"), None)], None, "example 4"),
    ):
        with pytest.raises(ValueError, match=said):
            lesson_of(examples, objective, "`train`")

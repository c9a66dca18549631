"""The page of a run: what it says, that it is whole, safe and alone, and drawn by a browser."""

import json
import re
import shutil
import types

import numpy as np
import plotly.graph_objects
import pytest

from tests.cli.command import checkpoint
from tests.support import shown_on
from tests.tensorboard_pages import projected
from tfnlp.cards import Card
from tfnlp.data import Question, RoleSentence
from tfnlp.data.labelled.coreference import CorefDocument
from tfnlp.runs.page import RunPage, curves, measures, of_rows, write_page
from tfnlp.tasks import (
    Answer,
    Choose,
    Classify,
    Coref,
    Labels,
    Roles,
    Scores,
    Similarity,
    Tag,
    report,
)
from tfnlp.tasks.answer import question_word
from tfnlp.training import History
from tfnlp.training.run import write_config

EVIL = "<script>alert('x')</script> & more"
CONTEXT = "In 1066 the duke came."
HISTORY = {
    "train": [{"step": 10, "loss": 0.9, "accuracy": 0.5}, {"step": 20, "loss": 0.4}],
    "validation": [
        {"step": 10, "loss": 0.8, "accuracy": 0.6},
        {"step": 20, "loss": 0.7, "accuracy": 0.7},
    ],
}


def classified(gold, label, gold_share, text):
    other = {"yes": "no", "no": "yes"}[gold]
    probabilities = {gold: gold_share, other: 1 - gold_share}
    return dict(text=text, gold=gold, label=label, probabilities=probabilities)


def rated(text_a, text_b, gold, score):
    return dict(text_a=text_a, text_b=text_b, gold=gold, score=score)


def asked(key, question, gold, answer, share, score=1.0):
    names = ("id", "question", "context", "gold", "answer", "score", "exact_match", "f1")
    values = (key, question, CONTEXT, gold, answer, score, share, share)
    return dict(zip(names, values, strict=True))


EXAMPLES = {
    "classify": [
        classified("yes", "yes", 0.9, "fine one"),
        classified("no", "yes", 0.3, "nearly right"),
        classified("no", "yes", 0.01, EVIL),
    ],
    "labels": [
        dict(text="fine", gold=["x", "y"], labels=["x"], probabilities={"x": 0.9, "y": 0.3}),
        dict(text="none", gold=[], labels=[], probabilities={"x": 0.1, "y": 0.2}),
        dict(text=EVIL, gold=["x"], labels=["y"], probabilities={"x": 0.05, "y": 0.8}),
    ],
    "similarity": [
        rated("a", EVIL, 5.0, 0.5),
        rated("b", "b", 4.0, 3.5),
        rated("c", "d", 0.0, 0.0),
    ],
    "scores": [
        dict(text="a", gold={"x": 1.0, "y": 3.0}, scores={"x": 1.0, "y": 3.5}),
        dict(text=EVIL, gold={"x": 3.0, "y": 1.0}, scores={"x": -1.0, "y": 1.0}),
    ],
    "choose": [
        dict(text="stem", choices=["good end", EVIL], gold=0, choice=1, probabilities=[0.25, 0.75]),
        dict(text="other", choices=["x", "y"], gold=0, choice=0, probabilities=[0.6, 0.4]),
    ],
    "answer": [
        asked("a", "Who came?", ["the duke", "duke"], "duke", 1.0),
        asked("b", "In which year?", ["1066"], "the duke", 0.0, 7.5),
        asked("c", "When did " + EVIL, [], "1066", 0.0, 9.5),
        asked("d", "What's gone?", [], "", 1.0),
    ],
    "tag": [
        {"words": ["Ann", EVIL], "gold": ["B-PER", "O"], "tags": ["B-LOC", "O"]},
        {"words": ["of", "$", "x"], "gold": ["O", "$", "$$"], "tags": ["$", "$$", "O"]},
        {"words": ["so"], "gold": ["O"], "tags": ["O"]},
    ],
}


TASKS = {
    "classify": Classify(labels=("no", "yes")),
    "labels": Labels(labels=("x", "y")),
    "similarity": Similarity(texts=2),
    "scores": Scores(labels=("x", "y"), means=(2.0, 2.0)),
    "choose": Choose(choices=2),
    "answer": Answer(unanswerable=True),
    "tag": Tag(labels=("$", "$$", "O")),
}
METRICS = {"accuracy": 1 / 3, "subset_accuracy": 1 / 3, "mse": 6.8, "exact_match": 50.0, "f1": 50.0}


CARD = Card("A model of " + EVIL, "base", None, (EVIL,))


def written(directory, name, rows=None, task=None):
    """Write a page of rows; return what it shows."""
    task, rows = task or TASKS[name], rows or EXAMPLES[name]
    guesses = task.baselines([row["gold"] for row in rows])
    write_page(
        str(directory / "page.html"),
        "A " + EVIL,
        CARD,
        curves=curves(History(**HISTORY), "accuracy"),
        settings={"model": "toy " + EVIL, "training": {"rate": 5e-5, "updates": 1200}},
        **of_rows(task, rows, METRICS, guesses, "accuracy"),
    )
    return shown_on(directory / "page.html")


def texts(row):
    """The cells of an example, as text."""
    return ["".join(text for text, _ in cell) for cell in row["cells"]]


FIRST = {
    "classify": (["accuracy", "0.3333", "0.6667 (always 'no')"], 2, ["no", "yes", "0.0100", EVIL]),
    "labels": (
        ["all labels right", "0.3333", "0.3333 (always 'x', 'y')"], 2, ["x", "y", "–", EVIL]
    ),
    "similarity": (
        ["mean squared error", "6.8000", "4.6667 (always the mean 3)"],
        2, ["5.00", "0.50", "-4.50", "a\n" + EVIL],
    ),
    "scores": (
        ["mean squared error", "6.8000", "1.0000 (always the means)"],
        2, ["x 3.000, y 1.000", "x -1.000, y 1.000", EVIL],
    ),
    "choose": (
        ["accuracy", "0.3333", "1.0000 (always choice 1)"],
        1, ["stem", f"0.250  good end\n0.750  {EVIL}"],
    ),
    "answer": (
        ["F1", "50.00", "50.00 (never an answer)"],
        2, ["When did " + EVIL, "(no answer)", "1066", "9.50", CONTEXT],
    ),
    "tag": (["accuracy", "0.3333", "0.5000 (always 'O')"], 2, ["3 of 3", "of $ O $ $$ $ x O $$ "]),
}  # fmt: skip


@pytest.mark.parametrize("task", FIRST)
def test_a_page_is_alone_safe_and_begins_with_the_worst(task, tmp_path):
    baseline, wrong, worst = FIRST[task]
    shown = written(tmp_path, task)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    scripts = re.findall(r'<script(?: type="(.*?)")?', text)
    assert scripts == ["application/json", "text/plain", ""]
    assert not re.search(r"<[^<>]* (href|src)=", text)
    assert "<script>alert" not in text and "default-src 'none'" in text
    assert EVIL in shown["title"] and ["model", "toy " + EVIL] in shown["settings"]
    assert ["training.rate", "5e-05"] in shown["settings"] and ["data", EVIL] in shown["facts"]
    for figure in [*shown["curves"], *shown["charts"]]:
        plotly.graph_objects.Figure(figure["data"], figure["layout"])  # refuses what it can't draw

    assert baseline in shown["measures"][0]["rows"]
    found = shown["examples"]
    assert found["head"] == list(TASKS[task].error_columns) and found["wrong"] == wrong
    assert [row["wrong"] for row in found["rows"]] == [n < wrong for n in range(found["count"])]
    assert texts(found["rows"][0]) == worst and found["count"] == len(EXAMPLES[task])
    if task == "tag":
        marks = [piece for row in found["rows"] for cell in row["cells"] for piece in cell]
        assert all([*mark] in marks for mark in (("Ann", "wrong"), ("B-PER", "gold")))


def test_curves_have_all_points_and_the_best():
    found = curves(History(**HISTORY), "accuracy")
    assert [figure["title"] for figure in found] == ["loss", "accuracy"]
    training, held_out = found[1]["data"]
    assert (training["x"], training["y"]) == ([10], [0.5])
    assert (held_out["x"], held_out["y"]) == ([10, 20], [0.6, 0.7])
    assert [(a["x"], a["y"]) for figure in found for a in figure["layout"]["annotations"]] == [
        (20, 0.7), (20, 0.7),
    ]  # fmt: skip
    longer = History(
        [{"step": 1, "class_accuracy": 0.5}], [{"step": 1, "accuracy": 0.4, "f1/x": 0}]
    )
    (both,) = curves(longer)
    assert [trace["y"] for trace in both["data"]] == [[0.5], [0.4]]


def test_a_page_is_live_until_the_run_has_ended(tmp_path):
    write_config(tmp_path, {"tfnlp": "0.1.0", "training": {"seed": 3}})
    trainer = types.SimpleNamespace(
        history=History([{"step": 1, "loss": float("inf")}], [{"step": 1, "loss": 2.5}]),
        objective=types.SimpleNamespace(report=lambda row: {**row, "perplexity": 7.0}),
        workers=types.SimpleNamespace(chief=True),
    )
    page = RunPage(tmp_path, "a run", trainer)
    page.callback(CARD).on_epoch_end(0)
    live = shown_on(tmp_path / "page.html")
    assert 'http-equiv="refresh"' in (tmp_path / "page.html").read_text()
    assert live["live"] and live["measures"][0]["rows"] == [["loss", "2.5000", "2.5000"]]
    assert [trace["y"] for trace in live["curves"][0]["data"]] == [[None], [2.5]]
    page.write(CARD, measures=[measures({"loss": 2.25, "step": 1})])
    ended = shown_on(tmp_path / "page.html")
    assert 'http-equiv="refresh"' not in (tmp_path / "page.html").read_text()
    assert ended["measures"][0]["rows"] == [["loss", "2.2500", ""]]
    assert ended["curves"] == live["curves"] and ["training.seed", "3"] in ended["settings"]


def table(task, rows, title):
    (found,) = [table for table in TASKS[task].tables(rows) if table.title == title]
    return [list(row) for row in found.rows]


def test_entities_are_counted_by_type():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-PER"]
    guess = ["B-PER", "O", "O", "B-LOC", "B-LOC"]
    examples = [{"words": list("abcde"), "gold": tags, "tags": guess}]
    assert table("tag", examples, "By type of entity") == [
        ["PER", "0.000", "0.000", "0.000", "2", "1"],
        ["LOC", "0.500", "1.000", "0.667", "1", "2"],
    ]
    (heat,) = TASKS["tag"].chart(examples)["data"]
    rows = dict(zip(heat["y"], heat["text"], strict=True))  # gold, then predicted
    assert heat["x"][2:] == ["O", "LOC", "PER"]
    assert [rows[name][2:] for name in ("O", "LOC", "PER")] == [
        ["1", "", ""], ["", "1", ""], ["1", "1", "1"],
    ]  # fmt: skip


def test_answers_by_question_word():
    rows = table("answer", EXAMPLES["answer"], "By question word")
    for word, value in [("who", "100.00"), ("which", "0.00"), ("when", "0.00"), ("what", "100.00")]:
        assert [word, "1", value, value] in rows
    # In the data, predicted, rightly.
    assert table("answer", EXAMPLES["answer"], "Questions without an answer") == [["2", "1", "1"]]
    assert question_word("To WHOM, then?") == "whom"
    assert question_word("Name the duke.") == "other"


def test_classes_have_precision_and_recall():
    (found,) = Classify(labels=("yes", "no", "maybe")).tables(EXAMPLES["classify"])
    assert found.rows == [
        ["yes", "0.333", "1.000", "0.500", "1"],
        ["no", "0.000", "0.000", "0.000", "2"],
        ["maybe", "0.000", "0.000", "0.000", "0"],
    ]


def test_a_map_has_groups_and_numbers():
    vectors, names = np.array([[0.0, 0], [3, 1], [6, 0], [9, 1]]), ["a", "<b>", "c", "d"]
    places = [x for x, _ in report.plane(vectors[:3])]
    figure = report.text_map("m", vectors[:3], names[:3], ["x", "y", "x"])
    assert [(trace["name"], trace["x"]) for trace in figure["data"]] == [
        ("x", places[::2]), ("y", places[1:2]),
    ]  # fmt: skip
    assert figure["data"][1]["text"] == ["&lt;b&gt;<br>y"]
    pairs, places = report.text_map("m", vectors, names, [0.5, 1.5], True), report.plane(vectors)
    assert pairs["data"][0]["x"] == [
        places[0][0],
        places[1][0],
        None,
        *(x for x, _ in places[2:]),
        None,
    ]
    assert pairs["data"][0]["marker"]["color"] == [0.5, 0.5, None, 1.5, 1.5, None]
    assert report.plane([[1, 2, 3]]) == [[0, 0]]
    square = report.plane([[0, 0, 1], [0, 2, 1], [1, 0, 1], [1, 2, 1]])
    assert sorted(abs(x) for x, _ in square) == [1] * 4 and sorted(y for _, y in square)[0] == -0.5


def test_context_is_cut_and_marked():
    context = "x" * 2000 + "the gold one, then a bad one" + "y" * 2000
    pieces = report.marked(context, ["the gold one", "gold"], "bad one")
    assert [piece for piece in pieces if piece[1]] == [
        ("the gold one", "right"),
        ("bad one", "wrong"),
    ]
    text = "".join(text for text, _ in pieces)
    assert text.startswith("… xxx") and text.endswith("yyy …") and len(text) < 600
    assert text[2:-2] in context
    assert report.marked("short", [], "") == [("short", None)]


def test_commonest_classes_alone_are_pictured():
    truth = [f"c{i:02}" for i in range(30) for _ in range(i + 1)]
    assert report.shown_classes(truth, truth) == [f"c{i:02}" for i in range(29, 9, -1)]
    assert report.shown_classes(["b"], ["a"], ["c", "b"]) == ["c", "b", "a"]


@pytest.mark.slow
def test_the_page_of_a_run_has_what_it_stores(made):
    folder = made("bert").task
    results = json.loads((folder / "results.json").read_text())
    rows = [
        json.loads(line) for line in (folder / "dev_predictions.jsonl").read_text().split("\n")[:-1]
    ]
    (last,) = (folder / "checkpoints").glob("step-*")
    state = json.loads((last / "state.json").read_text())["state"]
    history = json.loads(state)["history"]
    shown = shown_on(folder / "page.html")
    values = {row[0]: row[1] for row in shown["measures"][0]["rows"]}
    assert values["accuracy"] == f"{results['metrics']['accuracy']:.4f}"
    loss = shown["curves"][0]["data"][0]
    assert loss["x"] == [row["step"] for row in history["train"]]
    assert loss["y"] == [row["loss"] for row in history["train"]]
    assert shown["examples"]["count"] == len(rows)
    assert shown["examples"]["wrong"] == sum(row["label"] != row["gold"] for row in rows)
    assert sum(len(trace["x"]) for trace in shown["charts"][1]["data"]) == len(rows)  # the map
    layers = shown["charts"][2]["data"]
    assert [trace["visible"] for trace in layers] == [False, True]
    texts = [row["text"].split()[0] for row in rows if row["label"] != row["gold"]]
    tokens = shown["charts"][2]["layout"]["xaxis"]["ticktext"]
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and tokens[1][:1] in [x[0] for x in texts]
    for trace in layers:
        assert np.shape(trace["z"]) == (len(tokens), len(tokens))
        np.testing.assert_allclose(np.sum(trace["z"], -1), 1, atol=0.0005 * len(tokens))
    vectors, (head, *lines) = projected(folder)
    assert head == "text\tgold"
    assert [line.split("\t")[1] for line in lines] == [row["gold"] for row in rows]
    weights = checkpoint(folder, "best")
    logits = vectors @ weights["model/classifier/kernel"] + weights["model/classifier/bias"]
    odds = [row["probabilities"]["yes"] / row["probabilities"]["no"] for row in rows]
    np.testing.assert_allclose(np.exp(logits[:, 1] - logits[:, 0]), odds, rtol=1e-4)


@pytest.mark.slow
def test_a_browser_draws_it(made):
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed; `make browser` installs it")
    file = made("bert").task / "page.html"
    shown, colours, errors = shown_on(file), set(), []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for scheme, width in (("light", 1200), ("dark", 1200), ("dark", 390)):
            size = {"width": width, "height": 800}
            page = browser.new_page(color_scheme=scheme, viewport=size)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text))
            page.goto(file.as_uri())
            plots = page.locator(".plot .main-svg:first-child")
            sync_api.expect(plots).to_have_count(len(shown["curves"]) + len(shown["charts"]))
            assert page.locator(".scatterlayer path.js-line").count() >= len(shown["curves"])
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.locator("input[type=checkbox]").check()
            rows = page.locator(".examples tbody tr")
            sync_api.expect(rows).to_have_count(min(50, shown["examples"]["wrong"]))
            page.locator("input[type=search]").fill("nothing has this")
            sync_api.expect(rows).to_have_count(0)
            page.close()
        browser.close()
    assert not errors and len(colours) == 2


def test_rows_are_the_same_in_every_file():
    """What was given, the gold and the prediction; a predicate's word stays as it is."""
    task = Roles(labels=("O", "A0", "V"))
    example = RoleSentence(("She", "sold", "it"), ("A0", "V", "O"), 1)
    found = {"tags": ["O", "V", "O"], "probabilities": [0.5, 0.9, 0.8]}
    words = {"words": ["She", "sold", "it"], "predicate": 1}
    row = {**words, "gold": ("A0", "V", "O"), **found}
    assert task.row(example, found) == task.report_row(example, found) == row
    assert task.error_cells(row)[1][0] == ("She", "wrong")
    assert ("[sold] ", None) in task.error_cells(row)[1]
    unknown = RoleSentence(("She", "sold", "it"), None, 1, text="She sold it")
    text = {**found, "words": words["words"], "spans": [[4, 8, "V"]]}
    assert task.row(unknown, text) == {"text": "She sold it", "predicate": 1, **text}
    coref = Coref()
    document = CorefDocument("He , he .", (((0, 1), (2, 3)),), ("He", ",", "he", "."))
    row = coref.report_row(document, {"clusters": [[[0, 1]], [[2, 3]]], "mentions": []})
    assert row["words"] == ["He", ",", "he", "."] and row["gold"] == (((0, 1), (2, 3)),)
    assert coref.is_wrong(row) and row["mention_f1"] == 1
    assert ("He", "cluster0") in coref.error_cells(row)[1]
    question = Question("a", "Who?", "I.", ())
    answer = {"answer": "I", "score": 0.5}
    assert "gold" not in Answer().row(question, answer, labelled=False)
    assert Answer().row(question, answer)["gold"] == ()

"""The page of a report: what it says, that it is whole, safe and alone."""

import base64
import html.parser
import json

import pytest
from tfnlp.runs.report import page

from tfnlp.data import Question, RoleSentence
from tfnlp.data.labelled.coreference import CorefDocument
from tfnlp.tasks import Answer, Choose, Classify, Coref, Labels, Roles, Similarity, Tag, report
from tfnlp.tasks.answer import question_word

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


class Page(html.parser.HTMLParser):
    """The page's rows of cells, its pictures, the names of its elements and its links."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.images, self.names, self.links, self.marks = [], [], set(), [], []
        self.cell = self.mark = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names.add(tag)
        self.links += [attrs[name] for name in ("href", "src") if name in attrs]
        if tag == "img":
            self.images.append(attrs["src"])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = ""
        elif tag == "span":
            self.mark = attrs["class"]

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
            self.cell = None
        elif tag == "span":
            self.mark = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data
        if self.mark:
            self.marks.append((self.mark, data))


TASKS = {
    "classify": Classify(labels=("no", "yes")),
    "labels": Labels(labels=("x", "y")),
    "similarity": Similarity(texts=2),
    "choose": Choose(choices=2),
    "answer": Answer(unanswerable=True),
    "tag": Tag(labels=("$", "$$", "O")),
}
METRICS = {"accuracy": 1 / 3, "subset_accuracy": 1 / 3, "mse": 6.8, "exact_match": 50.0, "f1": 50.0}


def written(directory, name, rows=None, task=None):
    task, rows = task or TASKS[name], rows or EXAMPLES[name]
    path = page.write_report(
        directory,
        title="A " + EVIL,
        task=task,
        summary={"model": "toy " + EVIL, "updates": 1200, "rate": 5e-5},
        metrics=METRICS,
        history=HISTORY,
        baselines=task.baselines([row["gold"] for row in rows]),
        rows=rows,
    )
    with open(path, encoding="utf-8") as file:
        return file.read()


FIRST = {
    "classify": (["accuracy", "0.3333", "0.6667 (always 'no')"], 2, ["no", "yes", "0.0100", EVIL]),
    "labels": (
        ["subset_accuracy", "0.3333", "0.3333 (always 'x', 'y')"], 2, ["x", "y", "–", EVIL]
    ),
    "similarity": (
        ["mse", "6.8000", "4.6667 (always the mean 3)"], 2, ["5.00", "0.50", "-4.50", "a\n" + EVIL]
    ),
    "choose": (
        ["accuracy", "0.3333", "1.0000 (always choice 1)"],
        1, ["stem", f"0.250  good end\n0.750  {EVIL}"],
    ),
    "answer": (
        ["f1", "50.00", "50.00 (never an answer)"],
        2, ["When did " + EVIL, "(no answer)", "1066", "9.50", CONTEXT],
    ),
    "tag": (["accuracy", "0.3333", "0.5000 (always 'O')"], 2, ["3 of 3", "of $ O $ $$ $ x O $$ "]),
}  # fmt: skip


@pytest.mark.parametrize("task", FIRST)
def test_a_page_is_alone_safe_and_begins_with_the_worst(task, tmp_path):
    baseline, wrong, worst = FIRST[task]
    text = written(tmp_path / "new" / "report", task)
    page = Page(text)
    assert "script" not in page.names and "alert('x')" not in text
    assert any(EVIL in cell for row in page.rows for cell in row)
    assert [link for link in page.links if not link.startswith("data:")] == ["predictions.jsonl"]
    assert len(page.images) == 2
    for image in page.images:
        kind, data = image.split(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG")
    assert ["updates", "1,200"] in page.rows and ["rate", "5e-05"] in page.rows
    lines = (tmp_path / "new/report/predictions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == EXAMPLES[task]

    assert baseline in page.rows
    head = page.rows.index(list(TASKS[task].error_columns))
    assert page.rows[head + 1] == worst and len(page.rows) - head - 1 == wrong
    if task == "tag":
        for mark in [("wrong", "Ann"), ("guess", "B-LOC"), ("gold", "B-PER")]:
            assert mark in page.marks
        assert not any(text == EVIL for _, text in page.marks)


def test_entities_are_counted_by_type(tmp_path):
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-PER"]
    guess = ["B-PER", "O", "O", "B-LOC", "B-LOC"]
    examples = [{"words": list("abcde"), "gold": tags, "tags": guess}]
    rows = Page(written(tmp_path, "tag", examples)).rows
    head = rows.index(["type", "precision", "recall", "F1", "in the data", "predicted"])
    assert rows[head + 1 : head + 3] == [
        ["PER", "0.000", "0.000", "0.000", "2", "1"],
        ["LOC", "0.500", "1.000", "0.667", "1", "2"],
    ]
    chart = TASKS["tag"].chart(examples)
    assert chart.truth == ["PER", "PER", "O", "LOC", "PER"]
    assert chart.guess == ["PER", "O", "O", "LOC", "LOC"]


def test_answers_by_question_word(tmp_path):
    rows = Page(written(tmp_path, "answer")).rows
    for word, value in [("who", "100.00"), ("which", "0.00"), ("when", "0.00"), ("what", "100.00")]:
        assert [word, "1", value, value] in rows
    assert ["2", "1", "1"] in rows  # without an answer: in the data, predicted, rightly
    assert question_word("To WHOM, then?") == "whom"
    assert question_word("Name the duke.") == "other"


def test_classes_have_precision_and_recall(tmp_path):
    rows = Page(written(tmp_path, "classify", task=Classify(labels=("yes", "no", "maybe")))).rows
    start = rows.index(["class", "precision", "recall", "F1", "in the data"])
    assert rows[start + 1 : start + 4] == [
        ["yes", "0.333", "1.000", "0.500", "1"],
        ["no", "0.000", "0.000", "0.000", "2"],
        ["maybe", "0.000", "0.000", "0.000", "0"],
    ]


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
def test_failure_leaves_the_older_report(tmp_path):
    before = written(tmp_path, "classify")
    broken = [EXAMPLES["classify"][0] | {"note": object()}]
    with pytest.raises(TypeError, match="JSON"):
        written(tmp_path, "classify", broken)
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == before
    assert len(list(tmp_path.iterdir())) == 2


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

import pytest

from tests.data.tfds_sets import prepare
from tfnlp.data import Question, TaggedSentence, TaskExample, read_documents
from tfnlp.tasks import TASKS, Answer, Choose, Classify, Similarity, Tag

tfds = pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.slow  # TFDS takes long to import and to prepare


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import tensorflow as tf

    folder = str(tmp_path_factory.mktemp("tfds"))
    text, many = tfds.features.Text(), tfds.features.Sequence
    names = tfds.features.ClassLabel(names=["no", "yes"])
    tags = many(tfds.features.ClassLabel(names=["O", "B-x"]))
    answers = many({"text": text, "answer_start": tf.int32})
    asked = [
        ("q1", "Who?", "É cat. A cat.", {"text": ["cat", "A cat"], "answer_start": [2, 7]}),
        ("q2", "What?", "A", {"text": [], "answer_start": []}),
        ("q3", "Where?", "A", {"text": ["A"], "answer_start": [1]}),
    ]
    sets = {  # features, and rows in the order of the features
        "pairs": (
            {"idx": tf.int32, "sentence2": text, "sentence1": text, "label": names},
            [(0, "B", "É?", "yes"), (1, "D", "C", "no"), (2, "F", "E", -1)],
        ),
        "scores": ({"sentence1": text, "sentence2": text, "label": tf.float32}, [("A", "B", 2.5)]),
        "choices": (
            {"premise": text, "choice1": text, "choice2": text, "label": names},
            [("A", "b", "c", 1)],
        ),
        "tags": ({"tokens": many(text), "ner": tags}, [(["A", "b"], ["B-x", "O"])]),
        "questions": (
            {"id": tf.string, "question": text, "context": text, "answers": answers},
            asked,
        ),
        "bytes": ({"text": tf.string, "label": names}, [(b"\xff", 0), ("A", 0)]),
        "articles": (
            {"author": text, "label": tf.int64, "text": text},
            [("Nobody", i, f"Article {i}. It has\nlines.\n\n\n\nAnd parts.") for i in range(20)],
        ),
        "reviews": (
            {"stars": tf.int64, "words": many(tf.string), "body": tf.string},
            [(1, ["a"], body) for body in ("Bad. Sad.", " ", "Good!")],
        ),
        "numbers": ({"x": tf.int64}, [(1,)]),
    }
    for name, (features, rows) in sets.items():
        rows = [dict(zip(features, row, strict=True)) for row in rows]
        prepare(folder, f"tfnlp_{name}", features, rows)
    return folder


@pytest.fixture(autouse=True)
def data_dir(folder, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", folder)


def test_classes_have_their_names():
    data = Classify.read("tfds:tfnlp_pairs", skip=True)
    want = {TaskExample(("É?", "B"), "yes"), TaskExample(("C", "D"), "no")}
    assert set(data.examples) == want and len(data.examples) == 2
    [skipped] = data.skipped
    assert skipped.startswith("tfds:tfnlp_pairs, example ") and "its label is empty" in skipped
    test = Classify.read("tfds:tfnlp_pairs:test", labelled=False).examples
    assert set(test) == want | {TaskExample(("E", "F"), None)}
    one = Classify.read("tfds:tfnlp_pairs", text="sentence2", label="idx").examples
    assert set(one) == {TaskExample((t,), n) for t, n in (("B", 0), ("D", 1), ("F", 2))}


def test_scores_and_choices():
    assert Similarity.read("tfds:tfnlp_scores").examples == [TaskExample(("A", "B"), 2.5)]
    columns = ["premise", "choice1", "choice2"]
    found = Choose.read("tfds:tfnlp_choices", text=columns).examples
    assert found == [TaskExample(("A",), 1, ("b", "c"))]


def test_tags_and_questions():
    found = Tag.read("tfds:tfnlp_tags:test", label="ner").examples
    assert found == [TaggedSentence(("A", "b"), ("B-x", "O"))]
    data = Answer.read("tfds:tfnlp_questions", skip=True)
    assert sorted(data.examples, key=lambda q: q.id) == [
        Question("q1", "Who?", "É cat. A cat.", (("cat", 2), ("A cat", 7))),
        Question("q2", "What?", "A", ()),
    ]
    [skipped] = data.skipped
    assert skipped.startswith("tfds:tfnlp_questions, question 'q3': the answer 'A' is not at")


@pytest.mark.parametrize(
    "task, source, error, message",
    [
        ("classify", "tfds:tfnlp_none", FileNotFoundError, "tfnlp_none"),
        ("classify", "tfds:tfnlp_tags", ValueError, "tfnlp_tags.*'ner'"),
        ("classify", "tfds:tfnlp_bytes", ValueError, "tfds:tfnlp_bytes, example ."),
        ("answer", "tfds:tfnlp_scores", ValueError, "tfnlp_scores, question '0'"),
    ],
)
def test_what_is_wrong_is_named(task, source, error, message):
    with pytest.raises(error, match=message):
        TASKS[task].read(source)


def test_tfds_examples_are_documents():
    expected = [[f"Article {i}.", "It has lines.", "And parts."] for i in range(20)]
    for source in ("tfds:tfnlp_articles", "tfds:tfnlp_articles:1.0.0:test"):
        documents = list(read_documents(source))
        assert sorted(documents) == sorted(expected)
        assert documents == list(read_documents(source))  # in the same order again
    assert len(list(read_documents("tfds:tfnlp_articles:train[:25%]"))) == 5
    lines = list(read_documents("tfds:tfnlp_articles", layout="lines"))
    assert sorted(lines)[0] == ["Article 0. It has", "lines.", "And parts."]


def test_tfds_first_string_feature_where_none_is_called_text():
    assert sorted(read_documents("tfds:tfnlp_reviews")) == [["Bad.", "Sad."], ["Good!"]]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("tfds:tfnlp_nothing", FileNotFoundError, "TFDS knows no data set 'tfnlp_nothing'"),
        ("tfds:imdb_reviews", FileNotFoundError, "'imdb_reviews' is not prepared in "),
        ("tfds:tfnlp_articles:dev", ValueError, "no split 'dev'; choose from t"),
        ("tfds:tfnlp_articles:7.0.0", (ValueError, FileNotFoundError), "tfnlp_articles:7.0.0"),
        ("tfds:tfnlp_numbers", ValueError, "no string feature; its features are x"),
        ("tfds:", ValueError, "expected tfds:NAME"),
    ],
)
def test_tfds_errors_come_at_once_in_one_line(source, error, message):
    with pytest.raises(error, match=message) as caught:
        read_documents(source)
    assert "\n" not in str(caught.value)

"""Every container of texts and of rows, at every entry point: all mean the same."""

import functools
import json
import pathlib

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

import tfnlp
from tfnlp.data import documents_of, read_parallel, rows_of, texts_of
from tfnlp.data.corpus.parallel_text import parallel_rows
from tfnlp.tasks import TASKS, Choose, Classify, Tag

TEXTS = [f"the {word} sat by the fire and the {word} slept" for word in "dog cat man boy".split()]
LABELS = ["yes", "no", "no", "yes"]


def table(texts):
    """Columns, of which the texts are not the first."""
    return {"number": list(range(len(texts))), "text": list(texts)}


TEXTS_IN = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "array": np.array,
    "tensor": tf.constant,
    "dict": table,
    "dicts": lambda texts: [{"number": 1, "text": text} for text in texts],
    "pandas": lambda texts: pd.DataFrame(table(texts)),
    "pandas series": lambda texts: pd.Series(texts, index=list(range(len(texts)))[::-1]),
    "pandas categories": lambda texts: pd.Series(texts, dtype="category"),
    "polars": lambda texts: pl.DataFrame(table(texts)),
    "polars plan": lambda texts: pl.LazyFrame(table(texts)),
    "polars series": pl.Series,
    "arrow": lambda texts: pa.table(table(texts)),
    "arrow batch": lambda texts: pa.record_batch(table(texts)),
    "arrow column": lambda texts: pa.chunked_array([texts[:1], texts[1:]]),
    "arrow array": pa.array,
    "datasets": lambda texts: datasets.Dataset.from_dict(table(texts)),
    "datasets stream": lambda texts: datasets.Dataset.from_dict(table(texts)).to_iterable_dataset(),
    "datasets column": lambda texts: datasets.Dataset.from_dict(table(texts))["text"],
    "tf.data": tf.data.Dataset.from_tensor_slices,
    "tf.data batches": lambda texts: tf.data.Dataset.from_tensor_slices(texts).batch(3).prefetch(1),
    "tf.data dicts": lambda texts: tf.data.Dataset.from_tensor_slices(table(texts)),
    "tf.data batches of dicts": lambda texts: tf.data.Dataset.from_tensor_slices(
        table(texts)
    ).batch(3),
}  # fmt: skip


def numbered(texts, labels):
    names = datasets.ClassLabel(names=sorted(set(labels)))
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    columns = {"text": texts, "label": list(map(names.str2int, labels))}
    return datasets.Dataset.from_dict(columns, features)


def slices(*columns):
    return tf.data.Dataset.from_tensor_slices(columns)


ROWS_IN = {
    "tuples": lambda texts, labels: list(zip(texts, labels, strict=True)),
    "generator": lambda texts, labels: zip(texts, labels, strict=True),
    "lists": lambda texts, labels: tuple(map(list, zip(texts, labels, strict=True))),
    "dicts": lambda texts, labels: [
        {"label": y, "text": x} for x, y in zip(texts, labels, strict=True)
    ],
    "dict": lambda texts, labels: {"text": texts, "label": pd.Series(labels)},
    "array": lambda texts, labels: np.array([texts, labels]).T,
    "records": lambda texts, labels: np.array(
        list(zip(texts, labels, strict=True)), [("text", "U99"), ("label", "U9")]
    ),
    "pandas": lambda texts, labels: pd.DataFrame(
        {"label": pd.Categorical(labels), "text": pd.array(texts, "string")}
    ),
    "polars": lambda texts, labels: pl.DataFrame(
        {"label": pl.Series(labels, dtype=pl.Categorical), "text": texts}
    ),
    "arrow": lambda texts, labels: pa.table(
        {"label": pa.array(labels).dictionary_encode(), "text": texts}
    ),
    "datasets": numbered,
    "datasets stream": lambda *columns: numbered(*columns).to_iterable_dataset(),
    "datasets of arrays": lambda *columns: numbered(*columns).with_format("numpy"),
    "tf.data": slices,
    "tf.data batches": lambda *columns: slices(*columns).batch(3),
    "tf.data dicts": lambda texts, labels: tf.data.Dataset.from_tensor_slices(
        {"text": texts, "label": labels}
    ),
    "tf.data for Keras": lambda texts, labels: slices({"text": texts}, labels).batch(3),
}


class Loaded:
    """What the entry points belong to, made when a test first asks for it."""

    def __init__(self, made, folder):
        self.made, self.folder = made, folder

    @functools.cached_property
    def model(self):
        return tfnlp.load(self.made("bert").run)

    @functools.cached_property
    def task(self):
        return tfnlp.load(self.made("bert").task)

    @functools.cached_property
    def module(self):
        return tfnlp.load(self.made("bert").module)

    @functools.cached_property
    def nnlm(self):
        return tfnlp.load(self.made("nnlm").run)

    @functools.cached_property
    def index(self):
        tfnlp.embed(str(self.made("bert").run), TEXTS, self.folder / "index")
        return tfnlp.load(self.folder / "index")

    def embed(self, texts):
        tfnlp.embed(self.model, texts, self.folder / "vectors.npy", overwrite=True)
        return np.load(self.folder / "vectors.npy")

    def pretrain(self, texts):
        """Return a trained model; a run that has ended goes on with the same text alone."""
        settings = dict(steps=2, batch_size=4, hidden_size=8, min_count=1, layout="lines")
        run = tfnlp.pretrain("nnlm", texts, self.folder / "nnlm", valid=TEXTS, **settings)
        return run.encoder.get_weights()

    def finetune(self, name="task", **rows):
        """Return the measures of a run; one that has ended goes on with the same rows alone."""
        given = {name: ROWS_IN["tuples"](TEXTS, LABELS) for name in ("train", "dev")} | rows
        settings = dict(output=self.folder / name, epochs=1, batch_size=4)
        run = tfnlp.finetune("classify", self.model, **given, **settings)
        return run.results["metrics"], run.evaluate(run.dev)


@pytest.fixture(scope="module")
def loaded(made, tmp_path_factory):
    return Loaded(made, tmp_path_factory.mktemp("crossing"))


def predicted(task, rows):
    return [[row["label"], *row["probabilities"].values()] for row in task.predict(rows)]


OF_TEXTS = {
    "texts_of": lambda at, texts: texts_of(texts, "texts"),
    "documents_of": lambda at, texts: list(documents_of(texts, "lines")),
    "call": lambda at, texts: at.model(texts)["pooled_output"].numpy(),
    "embed": lambda at, texts: at.model.embed(texts),
    "tfnlp.embed": lambda at, texts: at.embed(texts),
    "fill": lambda at, texts: at.model.predict(texts),
    "predict": lambda at, texts: predicted(at.task, texts),
    "search": lambda at, texts: at.index.search(texts, top=2),
    "module": lambda at, texts: at.module(texts)["probabilities"].numpy(),
    "pretrain": lambda at, texts: at.pretrain(texts),
    "unlabelled": lambda at, texts: at.finetune("taught", unlabelled=texts, teacher=at.task),
    "evaluate": lambda at, texts: at.nnlm.evaluate(texts, layout="lines")["perplexity"],
}
OF_ROWS = {
    "read": lambda at, rows: Classify.read(rows).examples,
    "evaluate": lambda at, rows: at.task.evaluate(rows),
    "train": lambda at, rows: at.finetune(train=rows),
    "dev": lambda at, rows: at.finetune(dev=rows),
}
_want = {}


def pairs(entries, containers):
    """All pairs: what needs a model is slow, of entries of seconds every eighth; others long."""
    for entry in entries:
        for number, container in enumerate(containers):
            mark = ()
            if entry not in ("texts_of", "documents_of", "read"):
                seconds = entry in ("pretrain", "fill", "unlabelled", "train", "dev")
                mark = pytest.mark.long if seconds and number % 8 else pytest.mark.slow
            yield pytest.param(entry, container, marks=mark, id=f"{entry}-{container}")


@pytest.mark.parametrize("entry, container", pairs(OF_TEXTS, TEXTS_IN))
def test_texts(entry, container, loaded):
    texts = [f"{text} [MASK]" for text in TEXTS] if entry == "fill" else TEXTS
    assert_as_lists(OF_TEXTS[entry], loaded, texts, TEXTS_IN[container](texts))


@pytest.mark.parametrize("entry, container", pairs(OF_ROWS, ROWS_IN))
def test_rows(entry, container, loaded):
    rows = ROWS_IN["dicts"](TEXTS, LABELS)
    assert_as_lists(OF_ROWS[entry], loaded, rows, ROWS_IN[container](TEXTS, LABELS))


def assert_as_lists(entry, loaded, rows, container):
    if entry not in _want:
        _want[entry] = entry(loaded, rows)
    np.testing.assert_equal(entry(loaded, container), _want[entry])


def write(folder):
    """Files of the texts, and a list of two that hold them together."""
    pd.DataFrame(table(TEXTS)).to_csv(folder / "a.csv.gz", index=False)
    pd.DataFrame(table(TEXTS)).to_csv(folder / "a.tsv", index=False, sep="\t")
    lines = [json.dumps({"sentence": text}) for text in TEXTS]
    (folder / "a.jsonl").write_text("\n".join(lines))
    pyarrow.parquet.write_table(pa.table(table(TEXTS)), folder / "a.parquet")
    (folder / "a.txt").write_text("\n".join(TEXTS) + "\n")
    for number in (0, 1):
        (folder / f"part{number}.txt").write_text("\n".join(TEXTS[2 * number :][:2]) + "\n")
    names = ["a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "a.txt", "part*.txt"]
    return [*(folder / n for n in names), [folder / f"part{number}.txt" for number in (0, 1)]]


def test_path_objects_name_files_of_texts(tmp_path):
    for files in write(tmp_path):
        assert texts_of(files, "texts") == TEXTS


@pytest.mark.slow
def test_a_string_is_one_text_or_names_a_file(loaded, tmp_path):
    model, task, index, module = loaded.model, loaded.task, loaded.index, loaded.module
    text = TEXTS[0]
    for one in (text, np.str_(text), tf.constant(text)):
        np.testing.assert_array_equal(model.embed(one), model.embed([text])[0])
        assert index.search(one) == index.search([text])[0]
        assert [task.predict(one)] == task.predict([text])
        np.testing.assert_array_equal(module(one)["label"], module(text=[text])["label"])
        np.testing.assert_array_equal(model(one)["pooled_output"], model([text])["pooled_output"])
    *files, _, _ = write(tmp_path)
    for number, file in enumerate(files):
        np.testing.assert_array_equal(model.embed(file), model.embed(TEXTS))
        tfnlp.embed(model, str(file), tmp_path / f"{number}.npy")
        np.testing.assert_array_equal(np.load(tmp_path / f"{number}.npy"), model.embed(TEXTS))
    rows = [f"{text}\t{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join(["text\tlabel", *rows]))
    assert task.evaluate(str(path)) == task.evaluate(ROWS_IN["pandas"](TEXTS, LABELS))
    assert task.predict(path) == task.predict(TEXTS) != task.predict([str(path)] * 4)


def test_labels_of_hugging_face_have_their_names():
    tags = datasets.ClassLabel(names=["O", "B-x"])
    number = datasets.ClassLabel(names=["choice1", "choice2"])
    words = {"tokens": [["a", "dog"]], "ner_tags": [[0, 1]], "other": [{"a": [1, -1]}]}
    features = datasets.Features(
        tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(tags),
        other={"a": datasets.List(tags)},
    )
    data = datasets.Dataset.from_dict(words, features)
    assert Tag.read(data).examples[0].tags == ("O", "B-x")
    assert next(rows_of(data, "train"))[1]["other"] == {"a": ["B-x", None]}
    features = {"premise": datasets.Value("string"), "label": number}
    features["choices"] = datasets.List(datasets.Value("string"))
    rows = {"premise": ["a", "b"], "label": [1, -1], "choices": [["x", "y"]] * 2}
    data = datasets.Dataset.from_dict(rows, datasets.Features(features))
    labels = [e.label for e in Choose.read(data, labelled=False).examples]
    assert labels == [1, None]
    unknown = numbered(TEXTS, LABELS).map(lambda row: {"label": -1})
    with pytest.raises(ValueError, match="^train, row 0: its label is empty"):
        Classify.read(unknown, name="train")


@pytest.mark.parametrize("rows", [[""], {"text": ["a", ""]}], ids=["texts", "table"])
@pytest.mark.parametrize("task", ["classify", "labels", "similarity", "tag", "coref"])
def test_a_text_to_predict_may_be_empty_one_to_learn_not(task, rows):
    """Modules and sentence vectors take it, too."""
    (*_, found) = TASKS[task].read(rows, labelled=False).examples
    assert TASKS[task].texts_of(found) == [""]
    label = {"similarity": 1.0, "tag": ["O"], "coref": []}.get(task, "yes")
    with pytest.raises(ValueError, match="row 0: .*(is empty|a list of one word)"):
        TASKS[task].read([("", label), ("a", label)])


def test_rows_of_lists_are_told_from_batches():
    words = [["a", "dog"], ["the", "cat"]]
    one = slices(words, [["DET", "NOUN"]] * 2)
    want = Tag.read([*zip(words, [["DET", "NOUN"]] * 2, strict=True)])
    ragged = tf.data.Dataset.from_tensor_slices(
        {"words": tf.ragged.constant(words), "tags": tf.ragged.constant([["DET", "NOUN"]] * 2)}
    )
    for data in (one, one.batch(2), one.batch(2).unbatch(), ragged, ragged.ragged_batch(2)):
        assert Tag.read(data) == want
    assert list(documents_of(slices(words).map(lambda words: words))) == words


def test_pairs_of_translations():
    want = parallel_rows([("a dog", "ein Hund"), ("a cat", "eine Katze")], "text")
    assert want.sources == ["a dog", "a cat"] and want.left_out == 0
    for make in (pd.DataFrame, pl.DataFrame, pa.table, dict):
        columns = {"target": want.targets, "source": want.sources}
        assert parallel_rows(make(columns), "text") == want
    for make in (list, iter, pd.Series, pl.Series, pa.array, np.array):
        assert read_parallel(make(want.sources), make(want.targets)) == want
    with pytest.raises(ValueError, match="^text, row 1: expected a sentence and its translation"):
        parallel_rows([("a", "b"), ("c",)], "text")


@pytest.mark.parametrize(
    "value, message",
    [
        ({"body": TEXTS}, "queries has no column 'text' or 'sentence' or 'document'; its columns"),
        (pd.DataFrame({"body": TEXTS}), "queries has no column .*; its columns are 'body'"),
        (pl.Series(["a", None]), "queries, row 1: expected a text; got None"),
        (pd.Series(["a", np.nan]), "queries, row 1: expected a text; got None"),
        (pd.Series(["a", pd.NA], dtype="string"), "queries, row 1: expected a text; got None"),
        ([b"\xff"], "queries, row 0: is not UTF-8 text"),
        ([["a", "b"]], r"queries, row 0: expected a text; got \['a', 'b'\]"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "queries can't be read"),
        (datasets.DatasetDict(train=numbered(TEXTS, LABELS)), "queries holds several .*'train'"),
        (5, "queries must be a list, a dict of columns"),
        (tf.constant([1.0]), "queries, row 0: expected a text; got 1.0"),
        ({"text": "a"}, "queries: the column 'text' must be a list"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_named(value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        texts_of(value, "queries")


def test_a_column_can_be_named():
    frame = pd.DataFrame({"text": [1, 2], "Body": ["a", "b"]})
    assert texts_of(frame, "texts", "Body") == ["a", "b"] == texts_of(frame["Body"], "texts")
    assert list(documents_of(frame, column="body")) == [["a"], ["b"]]
    assert texts_of([], "texts") == []
    assert texts_of(pathlib.PurePath("book:the_secret_garden"), "texts")[0]


@pytest.mark.parametrize(
    "task, row, columns",
    [
        ("classify", ("so good", "yes"), {"text": "body", "label": "mood"}),
        ("labels", ("so good", ["kind"]), {"text": "body", "label": "tags"}),
        ("similarity", ("one", "two", 0.5), {"text": ["first", "second"], "label": "rated"}),
        ("choose", ("start", ["one", "two"], 1), {"text": ["a", "b", "c"], "label": "right"}),
        ("tag", (["a", "word"], ["X", "Y"]), {"text": "tokens", "label": "upos"}),
    ],
)
def test_tuples_need_no_names_of_the_columns_of_a_run(task, row, columns):
    form = TASKS[task].form
    assert form.read([row], of_run=True, **columns).examples == form.read([row]).examples
    for labelled in (True, False):
        with pytest.raises(ValueError, match="columns of tuples have numbers"):
            form.read([row], labelled=labelled, **columns)

"""Tags and roles of words in texts: split in prediction as in training, with places in the text."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone
from tests.serving import toys
from tfnlp import models
from tfnlp.hub import FineTunedModule, TaskModel
from tfnlp.serving.module import load_served
from tfnlp.tasks import Coref, Roles, Tag
from tfnlp.tasks.tag import spans_of
from tfnlp.text.task_readers import BertReader

TEXT = 'Zoë: "the dog (a cat) ran"\u00a0home🙂!'
WORDS = ["Zoë", ":", '"', "the", "dog", "(", "a", "cat", ")", "ran", '"', "home", "🙂", "!"]


def of_weights(task, whole=True):
    encoder, _, tokenizer = toys.pretrainer()
    model = models.bert_task(encoder, task.output, **task.head)
    return TaskModel(task, BertReader(tokenizer), model)


@pytest.mark.parametrize("kind, more", [(Tag, {}), (Roles, {"predicate": 9})])
def test_a_text_has_the_tags_of_its_words(kind, more):
    task = kind(labels=("O", "B-x", "I-x"), max_length=24, splitter="marks")
    rows = [{"text": TEXT, **more}, {"words": WORDS, **more}]
    examples = [kind.read([row], labelled=False).examples[0] for row in rows]
    if more:
        assert task.examples_of([[TEXT, "ran"]]) == examples[:1]
    text, words = of_weights(task).predict(examples)
    assert text["tags"] == words["tags"] and len(set(text["tags"])) > 1
    assert text["words"] == WORDS and "spans" not in words
    # BIO, by hand: each B begins an entity, each I lengthens the last one.
    want = []
    for word, tag in zip(WORDS, text["tags"], strict=True):
        start = TEXT.index(word, want[-1][1] if want else 0)
        if tag == "I-x":
            want[-1][1] = start + len(word)
        elif tag == "B-x":
            want.append([start, start + len(word), "x"])
    assert text["spans"] == want != []


def test_spans_of_other_tags():
    places = [(0, 2), (3, 4), (4, 9)]
    assert spans_of(["NOUN", "O", "VERB"], places) == [[0, 2, "NOUN"], [4, 9, "VERB"]]
    assert spans_of(["S-A", "B-B", "E-B"], places) == [[0, 2, "A"], [3, 9, "B"]]
    assert spans_of(["O", "I-A", "I-B"], places) == [[3, 4, "A"], [4, 9, "B"]]


@pytest.mark.slow
@pytest.mark.parametrize("splitter, words", [("marks", WORDS), ("spaces", TEXT.split())])
def test_a_module_reads_texts_as_the_run_does(splitter, words):
    task = Roles(labels=("O", "A0", "V"), max_length=24, splitter=splitter)
    model = of_weights(task)
    (want,) = model.predict(task.examples_of([[TEXT, "2"]]))
    served = FineTunedModule(model).signatures()
    inputs = {"text": tf.constant([TEXT, "a b"]), "predicate": tf.constant([2, 0])}
    found = {name: x.numpy() for name, x in served["texts"](**inputs).items()}
    assert set(found) == set(served["serving_default"](**inputs))
    places = list(zip(found["starts"][0].tolist(), found["ends"][0].tolist(), strict=True))
    assert [TEXT[a:b] for a, b in places] == words == want["words"]
    assert spans_of([x.decode() for x in found["tags"][0]], places) == want["spans"]
    assert found["starts"][1].tolist() == [0, 2, *[-1] * (len(words) - 2)]


@pytest.mark.slow
def test_clusters_of_a_module_are_in_characters():
    task = Coref(max_length=16, width=3)
    model = of_weights(task)
    (prior,) = (x for x in model.model.weights if x.path.endswith("prior"))
    prior.assign(1.0)  # most spans are mentions
    (want,) = model.predict(task.examples_of([[TEXT]]))
    found = FineTunedModule(model).signatures()["texts"](text=tf.constant([TEXT]))
    places = zip(*(found[name].numpy()[0].tolist() for name in ("starts", "ends")), strict=True)
    assert sorted(map(list, places)) == sorted(s for c in want["clusters"] for s in c) != []
    assert {TEXT[a:b] for c in want["clusters"] for a, b in c} == {
        x.decode() for x in found["mentions"].numpy()[0]
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_splits_texts_as_its_training(tmp_path, capsys):
    """From texts with spans: every way to give a text has the tags that the measures are of."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(60):
        name = str(rng.choice(["dog", "cat", "man"]))
        before = " ".join(rng.choice(["the", "a", "was", "here"], int(rng.integers(1, 4))))
        text = f'{before} "{name}".'
        start = text.index(name)
        rows.append({"text": text, "spans": [[start, start + 3, "x"]]})

    def tune():
        return tfnlp.finetune(
            "tag", backbone("bert", None), rows, rows[:20], tmp_path / "run", epochs=12,
            learning_rate=1e-2, batch_size=8, max_length=16, warmup=0.1, dropout=0.0,
        ).results["metrics"]  # fmt: skip

    measured = tune()
    (tmp_path / "run" / "results.json").unlink()
    assert tune() == measured  # the run has ended all the same
    lines = (tmp_path / "run" / "dev_predictions.jsonl").read_text().splitlines()
    task = tfnlp.load(tmp_path / "run")
    assert task.task_model.task.splitter == "marks"
    assert task.results["metrics"]["f1"] > 0.9
    texts = [row["text"] for row in rows[:20]]
    found = task.predict(texts)
    right = sum(one["spans"] == row["spans"] for one, row in zip(found, rows, strict=False))
    assert right >= 18
    assert task.predict([{"text": text} for text in texts]) == found == task.predict(rows[:20])
    words = task.predict([one["words"] for one in found])
    assert [json.loads(x)["spans"] for x in lines] == [one["spans"] for one in found]
    assert [json.loads(x)["text"] for x in lines] == texts
    assert [one["tags"] for one in words] == [one["tags"] for one in found]
    assert task.evaluate(rows[:20])["f1"] == pytest.approx(task.results["metrics"]["f1"])
    capsys.readouterr()
    assert command("predict", "--model", tmp_path / "run", "--json", texts[0]) == 0
    assert json.loads(capsys.readouterr().out)["spans"] == found[0]["spans"]
    task.export(tmp_path / "module")
    served = load_served(tmp_path / "module").actions["tag"].run([{"text": texts[0]}])
    assert served[0]["spans"] == found[0]["spans"]

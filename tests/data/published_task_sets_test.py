"""Published task sets, as they were published."""

from collections import Counter

import pytest

from tests.support import shared_data
from tfnlp.data import read_task


def lines(name):
    return shared_data(name).read_text(encoding="utf-8").split("\n")


def test_published_tables():
    rows = [line.split("\t") for line in lines("cls/cola/in_domain_train.tsv") if line]
    cola = read_task("classify", shared_data("cls/cola/in_domain_train.tsv"), text="3", label="1")
    assert len(cola.examples) == 8551
    assert Counter(e.label for e in cola.examples) == Counter(row[1] for row in rows)
    assert [e.segments[0] for e in cola.examples] == [row[3].strip() for row in rows]
    path = shared_data("pair/stsb/sts-train.tsv")
    rows = [line.split("\t") for line in lines("pair/stsb/sts-train.tsv") if line]
    stsb = read_task("similarity", path, text=["5", "6"], label="4").examples
    assert [e.label for e in stsb] == [float(row[4]) for row in rows]
    with pytest.raises(ValueError, match="sts-train.tsv"):
        read_task("similarity", path)


@pytest.mark.parametrize("name", ["wnut17train.conll", "emerging.dev.conll"])
def test_published_entities(name):
    found = read_task("tag", shared_data(f"tag/wnut17/{name}")).examples
    rows = lines(f"tag/wnut17/{name}")
    assert [w for s in found for w in s.words] == [r.split("\t")[0] for r in rows if r.strip()]
    assert Counter(t for s in found for t in s.tags) == Counter(
        row.split("\t")[1] for row in rows if row.strip()
    )
    assert len(found) == {"wnut17train.conll": 3394, "emerging.dev.conll": 1009}[name]


def test_published_questions():
    path = shared_data("qa/squad/dev-a-v1.1.json")
    found = read_task("answer", path).examples
    assert len(found) == path.read_text(encoding="utf-8").count('"question":')
    assert sum(len(q.answers) for q in found) == path.read_text("utf-8").count('"answer_start":')
    assert all(q.context[at : at + len(text)] == text for q in found for text, at in q.answers)


def test_english_web_treebank():
    dev = read_task("tag", shared_data("tag/ud_ewt/en_ewt-ud-dev.conllu")).examples
    train = read_task("tag", shared_data("tag/ud_ewt/en_ewt-ud-train.conllu.gz")).examples
    assert (len(train), len(dev)) == (12544, 2001)  # as the treebank's stats.xml has it
    assert sum(len(s.words) for s in train) == 204577
    assert len({tag for s in train for tag in s.tags}) == 17  # universal tags
    assert dev[0].words == ("From", "the", "AP", "comes", "this", "story", ":")
    assert dev[0].tags == ("ADP", "DET", "PROPN", "VERB", "DET", "NOUN", "PUNCT")


# Rows and labels counted with `cut`, `sort` and `uniq -c`.
@pytest.mark.parametrize(
    "task, name, rows, labels",
    [
        ("classify", "cls/sst2/train.txt", 6920, {"1": 3610, "0": 3310}),
        ("classify", "cls/sst2_glue/dev.tsv", 6735, {"1": 3741, "0": 2994}),
        ("classify", "pair/rte/train.tsv", 2490, {"entailment": 1249, "not_entailment": 1241}),
        ("classify", "pair/snli/dev_raw.jsonl", 9842,
         {"entailment": 3329, "contradiction": 3278, "neutral": 3235}),
        ("choose", "mc/copa/copa-dev.xml", 500, {0: 250, 1: 250}),
        ("choose", "mc/codah/fold_0_train.tsv", 1665, {3: 433, 0: 426, 2: 404, 1: 402}),
    ],
)  # fmt: skip
def test_published_files_are_read_whole(task, name, rows, labels):
    examples = read_task(task, shared_data(name)).examples
    assert len(examples) == rows and Counter(e.label for e in examples) == labels

"""`examples/gap_pronouns.py`, on rows in the form of GAP and a small model."""

import csv
import re

import pytest
from sklearn.metrics import f1_score

import tfnlp
from tests.cli.toy_tasks import backbone, finetuned, write_toys
from tests.support import ROOT, run_python

PRONOUNS = ("dog", "cat", "man", "was")  # in the toy's documents the same word twice is a cluster
GENDERS = ("feminine", "masculine")


@pytest.mark.slow
def test_f1_is_scikit_learns(tmp_path):
    finetuned("coref", backbone("elmo", tmp_path), write_toys(tmp_path), tmp_path / "run")
    rows = [_row(word, other) for word in PRONOUNS for other in PRONOUNS if word != other]
    with open(tmp_path / "gap.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    done = run_python(ROOT / "examples/gap_pronouns.py", tmp_path / "run", tmp_path / "gap.tsv")

    gold, said = [], []
    predictions = tfnlp.load(tmp_path / "run").predict([row["Text"] for row in rows])
    for row, prediction in zip(rows, predictions, strict=True):
        cluster_of = {tuple(m): n for n, c in enumerate(prediction["clusters"]) for m in c}
        spans = {k: _span(row, k) for k in ("Pronoun", "A", "B")}
        number = cluster_of.get(spans["Pronoun"])
        said += [number is not None and cluster_of.get(spans[k]) == number for k in "AB"]
        gold += [row["A-coref"] == "TRUE", row["B-coref"] == "TRUE"]
    f1 = f1_score(gold, said)
    assert 0 < f1 < 1
    assert f"{len(rows)} pronouns, F1 all {100 * f1:.1f}" in done.stdout


def _row(word, other):
    text = f"the {word} it {other} , the {word} ."
    places = [m.start() for m in re.finditer(word, text)]
    names = {"A": (word, places[0], "TRUE"), "B": (other, text.index(other), "FALSE")}
    row = {"Text": text, "Pronoun": word, "Pronoun-offset": places[1]}
    for key, (name, offset, coref) in names.items():
        row |= {key: name, f"{key}-offset": offset, f"{key}-coref": coref}
    return row


def _span(row, key):
    return row[f"{key}-offset"], row[f"{key}-offset"] + len(row[key])

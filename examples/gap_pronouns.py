"""Measures a coreference model on GAP (Webster et al. 2018): whom does a pronoun name?

    python examples/gap_pronouns.py RUN gap-validation.tsv

Each row has a text, a pronoun and two names, A and B. The model says that a name is the pronoun's
if a mention of the pronoun's cluster is the name, lies within it or has it as its end ("the actor
Tony Todd"). F1 is over all names, as in the data set's own scorer.
"""

import argparse
import csv

import tfnlp

MASCULINE = ("he", "him", "his")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="the run's folder, or a module")
    parser.add_argument("file", help="gap-development.tsv, gap-validation.tsv or gap-test.tsv")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    predictions = tfnlp.load(arguments.model).predict([row["Text"] for row in rows])
    judged = {"masculine": [], "feminine": []}
    for row, prediction in zip(rows, predictions, strict=True):
        gender = "masculine" if row["Pronoun"].lower() in MASCULINE else "feminine"
        cluster = _cluster_of(_span(row, "Pronoun"), prediction["clusters"])
        for name in "AB":
            gold = row[f"{name}-coref"].upper() == "TRUE"
            judged[gender].append((gold, any(_names(m, _span(row, name)) for m in cluster)))
    every = judged["masculine"] + judged["feminine"]
    scores = {"all": _f1(every)} | {gender: _f1(pairs) for gender, pairs in judged.items()}
    print(f"{len(rows)} pronouns, F1 " + ", ".join(f"{k} {100 * x:.1f}" for k, x in scores.items()))


def _span(row, name):
    start = int(row[f"{name}-offset"])
    return start, start + len(row[name])


def _cluster_of(pronoun, clusters):
    return next((c for c in clusters if list(pronoun) in [list(m) for m in c]), [])


def _names(mention, name):
    """Whether a mention is a name, a part of it, or ends with it."""
    (start, end), (first, last) = mention, name
    return (first <= start and end <= last) or (start <= first and end == last)


def _f1(pairs):
    right = sum(gold and said for gold, said in pairs)
    return 2 * right / max(sum(gold + said for gold, said in pairs), 1)


if __name__ == "__main__":
    main()

"""The notebook that tells the story from word vectors to BERT, at toy size."""

import re

import numpy as np
import pytest

pytest.importorskip("nbclient")
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
MODELS = ("ELMo", "GPT", "BERT")


def test_four_kinds_of_vectors_are_made_and_compared(tmp_path):
    notebook = run_notebook("word_vectors_to_bert", tmp_path)

    bits, by_frequency = {}, {}
    for name in MODELS:
        ((bits[name], by_frequency[name]),) = re.findall(
            r"([\d.]+) bits .*; by frequency ([\d.]+)", text(notebook, name.lower())
        )
        bits[name], by_frequency[name] = float(bits[name]), float(by_frequency[name])
        assert 1 < bits[name] < 12

    # One list by counting, two for each of the others, which are not all the same.
    lists = [line.split() for line in text(notebook, "neighbours").splitlines()]
    assert [line[0] for line in lists] == ["counts", *(name for name in MODELS for _ in range(2))]
    near = {(line[0], n % 2): line[-6:] for n, line in enumerate(lists)}
    assert any(near[name, 0] != near[name, 1] for name in MODELS)

    # GPT does not see what comes after a word, BERT does.
    ahead = dict(re.findall(r"(\w+) +looks ahead with (\d+)%", text(notebook, "attention")))
    assert int(ahead["GPT"]) == 0 and int(ahead["BERT"]) > 10
    for tag in ("curves", "senses-picture", "attention", "mix"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    agreements = np.array(numbers(notebook, "senses", r"(?<= )(\d\.\d\d)(?=[ ;\n])")).reshape(2, 10)
    assert (agreements >= 0).all() and (agreements <= 1).all()
    assert (agreements[:, 0] >= 0.5).all()  # the commoner of two senses

    # The table repeats what the cells before it said.
    rows = [line.rsplit(maxsplit=6) for line in text(notebook, "table").splitlines()[1:]]
    assert [row[0].split()[0] for row in rows] == ["counts", *MODELS]
    for place, (name, row) in enumerate(zip(MODELS, rows[1:], strict=True)):
        assert float(row[-4]) == pytest.approx(by_frequency[name] - bits[name], abs=0.011)
        best = agreements[:, 1 + 3 * place : 4 + 3 * place].max(1)
        assert [float(x) for x in row[-3:-1]] == pytest.approx(best)
        assert 0 <= float(row[-1]) <= 1

"""The notebook that searches documents by vectors of sentences, at toy size."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

import tfnlp

pytest.importorskip("nbclient")
from tests.colab import toy_models  # noqa: E402
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_passages_are_found_trained_on_and_exported(tmp_path):
    model = toy_models.bert(tmp_path / "bert", toy_models.book_words())
    notebook = run_notebook("sentence_search", tmp_path, parameters=dict(model=model))
    passages = (tmp_path / "search/passages.txt").read_text(encoding="utf-8").splitlines()
    assert numbers(notebook, "passages", r"(\d+) passages") == [len(passages)] == [120]
    assert [is_drawn(picture) for picture in pictures(notebook, "picture")] == [True]

    # What was found for the first query: the largest products of vectors.
    encoder = tfnlp.load(model)
    query, *lines = text(notebook, "search").splitlines()
    scores = encoder.embed(passages) @ encoder.embed([query])[0]
    best = np.argsort(-scores, kind="stable")[:3]
    for row, line in zip(best, lines, strict=False):
        score, shown = re.fullmatch(r"  ([\d.-]+)  (.*)", line).groups()
        assert float(score) == pytest.approx(scores[row], abs=0.006)
        assert passages[row].startswith(shown)

    module = tf.saved_model.load(str(tmp_path / "search/module"))
    found = module.signatures["serving_default"](tf.constant(["a hidden door in the wall"]))
    said = re.findall(r"([\d.]+)  (.*)", text(notebook, "load"))
    for (score, shown), value, passage in zip(
        said, found["scores"].numpy()[0], found["texts"].numpy()[0], strict=True
    ):
        assert float(score) == pytest.approx(value, abs=1e-4)
        assert passage.decode().startswith(shown)

    shares = re.findall(r"([\d.]+) +([\d.]+)$", text(notebook, "measure"), re.M)
    assert len(shares) == 2 and all(0 <= float(a) <= float(b) <= 1 for a, b in shares)
    assert numbers(notebook, "training", r"found first ([\d.]+)") != []

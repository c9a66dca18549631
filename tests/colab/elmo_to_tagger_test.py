"""The notebook from an ELMo to a tagger, at toy size."""

import collections
import re

import numpy as np
import pytest
import tensorflow as tf

from tfnlp import data

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets  # noqa: E402
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

NAME = "tfds:universal_dependencies/en_ewt"


def test_elmo_is_pretrained_and_helps_to_tag(tmp_path, monkeypatch):
    folder = str(tmp_path / "sets")
    sets.wikipedia(folder)
    sets.universal_dependencies(folder)
    notebook = run_notebook("elmo_to_tagger", tmp_path, TFDS_DATA_DIR=folder)

    monkeypatch.setenv("TFDS_DATA_DIR", folder)
    train, dev = (
        data.examples_of(f"{NAME}:{part}", "tag", text="tokens", label="upos").examples
        for part in ("train", "dev")
    )
    gold = np.array([tag for example in dev for tag in example.tags])
    counts = collections.defaultdict(collections.Counter)
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            counts[word][tag] += 1
    words = [word for example in dev for word in example.words]

    first, last = numbers(notebook, "training", r"(\d+) after \d+")
    assert last < 0.8 * first

    # The table, against counts made here and the exported module.
    rows = re.findall(r"^(.*?) +(\d\.\d+) +(\d\.\d+)$", text(notebook, "compare"), re.M)
    assert [name.split()[-1] for name, *_ in rows] == ["tag", "words", "ELMo"]
    assert f"all {len(gold)} words   {sum(w not in counts for w in words)} never seen" in text(
        notebook, "compare"
    )
    known = np.array([word in counts for word in words])
    commonest = [counts[word].most_common(1)[0][0] if word in counts else "" for word in words]
    right = np.array(commonest) == gold
    unseen = float(rows[0][2]) * (~known).sum()
    assert float(rows[0][1]) == pytest.approx((right.sum() + unseen) / len(gold), abs=1e-3)
    tagger = tf.saved_model.load(str(tmp_path / "elmo/tagger_module"))
    found = []
    for example in dev:
        found += (
            tagger({"text": tf.constant([" ".join(example.words)])})["tags"][0].numpy().tolist()
        )
    same = np.array(found).astype(str) == gold
    assert [float(x) for x in rows[2][1:]] == pytest.approx(
        [same.mean(), same[~known].mean()], abs=6e-4
    )
    assert same.mean() > 0.5  # a fifth of the words have the commonest tag

    shares = numbers(notebook, "mix", r" (\d\.\d+)")
    assert len(shares) == 3 and sum(shares) == pytest.approx(1, abs=0.002) and np.ptp(shares) > 0
    for tag in ("senses", "mix"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    for line in text(notebook, "load").splitlines():
        pairs = [pair.rsplit("/", 1) for pair in line.split()]
        sentence = " ".join(word for word, _ in pairs)
        tags = tagger({"text": tf.constant([sentence])})["tags"][0].numpy().astype(str)
        assert [tag for _, tag in pairs] == list(tags)
    assert len(text(notebook, "load").splitlines()) == 2

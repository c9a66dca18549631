"""The notebook of a GPT that writes and is fine-tuned, at toy size."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets  # noqa: E402
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

PROMPT = "ROMEO: I will"


def test_gpt_writes_is_fine_tuned_and_both_are_exported(tmp_path):
    sets.tiny_shakespeare(tmp_path / "sets")
    sets.glue(tmp_path / "sets")
    notebook = run_notebook(
        "gpt_write_and_finetune", tmp_path, TFDS_DATA_DIR=str(tmp_path / "sets")
    )
    assert "glue/sst2 {'train': 1200, 'validation': 40}" in text(notebook, "data")

    first, last = numbers(notebook, "curve", r"([\d.]+) after \d+")
    assert last < 0.9 * first < 400  # as many tokens as there are
    for tag in ("curve", "surprise", "temperatures"):
        assert [is_drawn(picture, least=60) for picture in pictures(notebook, tag)] == [True]
    (pieces,) = text(notebook, "surprise").splitlines()
    sentence = "KING: My lord, I will not fight with you unreasonably."
    assert pieces.replace("|", "").replace("·", " ") == r"\n" + sentence

    drawn = re.findall(r"^\[(.*?)\] ROMEO: I will", text(notebook, "writing"), re.M)
    assert drawn == [
        *("temperature 0", "temperature 0.7", "temperature 1.3", "top_k 5", "top_p 0.8"),
        "beams 4",
    ]
    assert text(notebook, "streaming").endswith("(10 pieces)\n")

    # Both modules in plain TensorFlow, here and in the notebook's own new Python.
    writer = tf.saved_model.load(str(tmp_path / "gpt/writer/model"))
    written = writer.signatures["generate"](
        prompt=tf.constant([PROMPT]),
        max_new_tokens=tf.constant(10),
        temperature=tf.constant(0.0),
        top_k=tf.constant(0),
        top_p=tf.constant(1.0),
        seed=tf.constant(0),
    )["text"][0]
    written = written.numpy().decode("utf-8", "replace")
    assert f"[temperature 0] {written}\n" in text(notebook, "writing")
    assert text(notebook, "load").startswith(written)

    judge = tf.saved_model.load(str(tmp_path / "gpt/judge"))
    lines = re.findall(r"(\w+) +([\d.]+)  (.*)", text(notebook, "compare"))
    outputs = judge({"text": tf.constant([phrase for *_, phrase in lines])})
    found = [label.decode() for label in outputs["label"].numpy()]
    assert len(lines) == 3 and [label for label, *_ in lines] == found
    largest = outputs["probabilities"].numpy().max(-1)
    assert [float(p) for _, p, _ in lines] == pytest.approx(largest, abs=0.0051)
    assert [line.split()[0] for line in text(notebook, "load").splitlines()[-2:]] == found[:2]

    # The accuracy is that of the exported module, beside that of one answer for all.
    rows = list(sets.sst2(40, seed=1))
    labels = np.array([("negative", "positive")[row["label"]] for row in rows])
    said = judge({"text": tf.constant([row["sentence"] for row in rows])})["label"]
    always, scratch, this = numbers(notebook, "compare", r"([\d.]+) ±")
    assert always == pytest.approx(max(np.mean(labels == name) for name in labels), abs=6e-4)
    right = np.mean(said.numpy().astype(str) == labels)
    assert right == pytest.approx(max(scratch, this), abs=6e-4)  # the better one is kept
    assert right > always

"""The notebook that trains a GPT and lets it write, at toy size."""

import re

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

pytest.importorskip("nbclient")
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_gpt_is_trained_writes_and_is_exported(tmp_path):
    notebook = run_notebook("generate_gpt", tmp_path)

    shown = text(notebook, "tokens").splitlines()
    for line, words in zip(
        shown, ("Mary opened the door.", "The gardener gardened unbelievably."), strict=True
    ):
        assert line.replace("|", "").replace("·", " ") == words

    read, guessed = (line.split()[1:] for line in text(notebook, "windows").splitlines()[1:])
    assert read[1:] == guessed[:-1]  # what is guessed is what is read next

    first, last = numbers(notebook, "training", r"steps: ([\d.]+)")
    assert last < 0.9 * first

    for tag in ("curve", "probabilities", "surprise"):
        assert [is_drawn(picture, least=60) for picture in pictures(notebook, tag)] == [True]

    drawn = re.findall(r"^\[(.*?)\] Mary opened the door and", text(notebook, "temperature"), re.M)
    assert drawn == ["temperature 0.4", "temperature 0.8", "temperature 1.3"]
    drawn = re.findall(r"^\[(.*?)\] Mary opened the door and", text(notebook, "truncation"), re.M)
    assert drawn == ["top_k=5", "top_p=0.8", "4 beams"]
    assert text(notebook, "streaming").endswith("(10 pieces)\n")

    # The exported model, in plain TensorFlow, writes what the notebook wrote.
    prompt = "Mary opened the door and"
    model = tf.saved_model.load(str(tmp_path / "gpt/modules/model"))
    written = model.signatures["generate"](
        prompt=tf.constant([prompt]),
        max_new_tokens=tf.constant(10),
        temperature=tf.constant(0.0),
        top_k=tf.constant(0),
        top_p=tf.constant(1.0),
        seed=tf.constant(0),
    )["text"][0]
    assert text(notebook, "greedy") == written.numpy().decode("utf-8", "replace") + "\n"
    assert text(notebook, "load").startswith("The robin")
    assert "\n\nDickon said" in text(notebook, "load")
    assert text(notebook, "gpt2") == "no folder given\n"

"""ELECTRA from a text to served modules, with a kill on the way."""

import signal
import subprocess

import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import tfnlp
from tests.cli.toy_tasks import (
    TEXTS,
    assert_served,
    finetuned,
    inputs_of,
    read_without_tfnlp,
    write_toys,
)
from tests.support import run_python, start_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 6
READ = """
import sys, tensorflow as tf, tensorflow_text
preprocessor, encoder = (tf.saved_model.load(f"{sys.argv[1]}/{n}") for n in sys.argv[2:])
inputs = preprocessor(tf.constant(["the dog ran"]))
marked = encoder.discriminator(inputs, training=False)
print(float(tf.reduce_sum(encoder(inputs)["sequence_output"])))
print(float(tf.reduce_sum(marked["discriminator_logits"])), marked["discriminator_logits"].shape)
"""


def weights(folder):
    return [v.numpy() for v in library.load(folder).pretrainer.trainable_variables]


def test_from_text_to_served_modules(tmp_path, capsys):
    text = tmp_path / "text.txt"
    rng = np.random.default_rng(0)
    lines = (" ".join(rng.permutation(" ".join(TEXTS).split())) for _ in range(90))
    text.write_text("\n".join("\n" * (i % 5 == 4) + line for i, line in enumerate(lines)))
    command = [
        "pretrain", "electra", "--input", text, "--vocab-size", 60, "--steps", STEPS,
        "--batch-size", 4, "--seq-length", 24, "--max-positions", 64, "--hidden-size", 16,
        "--held-out", 0.3, "--num-heads", 4, "--generator-size", 0.5,
        "--checkpoint-every", 1, "--output",
    ]  # fmt: skip
    assert tfnlp(*command, tmp_path / "whole") == 0

    killed = start_python("-m", "tfnlp", *command, tmp_path / "killed", stderr=subprocess.PIPE)
    for line in killed.stderr:
        if "step 2 held out" in line:
            killed.send_signal(signal.SIGKILL)
            break
    killed.stderr.close()
    assert killed.wait() == -signal.SIGKILL
    assert tfnlp(*command, tmp_path / "killed") == 0
    for ours, theirs in zip(*map(weights, (tmp_path / "killed", tmp_path / "whole")), strict=True):
        np.testing.assert_array_equal(ours, theirs)

    run = tmp_path / "whole"
    model = library.load(run)
    found = model.evaluate(str(text), seq_length=24, batches=2)
    assert {"masked_lm_accuracy", "discriminator_accuracy", "replaced"} <= set(found)
    assert found == model.evaluate(str(text), seq_length=24, batches=2)
    ((first, p), *rest) = model.predict(["the dog ran"])[0]
    assert first == "the" and 0 < p < 1 and len(rest) >= 2
    capsys.readouterr()
    assert tfnlp("predict", "electra", "--model", run, "--threshold", 0, "the dog ran") == 0
    assert capsys.readouterr().out == (
        " ".join(f"[{t} {q:.2f}]" for t, q in [(first, p), *rest]) + "\n"
    )

    model.save(tmp_path / "published")
    assert library.load(tmp_path / "published").predict(["the dog ran"])[0][0] == (first, p)
    exported = tmp_path / "exported"
    assert tfnlp("export", "--model", run, "--output", exported, "--seq-length", 12) == 0
    done = run_python(READ, exported, "preprocessor", "encoder", without_tfnlp=True)
    total, logits = done.stdout.splitlines()
    assert float(total) == pytest.approx(float(np.sum(sequence(model))), abs=1e-3)
    assert logits.endswith("(1, 12)")

    files, asked, predictions = write_toys(tmp_path), {}, {}
    for name, backbone in (("classify", run), ("tag", exported)):
        task = tmp_path / f"task_{name}"
        predictions[name] = finetuned(name, backbone, files, task)
        assert tfnlp("export", "--model", task, "--output", task / "module") == 0
        asked[name] = task / "module", inputs_of(name, files[name][-1])
    said = read_without_tfnlp(tmp_path, asked)
    for name in asked:
        assert_served(name, said[name], predictions[name])


def sequence(model):
    """The vectors that the exported encoder gives for `the dog ran` in 12 positions."""
    from tfnlp.hub import BertPreprocessorModule

    inputs = BertPreprocessorModule(model.tokenizer, 12)(["the dog ran"])
    return model.encoder(inputs)["sequence_output"]

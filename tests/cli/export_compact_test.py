"""`tfnlp export --weights` and `--litert`."""

import numpy as np
import pytest
import tensorflow as tf

from tests.cli.command import tfnlp
from tests.cli.toy_tasks import backbone
from tests.support import golden
from tfnlp import hub
from tfnlp.convert import load_bert, load_gpt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # exports trace much; a busy machine takes its time
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated"),
]


def lite(path, inputs):
    """What a LiteRT file gives for the inputs."""
    runner = tf.lite.Interpreter(model_path=str(path)).get_signature_runner("serving_default")
    return runner(**{name: x.numpy() for name, x in inputs.items()})


def test_bert(tmp_path, capsys):
    model = golden("bert_google_tf_generated")
    command = ["export", "--model", model, "--output", tmp_path / "m", "--seq-length", "8"]
    assert tfnlp(*command, "--weights", "int8", "--litert", tmp_path / "m" / "x.tflite") == 0
    said = capsys.readouterr().out
    assert "weights as int8: " in said and " MB; outputs of up to " in said
    assert f"encoder: {tmp_path / 'm' / 'encoder'}" in said and "litert: " in said
    encoder, preprocessor = (
        tf.saved_model.load(str(tmp_path / "m" / x)) for x in ("encoder", "preprocessor")
    )
    inputs = preprocessor(tf.constant(["the dog", "a cat sat here"]))
    loaded = load_bert(model)
    want, got = loaded.encoder(inputs), encoder(inputs)
    for outputs in (got, lite(tmp_path / "m" / "x.tflite", inputs)):
        np.testing.assert_allclose(outputs["pooled_output"], want["pooled_output"], atol=0.1)
        np.testing.assert_allclose(outputs["sequence_output"], want["sequence_output"], atol=0.4)
    np.testing.assert_array_equal(got["default"], got["pooled_output"])
    positions = {**inputs, "masked_lm_positions": tf.constant([[1], [2]])}
    np.testing.assert_allclose(
        encoder.mlm(positions)["mlm_logits"],
        loaded.pretrainer(positions)["mlm_logits"],
        atol=0.5,
    )
    assert len(encoder.trainable_variables) == 0


def test_gpt(tmp_path, capsys):
    folder = backbone("gpt", tmp_path)
    command = ["export", "--model", folder, "--output", tmp_path / "m", "--seq-length", "9"]
    assert tfnlp(*command, "--weights", "bfloat16", "--litert", tmp_path / "x.tflite") == 0
    said = capsys.readouterr().out
    assert f"litert: {tmp_path / 'x.tflite'}" in said and "weights as bfloat16: " in said
    model, preprocessor = (
        tf.saved_model.load(str(tmp_path / "m" / x)) for x in ("model", "preprocessor")
    )
    inputs = preprocessor(tf.constant(["the dog", "a cat sat here"]))
    want = load_gpt(folder).pretrainer(inputs)
    for outputs in (model(inputs), lite(tmp_path / "x.tflite", inputs)):
        for name in ("sequence_output", "lm_logits"):
            np.testing.assert_allclose(outputs[name], want[name], atol=0.05)
    np.testing.assert_array_equal(model(inputs)["default"], model(inputs)["sequence_output"])
    arguments = [tf.constant(x) for x in (["the dog"], 4, 0.0, 0, 1.0, 0)]
    assert model.generate(*arguments)["text"].numpy()[0].startswith(b"the dog")


def test_litert_leaves_the_pair_of_a_gpt_as_it_is(tmp_path, capsys, monkeypatch):
    folder, asked = backbone("gpt", tmp_path), []
    paths = "model", "preprocessor"
    monkeypatch.setattr(hub, "export_gpt", lambda *a, **k: asked.append((*a, k)) or paths)
    command = ["export", "--model", folder, "--output", tmp_path / "m", "--seq-length", "9"]
    assert tfnlp(*command, "--litert", tmp_path / "x.tflite") == 0
    assert "weights as" not in capsys.readouterr().out
    ((directory, pretrainer, _, keywords),) = asked
    assert directory == str(tmp_path / "m")
    assert keywords == dict(seq_length=9, overwrite=False, weights=None)
    inputs = {
        "input_word_ids": tf.constant([[5, 6, 7, 8, 9, 10, 11, 0, 0]] * 2),
        "input_mask": tf.constant([[1] * 7 + [0] * 2] * 2),
    }
    found, want = lite(tmp_path / "x.tflite", inputs), pretrainer(inputs)
    for name in ("sequence_output", "lm_logits"):
        np.testing.assert_allclose(found[name], want[name], atol=1e-4)
    # And is not written over.
    (tmp_path / "x.tflite").write_text("mine")
    assert tfnlp(*command, "--litert", tmp_path / "x.tflite") == 1
    assert "x.tflite exists; choose another file" in capsys.readouterr().err
    assert len(asked) == 1

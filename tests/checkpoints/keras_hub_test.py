import json
import sys
import zipfile

import keras
import numpy as np
import pytest

import tfnlp
from tests.support import golden
from tfnlp import checkpoints, models

pytestmark = pytest.mark.slow  # keras-hub alone takes seconds to import
CLOSE = dict(rtol=1e-5, atol=1e-5)
NAMES = {  # keras-hub's inputs
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
    "mask_positions": "masked_lm_positions",
}
HEADS = dict.fromkeys(["albert", "bert", "distilbert", "roberta"], "mlm_logits")
HEADS["gpt2"] = "lm_logits"


@pytest.fixture(scope="module")
def keras_hub():
    return pytest.importorskip("keras_hub")


IN_LONG = [pytest.param(x, marks=pytest.mark.long) for x in ("bert", "distilbert", "roberta")]


@pytest.fixture(scope="module", params=["albert", "gpt2", *IN_LONG])
def preset(request, tmp_path_factory):
    """The name of a golden preset, its folder, and what keras-hub computed."""
    folder = tmp_path_factory.mktemp(request.param)
    with zipfile.ZipFile(golden(f"keras_hub/{request.param}.zip")) as archive:
        archive.extractall(folder)
    return request.param, folder, dict(np.load(golden(f"keras_hub/{request.param}_expected.npz")))


def part(arrays, kind):
    return {n.removeprefix(kind): x for n, x in arrays.items() if n.startswith(kind)}


def called(model, inputs):
    """The outputs of tfnlp's model for the inputs of keras-hub's."""
    inputs = {NAMES[key]: x for key, x in inputs.items()}
    inputs["input_type_ids"] = inputs.get("input_type_ids", 0 * inputs["input_word_ids"])
    return model({name: inputs[name] for name in model.input})


def same_weights(a, b):
    assert [v.path for v in a.weights] == [v.path for v in b.weights]
    for x, y in zip(a.weights, b.weights, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=x.path)


@pytest.fixture(scope="module")
def loaded(preset, keras_hub):
    return checkpoints.from_keras_hub(preset[1])


def test_presets_compute_what_keras_hub_does(preset, loaded):
    name, _, arrays = preset
    inputs, want = part(arrays, "inputs/"), part(arrays, "outputs/")
    real = inputs["padding_mask"].astype(bool)
    found = called(loaded.pretrainer, inputs)
    layers = found["encoder_outputs"][: 2 if name != "gpt2" else 1]  # GPT-2's last one is normed
    for i, x in enumerate(layers):
        np.testing.assert_allclose(x[real], want[f"block_{i}"][real], **CLOSE)
    np.testing.assert_allclose(
        found["sequence_output"][real], want["sequence_output"][real], **CLOSE
    )
    if "pooled_output" in want:
        np.testing.assert_allclose(found["pooled_output"], want["pooled_output"], **CLOSE)
    rows = real if name == "gpt2" else slice(None)
    np.testing.assert_allclose(found[HEADS[name]][rows], want["logits"][rows], **CLOSE)
    for text, ids in part(arrays, "ids/").items():
        assert loaded.tokenizer.tokenize([text]).to_list() == [ids.tolist()]


def test_there_and_back_changes_no_bit(preset, loaded, tmp_path):
    name, folder, arrays = preset
    task = checkpoints.to_keras_hub(loaded)
    same_weights(task, type(task).from_preset(str(folder)))
    inputs, want = part(arrays, "inputs/"), part(arrays, "outputs/")
    np.testing.assert_allclose(task(inputs), want["logits"], **CLOSE)
    for text, ids in part(arrays, "ids/").items():
        assert task.preprocessor.tokenizer([text])[0] == ids.tolist()
    task.save_to_preset(tmp_path / "preset")
    again = tfnlp.load(f"keras_hub:{tmp_path / 'preset'}")
    same_weights(again.pretrainer, loaded.pretrainer)
    assert again.config == loaded.config
    assert again.tokenizer.vocabulary == loaded.tokenizer.vocabulary
    assert again.family.name == {"gpt2": "gpt"}.get(name, name)
    assert again(["the cat sat"])["sequence_output"].shape[0] == 1


def test_backbones_and_tasks_in_memory(keras_hub):
    hub = keras_hub.models
    backbone = hub.BertBackbone(9, 1, 2, 4, 8, dropout=0.2, max_sequence_length=6, num_segments=3)
    loaded = checkpoints.from_keras_hub(backbone)
    assert loaded.pretrainer is None and loaded.config["num_segments"] == 3
    assert (loaded.config["dropout"], loaded.config["attention_dropout"]) == (0.2, 0.2)
    same_weights(checkpoints.to_keras_hub(loaded.encoder), backbone)
    classifier = hub.BertTextClassifier(backbone, num_classes=2)
    assert checkpoints.from_keras_hub(classifier).pretrainer is None
    with pytest.raises(ValueError, match="has no tokenizer"):
        loaded.tokenizer  # noqa: B018
    half = checkpoints.from_keras_hub(backbone, dtype="mixed_bfloat16")
    assert half.encoder.get_layer("layer_0").compute_dtype == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    with pytest.raises(ValueError, match="T5Backbone"):
        checkpoints.from_keras_hub(hub.T5Backbone(9, 1, 2, 4, 8))


def test_constants_of_keras_hub_are_checked(keras_hub):
    encoder = models.bert(9, 1, 4, 2, 8, 6)  # erf GELU, as published
    with pytest.raises(ValueError, match="activation='gelu'"):
        checkpoints.to_keras_hub(encoder)
    backbone = checkpoints.to_keras_hub(encoder, approximate=True)
    inputs = {"input_word_ids": [[1, 2, 3]], "input_mask": [[1, 1, 0]], "input_type_ids": [[0] * 3]}
    inputs = {name: np.array(x) for name, x in inputs.items()}
    theirs = {key: inputs[NAMES[key]] for key in backbone.input}
    found = encoder(inputs)["pooled_output"], backbone(theirs)["pooled_output"]
    np.testing.assert_allclose(*found, atol=1e-3)
    uneven = models.bert(9, 1, 4, 2, 8, 6, attention_dropout=0.0, activation="gelu_tanh")
    with pytest.raises(ValueError, match="dropout="):
        checkpoints.to_keras_hub(uneven)
    assert checkpoints.to_keras_hub(uneven, dropout=0.0).dropout == 0.0
    pretrainer = models.bert_pretrainer(models.bert(9, 1, 4, 2, 8, 6, activation="gelu_tanh"))
    with pytest.raises(ValueError, match="norm_epsilon=1e-12"):
        checkpoints.to_keras_hub(pretrainer)
    with pytest.raises(ValueError, match="has no counterpart"):
        checkpoints.to_keras_hub(models.gpt(9, 1, 4, 2, 8, 6))


def test_damaged_and_foreign_presets(tmp_path, keras_hub):
    with zipfile.ZipFile(golden("keras_hub/bert.zip")) as archive:
        archive.extractall(tmp_path)
    weights, config = tmp_path / "model.weights.h5", tmp_path / "config.json"
    whole, stated = weights.read_bytes(), config.read_text()
    weights.write_bytes(whole[:5000])
    one_line = r"keras-hub can't load '[^\n]*': [^\n]+\Z"
    with pytest.raises(ValueError, match=one_line):
        tfnlp.load(tmp_path)
    weights.write_bytes(whole)
    config.write_text(stated.replace("BertBackbone", "T5Backbone"))
    with pytest.raises(ValueError, match="is a T5Backbone"):
        tfnlp.load(tmp_path)
    (tmp_path / "task.json").unlink()  # it states the sizes too
    config.write_text(json.dumps({**json.loads(stated), "config": {"num_layers": "many"}}))
    with pytest.raises(ValueError, match=one_line):
        tfnlp.load(tmp_path)
    with pytest.raises(ValueError, match=one_line):
        tfnlp.load("keras_hub:no_such_preset")


def test_without_keras_hub_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(ImportError, match="pip install keras-hub"):
        tfnlp.load("keras_hub:bert_tiny_en_uncased")

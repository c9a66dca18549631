"""Checkpoints that the tests write: the fixtures under other names and in other containers."""

import json
import re
import shutil

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from tests.support import golden

GENERATED = "bert_google_tf_generated"  # 3 layers of 32, every head, weights of size 0.25


def google_arrays(name=GENERATED):
    """The fixture's tensors by Google's names, read with TensorFlow alone."""
    reader = tf.train.load_checkpoint(str(golden(name) / "bert_model.ckpt"))
    return {
        key: reader.get_tensor(key)
        for key in sorted(reader.get_variable_to_shape_map())
        if not key.endswith(("adam_m", "adam_v", "global_step"))
    }


def huggingface_arrays(name=GENERATED, prefix="bert.", legacy=False):
    """The same tensors renamed by string rules, not by the library's tables."""
    arrays = {}
    for key, array in google_arrays(name).items():
        if key.endswith("kernel"):
            array = np.ascontiguousarray(array.T)
        key = re.sub(r"layer_(\d+)", r"layer.\1", key.removeprefix("bert/")).replace("/", ".")
        key = key.replace("predictions.output_bias", "predictions.bias")
        key = re.sub(r"seq_relationship\.output_(weights|bias)", r"seq_relationship.\1", key)
        key = re.sub(r"seq_relationship.weights", "seq_relationship.weight", key)
        key = re.sub(r"kernel$", "weight", re.sub(r"embeddings$", "embeddings.weight", key))
        if not legacy:
            key = re.sub(r"gamma$", "weight", re.sub(r"beta$", "bias", key))
        arrays[key if key.startswith("cls.") else prefix + key] = array
    return arrays


def config_json(name=GENERATED, **changes):
    """The fixture's configuration with some values changed."""
    return {**json.loads((golden(name) / "bert_config.json").read_text()), **changes}


def write(folder, arrays, config=None, kind="safetensors", vocab=True):
    """A folder with the arrays, a configuration and the fixture's vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "safetensors":
        save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        np.savez(folder / "weights.npz", **arrays)
    (folder / "config.json").write_text(json.dumps(config or config_json()))
    if vocab:
        shutil.copy(golden(GENERATED) / "vocab.txt", folder)
    return folder


def copied(source, folder, file="config.json", change=None, **config):
    """A copy of a folder whose configuration has other values.

    `change` is a function of the tensors in `model.safetensors` to those in the copy.
    """
    shutil.copytree(source, folder, dirs_exist_ok=True)
    stated = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**stated, **config}))
    if change is not None:
        path = folder / "model.safetensors"
        save_file(change(load_file(path)), path, metadata={"format": "pt"})
    return folder


def assert_hidden(outputs, expected, real, prefix=""):
    """The embeddings and the outputs of all layers, where there is no padding."""
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    assert f"{prefix}hidden_{len(layers)}" not in expected
    for index, layer in enumerate(layers):
        found, want = np.asarray(layer)[real], expected[f"{prefix}hidden_{index}"][real]
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-5, err_msg=f"layer {index}")


def batch(expected):
    """Inputs of a pretrainer that predicts at every position."""
    inputs = {
        "input_word_ids": expected["input_ids"],
        "input_mask": expected["input_mask"],
        "input_type_ids": expected["segment_ids"],
    }
    rows, length = expected["input_ids"].shape
    inputs["masked_lm_positions"] = np.tile(np.arange(length), (rows, 1))
    return {name: array.astype("int32") for name, array in inputs.items()}


def weights(model):
    return {variable.path: variable.numpy() for variable in model.weights}


def assert_same_weights(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    for path in one:
        np.testing.assert_array_equal(one[path], other[path], err_msg=path)


def assert_same_tensors(folder, other, left_out=()):
    """Two folders of Hugging Face hold the same weights; zeros are in place of those left out."""
    one, other = (load_file(each / "model.safetensors") for each in (folder, other))
    assert one.keys() == other.keys()
    for name, tensor in other.items():
        tensor = 0 * tensor if name in left_out else tensor
        np.testing.assert_array_equal(one[name], tensor, err_msg=name)

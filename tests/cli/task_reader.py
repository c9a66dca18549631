"""Uses exported task modules where tfnlp can't be imported.

`python task_reader.py FOLDER` reads FOLDER/asked.json, name to [module, inputs], and writes what
each module's signature gives to FOLDER/said.json.
"""

import json
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401


def plain(x):
    """A tensor as JSON takes it."""
    return decoded(x.numpy().tolist())


def decoded(y):
    if isinstance(y, list):
        return [decoded(z) for z in y]
    return y.decode() if isinstance(y, bytes) else y


with open(f"{sys.argv[1]}/asked.json", encoding="utf-8") as file:
    asked = json.load(file)
said = {}
for name, (path, inputs) in asked.items():
    module = tf.saved_model.load(path)
    inputs = {key: tf.constant(value) for key, value in inputs.items()}
    outputs = module.signatures["serving_default"](**inputs)
    if not said:  # one shows that a call and the signature are the same
        same = module(inputs)
        for key, value in outputs.items():
            tf.debugging.assert_equal(value, same[key])
    found = {key: plain(value) for key, value in outputs.items()}
    found["names"] = plain(module.labels())
    with open(module.labels_asset.asset_path.numpy().decode(), encoding="utf-8") as file:
        found["names_asset"] = file.read().splitlines()
    said[name] = found
with open(f"{sys.argv[1]}/said.json", "w", encoding="utf-8") as file:
    json.dump(said, file)

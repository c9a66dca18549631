"""Uses exported ELMo modules in a process that has TensorFlow and nothing else.

`python elmo_reader.py FOLDER` loads FOLDER/cache (the mix is trained) and FOLDER/all (all weights,
no dropout) in the ways people do, and writes what it saw to FOLDER/seen.npz.
"""

import os
import sys

BLOCKED = ("tfnlp", "keras", "tensorflow_text", "tensorflow_hub", "tf_keras")
sys.modules.update(dict.fromkeys(BLOCKED))  # importing one, or anything in it, now fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

folder = sys.argv[1]
texts = tf.constant(["the cat  sat", "", "naïve 北京 cat <UNK>"])
tokens = tf.constant([["the", "cat", "sat", "rest"], ["x"] * 4, ["naïve", "北京", "cat", "<UNK>"]])
lengths = tf.constant([3, -2, 9])
seen = {}


def listed(prefix, outputs):
    seen.update({f"{prefix}/{name}": x.numpy() for name, x in outputs.items()})


def gradients(module, training, losses):
    with tf.GradientTape() as tape:
        outputs = module(texts, training=training)
        loss = tf.add_n([tf.reduce_sum(outputs[name] ** 2) for name in losses])
    return tape.gradient(loss, module.trainable_variables)


def dense(gradient):
    return tf.convert_to_tensor(gradient).numpy()


modules = {name: tf.saved_model.load(f"{folder}/{name}") for name in ("cache", "all")}

for name, module in modules.items():
    listed(f"{name}/text", module(texts))
    listed(f"{name}/tokens", module({"tokens": tokens, "sequence_len": lengths}))
    listed(f"{name}/default", module.signatures["default"](text=texts))
    listed(f"{name}/signature", module.signatures["tokens"](tokens=tokens, sequence_len=lengths))
    first, second = (module(texts, training=True)["default"] for _ in range(2))
    seen[f"{name}/dropout"] = np.abs(first - second).max()
    seen[f"{name}/counts"] = np.array([len(module.variables), len(module.trainable_variables)])
    seen[f"{name}/regularization"] = np.array([x().numpy() for x in module.regularization_losses])
    for training in (True, False):
        got = gradients(module, training, ("elmo", "default", "lstm_outputs1"))
        for i, gradient in enumerate(got):  # an absent one would end the script
            seen[f"{name}/gradient/{training}/{i}"] = dense(gradient)
trained = {id(v) for v in modules["cache"].trainable_variables}
others = [v for v in modules["cache"].variables if id(v) not in trained]
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(modules["cache"](texts, training=True)["elmo"])
seen["frozen"] = np.array([g is None for g in tape.gradient(loss, others)])

# Load, save again, and load that where the first is gone.
tf.saved_model.save(
    modules["cache"], f"{folder}/again", signatures=dict(modules["cache"].signatures)
)
os.rename(f"{folder}/cache", f"{folder}/moved")
again = tf.saved_model.load(f"{folder}/again")
listed("again", again(texts))
listed("again/signature", again.signatures["default"](text=texts))
os.rename(f"{folder}/moved", f"{folder}/cache")
np.savez(f"{folder}/seen.npz", **seen)

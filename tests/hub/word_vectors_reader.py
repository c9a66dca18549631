"""Uses exported word vectors in a process that has TensorFlow and nothing else.

`python word_vectors_reader.py FOLDER` loads FOLDER/buckets and FOLDER/subwords and writes what it
saw to FOLDER/seen.npz.
"""

import os
import sys

BLOCKED = ("tfnlp", "keras", "tensorflow_text", "tensorflow_hub", "tf_keras")
sys.modules.update(dict.fromkeys(BLOCKED))  # importing one, or anything in it, now fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

folder = sys.argv[1]
texts = tf.constant(["the cat  sat", "", "unseen 北京 cat unseen", "naïve"])
seen = {}
for name in ("buckets", "subwords"):
    module = tf.saved_model.load(f"{folder}/{name}")
    seen[f"{name}/text"] = module(texts).numpy()
    seen[f"{name}/signature"] = module.signatures["default"](text=texts)["default"].numpy()
    seen[f"{name}/none"] = module(tf.constant([], "string")).numpy()
    counts = [len(module.variables), len(module.trainable_variables)]
    seen[f"{name}/counts"] = np.array([*counts, len(module.regularization_losses)])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(module(texts, training=True) ** 2)
    gradients = tape.gradient(loss, module.trainable_variables)
    for i, gradient in enumerate(gradients):  # an absent one would end the script
        seen[f"{name}/gradient/{i}"] = tf.convert_to_tensor(gradient).numpy()
    # Load, save again, and load that where the first is gone.
    tf.saved_model.save(module, f"{folder}/again", signatures=dict(module.signatures))
    os.rename(f"{folder}/{name}", f"{folder}/moved")
    again = tf.saved_model.load(f"{folder}/again")
    seen[f"{name}/again"] = again(texts).numpy()
    os.rename(f"{folder}/moved", f"{folder}/{name}")
np.savez(f"{folder}/seen.npz", **seen)

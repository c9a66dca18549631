"""Uses what `tfnlp.hub.export` wrote in a process where tfnlp and Keras 3 can't be imported.

`python export_reader.py FOLDER` loads FOLDER/mixed and FOLDER/text and writes what it saw to
FOLDER/seen.npz.
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tensorflow_text imports a Keras
sys.modules["tfnlp"] = sys.modules["keras"] = None  # importing them now fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

folder = sys.argv[1]
inputs = dict(np.load(f"{folder}/inputs.npz"))
inputs = {name: tf.constant(x.astype(str) if x.dtype.kind == "U" else x) for name, x in
          inputs.items()}  # fmt: skip
seen = {}


def note(name, outputs):
    for key, x in outputs.items():
        for i, part in enumerate(tf.nest.flatten(x)):
            seen[f"{name}/{key}/{i}"] = part.numpy()


# A user's model of strings, ids and floats: tables, dropout, batch normalization.
mixed = tf.saved_model.load(f"{folder}/mixed")
note("mixed", mixed(inputs))
note("served", mixed.signatures["some"](**inputs))
note("sub", mixed.scores(inputs))
seen["regularization"] = np.array([float(loss()) for loss in mixed.regularization_losses])
first, second = (mixed(inputs, training=True)["logits"] for _ in range(2))
seen["dropout"] = np.abs(first - second).max()
(mean,) = [v for v in mixed.variables if "moving_mean" in v.name]
seen["moving_mean"] = mean.numpy()  # after two steps

# A plain tape.
before = [v.numpy() for v in mixed.trainable_variables]
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(mixed(inputs, training=True)["logits"] ** 2)
gradients = tape.gradient(loss, mixed.trainable_variables)
for v, g in zip(mixed.trainable_variables, gradients, strict=True):
    v.assign_sub(0.1 * tf.convert_to_tensor(g))
seen["moved"] = np.array(
    [np.abs(v.numpy() - b).max() > 0 for v, b in
     zip(mixed.trainable_variables, before, strict=True)]
)  # fmt: skip

# Save again, load again.
changed = mixed(inputs)["logits"].numpy()
tf.saved_model.save(mixed, f"{folder}/again", signatures=mixed.signatures)
seen["again"] = np.abs(tf.saved_model.load(f"{folder}/again")(inputs)["logits"] - changed).max()

# Strings to vectors in one module.
text = tf.saved_model.load(f"{folder}/text")
sentences = inputs["text"]
note("text", text(sentences))
note("text_encoder", text.encoder(text.preprocessor(sentences)))
note("mlm", text.encoder.mlm(
    {**text.preprocessor(sentences), "masked_lm_positions": tf.constant([[1, 2]] * 4)}
))  # fmt: skip

np.savez(f"{folder}/seen.npz", **seen)

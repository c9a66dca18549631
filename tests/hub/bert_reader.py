"""Uses exported modules in a process where tfnlp can't be imported.

`python bert_reader.py FOLDER` loads FOLDER/encoder and FOLDER/preprocessor in every way that people
do and writes what it saw to FOLDER/seen.npz.
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.modules["tfnlp"] = None  # importing it, or anything in it, now fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

folder = sys.argv[1]
encoder_path, preprocessor_path = f"{folder}/encoder", f"{folder}/preprocessor"
seen = {}

# Plain TensorFlow.
preprocessor = tf.saved_model.load(preprocessor_path)
encoder = tf.saved_model.load(encoder_path)
inputs = preprocessor(tf.constant(["the cat sat", "a dog ran to the cat"]))
for name, x in inputs.items():
    seen[f"inputs/{name}"] = x.numpy()
outputs = encoder(inputs)
for name in ("pooled_output", "sequence_output", "default", "embedding_output"):
    seen[f"outputs/{name}"] = outputs[name].numpy()
for i, x in enumerate(outputs["encoder_outputs"]):
    seen[f"encoder_outputs/{i}"] = x.numpy()
for name, x in encoder.signatures["serving_default"](**inputs).items():
    seen[f"served/{name}"] = x.numpy()
positions = tf.constant([[1, 2], [3, 1]])
seen["mlm_logits"] = encoder.mlm({**inputs, "masked_lm_positions": positions})["mlm_logits"].numpy()
seen["static"] = np.array(
    [encoder.__call__.get_concrete_function(
        {k: tf.TensorSpec([None, None], tf.int32, name=k) for k in inputs}, training=False
    ).structured_outputs[k].shape[-1] for k in ("sequence_output", "pooled_output")]
)  # fmt: skip

# Dropout: off by default, on and different at every call when training.
again = encoder(inputs, training=False)["default"]
first, second = (encoder(inputs, training=True)["default"] for _ in range(2))
seen["repeat"] = np.abs(again - outputs["default"]).max()
seen["dropout"] = np.abs(first - second).max()
seen["regularization"] = np.array([float(loss()) for loss in encoder.regularization_losses])
seen["variables"] = np.array([len(encoder.variables), len(encoder.trainable_variables)])

# A plain tape, used twice: gradients reach every weight.
for training in (True, False):
    with tf.GradientTape() as tape:
        out = encoder(inputs, training=training)
        loss = tf.reduce_sum(out["sequence_output"] ** 2) + tf.reduce_sum(out["pooled_output"])
    gradients = tape.gradient(loss, encoder.trainable_variables)
    seen[f"gradients/{training}"] = np.array([g is not None for g in gradients])

# Tokenize and pack by hand.
words = preprocessor.tokenize(tf.constant(["the cat", "a dog ran"]))
seen["tokenize/shape"] = np.array([words.ragged_rank, words.shape.rank])
pairs = preprocessor.bert_pack_inputs([words, words], seq_length=10)
for name, x in pairs.items():
    seen[f"pairs/{name}"] = x.numpy()
default_length = preprocessor.bert_pack_inputs([words])
seen["pairs/default_length"] = np.array(default_length["input_word_ids"].shape)
special = preprocessor.tokenize.get_special_tokens_dict()
seen["special"] = np.array([special[k].numpy() for k in sorted(special)])

# Load, save again, load again.
tf.saved_model.save(encoder, f"{folder}/again/encoder", signatures=encoder.signatures)
tf.saved_model.save(preprocessor, f"{folder}/again/preprocessor")
os.rename(preprocessor_path, f"{folder}/moved")  # the copy must carry its own vocabulary
copy = tf.saved_model.load(f"{folder}/again/preprocessor")
os.rename(f"{folder}/moved", preprocessor_path)
seen["again"] = tf.saved_model.load(f"{folder}/again/encoder")(
    copy(tf.constant(["the cat sat", "a dog ran to the cat"]))
)["default"].numpy()
np.savez(f"{folder}/seen.npz", **seen)

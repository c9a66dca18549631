"""Uses modules of keras-hub's models where keras-hub, Keras 3 and tfnlp can't be imported.

`python keras_hub_reader.py FOLDER` loads the modules in FOLDER and writes what it saw to
FOLDER/seen.npz.
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tensorflow_text imports a Keras
sys.modules["tfnlp"] = sys.modules["keras"] = sys.modules["keras_hub"] = None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

folder = sys.argv[1]
inputs = np.load(f"{folder}/inputs.npz")
texts, others = (tf.constant(inputs[name].astype(str)) for name in ("texts", "others"))
seen = {}

for name in ("bert", "gpt2"):
    module = tf.saved_model.load(f"{folder}/{name}")
    seen[name] = module(texts).numpy()
    (served,) = module.signatures["serving_default"](sentences=texts).values()
    seen[f"{name}_served"] = served.numpy()
    if "serving_pairs" in module.signatures:
        seen[f"{name}_pairs"] = module([texts, others]).numpy()
        pairs = module.signatures["serving_pairs"](text_a=texts, text_b=others)
        (seen[f"{name}_pairs_served"],) = (x.numpy() for x in pairs.values())
    seen[f"{name}_operations"] = np.array(
        sorted({n.op for f in module.__call__.concrete_functions
                for n in f.graph.as_graph_def().library.function for n in n.node_def})
    )  # fmt: skip

np.savez(f"{folder}/seen.npz", **seen)

"""Runs snippets in the Keras that `TF_USE_LEGACY_KERAS` chooses, and keeps what they made.

`python snippets_reader.py FOLDER` reads FOLDER/snippets.json, for each name pieces of code and an
expression for each result. It writes FOLDER/seen.npz, with `name/result`, and `name/error` if the
snippet failed. Between its pieces the `model` of a snippet gets the weights of `start`.
"""

import json
import sys
import traceback

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of WordPiece


def start(model):
    """Give the layers behind the module the weights that the test knows."""
    rng = np.random.default_rng(0)
    for layer in model.layers[1:]:
        layer.set_weights([rng.normal(0, 0.5, w.shape) for w in layer.get_weights()])


def arrays(name, value):
    if isinstance(value, dict):
        for key, x in value.items():
            yield from arrays(f"{name}/{key}", x)
    else:
        yield name, value


def made(snippets):
    """What snippets make, by name."""
    seen = {"library": tf.keras.Model.__module__.split(".")[0]}
    for name, (pieces, results) in snippets.items():
        names = {}
        try:
            for i, piece in enumerate(pieces):
                if i:
                    start(names["model"])
                exec(piece, names)
            for result, expression in results.items():
                seen.update(arrays(f"{name}/{result}", eval(expression, names)))
        except Exception:
            seen[f"{name}/error"] = traceback.format_exc()
    return {key: np.asarray(x) for key, x in seen.items()}


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/snippets.json") as file:
        np.savez(f"{sys.argv[1]}/seen.npz", **made(json.load(file)))

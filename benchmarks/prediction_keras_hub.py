"""keras-hub in `benchmarks.prediction`."""

import json
import sys

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.prediction import CLASSES, LONGEST, SIZES, VOCAB, in_batches, take_turns

MULTIPLE = 8  # of lengths


def main():
    case = json.loads(sys.argv[1])
    mixed, rows = case["lengths"] == "mixed", case["batch"]
    modes = {}
    narrow = ("mixed_bfloat16", "bfloat16")
    for dtype in ("float32",) if case["dtype"] == "float32" else narrow:
        model = classifier(case, dtype)
        modes[f"{dtype}, tf.function, {rows}"] = function(model, rows, False)
        modes[f"{dtype}, predict, {rows}"] = method(model, rows)
        if mixed and rows != 8:
            modes[f"{dtype}, tf.function, 8"] = function(model, 8, False)
        if not mixed:
            modes[f"{dtype}, XLA, {rows}"] = function(model, rows, True)
    take_turns(case, modes)


def classifier(case, dtype):
    layers, hidden, heads = SIZES[case["size"]]
    keras.config.set_dtype_policy(dtype)
    backbone = keras_hub.models.BertBackbone(
        VOCAB, layers, heads, hidden, 4 * hidden, max_sequence_length=512
    )
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=CLASSES, preprocessor=None)
    model.compile(jit_compile=False)
    return model


def inputs(ids, mask):
    ids, mask = ids.astype(np.int32), mask.astype(np.int32)
    return {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}


def function(model, rows, jit):
    names = ("token_ids", "padding_mask", "segment_ids")
    specs = {name: tf.TensorSpec([None, LONGEST if jit else None], "int32") for name in names}
    call = tf.function(
        lambda x: tf.cast(model(x, training=False), "float32"),
        input_signature=[specs], jit_compile=jit,
    )  # fmt: skip

    def logits(ids, mask):
        return call({name: tf.constant(x) for name, x in inputs(ids, mask).items()}).numpy()

    return lambda texts: in_batches(texts, rows, logits, MULTIPLE)


def method(model, rows):
    def logits(ids, mask):
        return np.float32(model.predict_on_batch(inputs(ids, mask)))

    return lambda texts: in_batches(texts, rows, logits, MULTIPLE)


if __name__ == "__main__":
    main()

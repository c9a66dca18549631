"""LiteRT (TensorFlow Lite) files of models, for phones and browsers."""

import re
from typing import Any

import tensorflow as tf

from tfnlp.files import first_line

ENDING = ".tflite"
FIXED_LENGTH = True  # an interpreter plans its memory for one length
_OPS = re.compile(r"'tf\.(\w+)' op is neither a custom op nor a flex op")


def check_installed() -> None:
    """Do nothing: the converter is a part of TensorFlow."""


def convert(function: Any, title: str, weights: str | None = None) -> bytes:
    """Return a LiteRT file whose signature `serving_default` is a concrete function.

    Only LiteRT's builtin ops are used, so any interpreter runs it. Open axes stay open. With
    `weights` "int8" matrices of more than 1,024 weights are int8, multiplied with quantized
    activations (the converter's dynamic-range quantization); "bfloat16" is float16, the 16-bit
    format that LiteRT has.
    """
    holder = tf.__internal__.tracking.AutoTrackable()
    holder.variables = list(function.graph.variables)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], holder)
    if weights is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "bfloat16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        return converter.convert()
    except Exception as error:  # ConverterError, which is not public, and errors of graphs
        ops = [e.operator.name.removeprefix("tf.") for e in getattr(error, "errors", ())]
        ops = sorted({*ops, *_OPS.findall(str(error))} - {"", "Placeholder"})
        if not ops:
            raise ValueError(f"{title} cannot be a LiteRT file: {first_line(error)}") from error
        inputs = tf.nest.flatten(function.structured_input_signature)
        open_axes = any(None in x.shape[1:] for x in inputs)
        raise ValueError(
            f"{title} cannot be a LiteRT file, which lacks {', '.join(ops)}"
            + ("; fixed lengths instead of open ones may help" if open_axes else "")
        ) from error

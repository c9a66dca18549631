"""LiteRT (TensorFlow Lite) files of models, for phones and browsers."""

import contextlib
import logging
import os
import re
import tempfile
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfnlp.files import named_errors, written_whole
from tfnlp.hub.saving.keras_module import serving, symbols

_OPS = re.compile(r"'tf\.(\w+)' op is neither a custom op nor a flex op")


def convert(
    model: keras.Model,
    spec: Any,
    names: Collection[str] | None = None,
    weights: str | None = None,
) -> bytes:
    """Return a LiteRT file whose signature `serving_default` is `model`'s inference.

    Only LiteRT's builtin ops are used, so any interpreter runs it. Open axes stay open.

    Args:
        model: a functional or built Sequential Keras model.
        spec: nest of `tf.TensorSpec`s with names, its inputs.
        names: outputs, see `KerasModule.signature`; None: all.
        weights: None for float32; "int8": the converter's dynamic-range quantization: matrices of
            more than 1,024 weights as int8, multiplied with quantized activations; "bfloat16":
            float16, the 16-bit format that LiteRT has.

    Raises:
        ValueError: if the model needs ops that LiteRT lacks; it names them.
    """
    function = serving(model, spec, symbols(model)[1], names)
    holder = tf.__internal__.tracking.AutoTrackable()
    holder.variables = list(function.graph.variables)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], holder)
    if weights is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "bfloat16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        with _silence():
            return converter.convert()
    except Exception as error:  # ConverterError, which is not public, and errors of graphs
        ops = _missing(error)
        if not ops:
            reason = str(error).strip().split("\n")[0]
            raise ValueError(f"model {model.name} cannot be a LiteRT file: {reason}") from error
        open_axes = any(None in x.shape[1:] for x in tf.nest.flatten(spec))
        raise ValueError(
            f"model {model.name} cannot be a LiteRT file, which lacks {', '.join(ops)}"
            + ("; fixed lengths instead of open ones may help" if open_axes else "")
        ) from error


def check_file(
    path: str | os.PathLike, directory: str | os.PathLike, overwrite: bool = False
) -> None:
    """Raise ValueError or FileExistsError if `written` should not write the file `path`.

    Args:
        path: the LiteRT file.
        directory: the SavedModel that is written with it; the file can't be in it.
        overwrite: whether a file may be replaced.
    """
    path, directory = os.path.abspath(os.fspath(path)), os.path.abspath(directory)
    if path == directory or path.startswith(directory + os.sep):
        raise ValueError(
            f"litert={path} is inside the SavedModel {directory}; choose another place"
        )
    if os.path.isdir(path) or (os.path.exists(path) and not overwrite):
        raise FileExistsError(f"{path} exists; choose another file, or `overwrite` it")


@contextlib.contextmanager
def written(path: str | os.PathLike | None, data: bytes | None) -> Iterator[None]:
    """Write `data` to the file `path` when the block ends without an error; None: no file."""
    if data is None:
        yield
        return
    path = os.path.abspath(os.fspath(path))
    folder = os.path.dirname(path)
    with named_errors(path, folder):
        os.makedirs(folder, exist_ok=True)
    with written_whole(path) as partial:
        with open(partial, "wb") as file:
            file.write(data)
        yield


def _missing(error: Exception) -> list[str]:
    """Return the names of the ops that the converter's error names."""
    named = [e.operator.name.removeprefix("tf.") for e in getattr(error, "errors", ())]
    named += _OPS.findall(str(error))
    return sorted({name for name in named if name} - {"Placeholder"})


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the converter's messages, from Python and C++, off standard error."""
    logger = tf.get_logger()
    level = logger.level
    with tempfile.TemporaryFile() as sink:
        stderr = os.dup(2)
        try:
            os.dup2(sink.fileno(), 2)
            logger.setLevel(logging.ERROR)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logger.setLevel(level)
            os.dup2(stderr, 2)
            os.close(stderr)

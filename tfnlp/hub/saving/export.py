"""Any functional Keras model as a Reusable SavedModel."""

import functools
import os
from collections.abc import Callable, Collection
from typing import Any

import keras

from tfnlp.hub.saving.compact import CompactWeights, check_kind
from tfnlp.hub.saving.export_checks import (
    check_default,
    check_model,
    check_objects,
    check_signatures,
    check_vocabulary,
    keys_of,
)
from tfnlp.hub.saving.graphs import Graphs
from tfnlp.hub.saving.keras_hub import without_word_caches
from tfnlp.hub.saving.keras_module import KerasModule, input_spec, serving, symbols
from tfnlp.hub.saving.save import as_saved, check_parts, save, together
from tfnlp.hub.saving.text_module import PAIRS, PreprocessorAdapter, TextModule


def export(
    model: keras.Model,
    directory: str | os.PathLike,
    signatures: dict[str, str | Collection[str] | None] | None = None,
    default: str | None = None,
    objects: dict[str, keras.Model] | None = None,
    preprocessor: Any = None,
    pair: bool = False,
    weights: str | None = None,
    litert: str | os.PathLike | None = None,
    onnx: str | os.PathLike | None = None,
    overwrite: bool = False,
    about: dict[str, Any] | None = None,
) -> str | tuple[str, str]:
    """Write a Keras model as a SavedModel that is called and fine-tuned without tfnlp.

    The module's `__call__(inputs, training=False)` takes and returns what the model does: a
    tensor, or lists and dicts of tensors. It has `variables`, `trainable_variables` and
    `regularization_losses`: those of weights, and of SavedModels in trainable layers. Losses of
    `add_loss`, such as activity regularizers, are left out. Moving averages and other state that
    layers assign while training are assigned by `module(x, training=True)`. Tables, assets and
    loaded SavedModels in layers are saved too.

    Args:
        model: a functional or built Sequential `keras.Model`.
        directory: path of the SavedModel, which must not exist.
        signatures: dict of signature to what it serves: a list of names of outputs, None for all,
            or the name of one of `objects`. Default: all outputs as "serving_default". Inputs have
            the names of the Keras inputs. Outputs are named after their keys, in lists in dicts
            with a number (`encoder_outputs_0`), without keys after the layer that made them.
        default: name of the output that `outputs["default"]` repeats; for outputs in a dict.
        objects: dict of name to Keras model: callable sub-objects with the same interface, such as
            `mlm` of a BERT. They share the weights that the models share.
        preprocessor: makes the model's inputs from strings `[B]`: a `BertPreprocessorModule`, a
            `GPTPreprocessorModule`, a module that `tf.saved_model.load` returned, any trackable
            object whose `__call__` is a `tf.function`; or a Keras model or layer, such as
            `keras.layers.TextVectorization` or a preprocessor of keras-hub. The module then maps
            strings to outputs, and has the `preprocessor` and the `encoder` (with the `objects`) as
            sub-objects. With a preprocessor of keras-hub that packs several segments it also takes
            a list of two tensors of strings, and has the signature "serving_pairs" of `text_a` and
            `text_b` unless `signatures` are given.
        pair: write two modules instead, `directory/encoder` and `directory/preprocessor`; a new
            directory appears with both.
        weights: "bfloat16" or "int8": store the matrices so, for inference only; see
            `tfnlp.hub.saving.compact.CompactWeights`. The module has no `trainable_variables`, and
            computes the same with `training=True`. Its size, that without `weights`, and the
            largest difference of an output are printed.
        litert: path of a LiteRT file (`.tflite`), or of a folder for one, to write too. It computes
            what "serving_default" serves, from the model's inputs (not from strings), with the
            lengths that the preprocessor returns; see `tfnlp.hub.saving.litert.convert`.
        onnx: the same of an ONNX file (`.onnx`), with the open lengths of the model; see
            `tfnlp.hub.saving.onnx.convert`.
        overwrite: replace earlier exports.
        about: facts about the model, as JSON, that `tfnlp.hub.loading.checks.read_about` returns.

    Returns:
        The path; with `pair` those of encoder and preprocessor.

    Raises:
        ValueError: if the model can't be exported, or an argument does not fit it.
        ImportError: for `onnx` without tf2onnx.
        OSError: if a path exists already or can't be written; incomplete files are deleted.
    """
    objects = dict(objects or {})
    default_signatures = signatures is None
    signatures = {"serving_default": None} if default_signatures else dict(signatures)
    check_model(model, "model")
    check_objects(objects)
    check_default(model, default)
    check_signatures(signatures, model, default, objects)
    if weights is not None:
        check_kind(weights)
    if pair and preprocessor is None:
        raise ValueError("pair=True writes a preprocessor too; give one as preprocessor=")
    directory = os.fspath(directory)
    names = ("encoder", "preprocessor") if pair else ()
    paths = tuple(os.path.join(directory, name) for name in names) or (directory,)
    if pair:
        check_parts(directory, names, overwrite)
    graphs = Graphs(litert, onnx)
    for path in paths:
        graphs.check(path, overwrite)

    with without_word_caches([model, *objects.values(), preprocessor]):
        adapter = None
        if preprocessor is not None:
            check_vocabulary(model, preprocessor)
            with as_saved():
                adapter = PreprocessorAdapter(preprocessor, input_spec(model))
        served = signatures.get("serving_default")
        function_of = functools.partial(_of_ids, model, served, objects, adapter)
        wanted = graphs.written(function_of, f"model {model.name}", weights, overwrite)
        stored = CompactWeights([model, *objects.values()], weights) if weights else None
        with wanted:
            with as_saved():
                encoder = _module(model, default, objects, stored)
                if hasattr(preprocessor, "of_encoder"):
                    for name, value in preprocessor.of_encoder().items():
                        setattr(encoder, name, value)
                module = encoder if adapter is None or pair else TextModule(adapter, encoder)
                functions = {
                    name: getattr(encoder, x).signature()
                    if isinstance(x, str)
                    else module.signature(x)
                    for name, x in signatures.items()
                }
                if module is not encoder and adapter.pair_spec is not None and default_signatures:
                    functions[PAIRS] = module.signature(pairs=True)
                packed = adapter.signatures() if pair else None
            if pair:
                with together(directory, names) as (first, second):
                    save(module, first, functions, about=about)
                    save(adapter.module, second, packed)
            else:
                save(module, directory, functions, overwrite, about)
    if stored is not None:
        stored.report(paths[0], model)
    return paths if pair else directory


def _of_ids(
    model: keras.Model,
    served: str | Collection[str] | None,
    objects: dict[str, keras.Model],
    adapter: PreprocessorAdapter | None,
    fixed: bool,
) -> Callable:
    """Return the concrete function of a graph: what "serving_default" serves.

    If `fixed`, its lengths are those that the preprocessor returns.
    """
    if isinstance(served, str):
        model, served, adapter = objects[served], None, None
    spec = adapter.specs if fixed and adapter is not None else input_spec(model)
    return serving(model, spec, symbols(model)[1], served)


def _module(
    model: keras.Model,
    default: str | None,
    objects: dict[str, keras.Model],
    stored: CompactWeights | None,
) -> KerasModule:
    """Return the module of `model`, with a sub-object for each of `objects`."""
    module = KerasModule(model, default, stored)
    for name, sub_model in objects.items():
        repeated = default if default in keys_of(sub_model) else None
        setattr(module, name, KerasModule(sub_model, repeated, stored))
    return module

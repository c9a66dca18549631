"""Any functional Keras model as a Reusable SavedModel."""

import keyword
import os
from collections.abc import Callable, Collection
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.saving.compact import CompactWeights, table_rows
from tfnlp.hub.saving.graphs import Graphs
from tfnlp.hub.saving.keras_module import (
    KerasModule,
    input_spec,
    leaf_names,
    serving_of,
    symbols,
)
from tfnlp.hub.saving.preprocessors import (
    PAIRS,
    PreprocessorAdapter,
    TextModule,
    without_word_caches,
)
from tfnlp.hub.saving.save import as_saved, check_parts, save, together
from tfnlp.hub.traced import other_vocabulary

_PAIR = ("encoder", "preprocessor")
# Attributes of a loaded module, and of the modules of this package.
_TAKEN = (
    *("asset_paths", "graph_debug_info", "initializer", "signatures", "keras_api"),
    *("tensorflow_version", "tensorflow_git_version", "encoder", "preprocessor"),
    *("variables", "trainable_variables", "regularization_losses"),
    *("input_spec", "outputs", "signature", "stored_weights"),
)


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
    given_signatures = signatures
    signatures = {"serving_default": None} if signatures is None else dict(signatures)
    _check_model(model, "model")
    for name, sub_model in objects.items():
        _check_object(name, sub_model)
    _check_outputs(model, default, signatures, objects)
    if pair and preprocessor is None:
        raise ValueError("pair=True writes a preprocessor too; give one as preprocessor=")
    directory = os.fspath(directory)
    paths = (directory,)
    if pair:
        paths = tuple(os.path.join(directory, name) for name in _PAIR)
        check_parts(directory, _PAIR, overwrite)
    adapter = None

    def function_of(fixed: bool) -> Callable:
        served = signatures.get("serving_default")
        if isinstance(served, str):
            return serving_of(objects[served])
        spec = adapter.specs if fixed and adapter is not None else None
        return serving_of(model, served, spec)

    graphs = Graphs({"litert": litert, "onnx": onnx}, function_of, f"model {model.name}")
    for path in paths:
        graphs.check(path, overwrite)
    with without_word_caches([model, *objects.values(), preprocessor]):
        if preprocessor is not None:
            _check_vocabulary(model, preprocessor)
            with as_saved():
                adapter = PreprocessorAdapter(preprocessor, input_spec(model))
        stored = CompactWeights([model, *objects.values()], weights) if weights else None
        with graphs.written(weights, overwrite):
            with as_saved():
                encoder = KerasModule(model, default, stored)
                for name, sub_model in objects.items():
                    repeated = default if default in _keys_of(sub_model) else None
                    setattr(encoder, name, KerasModule(sub_model, repeated, stored))
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
                if module is not encoder and adapter.pair_spec and given_signatures is None:
                    functions[PAIRS] = module.signature(pairs=True)
                packed = adapter.signatures() if pair else None
            if pair:
                with together(directory, _PAIR) as (first, second):
                    save(module, first, functions, about=about)
                    save(adapter.module, second, packed)
            else:
                save(module, directory, functions, overwrite, about)
    if stored is not None:
        stored.report(paths[0], model)
    return paths if pair else directory


def _check_model(model: Any, name: str) -> None:
    """Raise ValueError if the argument `name` is not a Keras model with symbolic inputs."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"{name} must be a functional or Sequential keras.Model, not {type(model).__name__}"
            + ("; put it into a keras.Model" if isinstance(model, keras.layers.Layer) else "")
        )
    if getattr(model, "inputs", None) is None:
        raise ValueError(
            f"{name} {model.name} ({type(model).__name__}) has no symbolic inputs: begin a "
            "Sequential with keras.Input(shape); call a subclassed model on keras.Input()s and "
            "make a keras.Model of these and its outputs"
        )
    for x in model.inputs:
        if x.sparse or x.ragged:
            kind = "sparse" if x.sparse else "ragged"
            raise ValueError(
                f"{name} {model.name} takes a {kind} tensor, {x.name}; make it take a dense one"
            )


def _keys_of(model: keras.Model) -> tuple[str, ...]:
    """Return the keys of the dict of outputs; none if the model returns no dict."""
    outputs = symbols(model)[1]
    return tuple(outputs) if isinstance(outputs, dict) else ()


def _check_object(name: Any, model: Any) -> None:
    """Raise ValueError if a sub-object can't have its name or is no model to export."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"objects: {name!r} is not a Python identifier")
    if name in _TAKEN or name.startswith("_"):
        raise ValueError(f"objects: the name {name!r} is reserved for SavedModels; choose another")
    _check_model(model, f"objects[{name!r}]")


def _check_outputs(
    model: keras.Model,
    default: str | None,
    signatures: dict[str, str | Collection[str] | None],
    objects: dict[str, keras.Model],
) -> None:
    """Raise ValueError if `default` or a signature names an output or object that is not there."""
    outputs, keys = symbols(model)[1], _keys_of(model)
    names = {*leaf_names(outputs), *keys}
    if default is not None:
        if default not in keys:
            raise ValueError(
                f"default={default!r} is not an output of model {model.name}, which returns "
                + (", ".join(keys) or "no dict")
            )
        names |= {"default", *leaf_names({"default": outputs[default]})}
    for name, served in signatures.items():
        if isinstance(served, str):
            if served not in objects:
                raise ValueError(
                    f"signatures[{name!r}]={served!r} is not one of objects: "
                    f"{', '.join(objects) or 'there are none'}; give a list for outputs"
                )
            continue
        unknown = [x for x in served or () if x not in names]
        if unknown or (served is not None and not served):
            raise ValueError(
                f"signatures[{name!r}] names {', '.join(map(repr, unknown)) or 'nothing'}, which "
                f"is not an output of model {model.name}: {', '.join(sorted(names))}"
            )


def _check_vocabulary(model: keras.Model, preprocessor: Any) -> None:
    """Raise ValueError if a TF-Hub preprocessor makes ids that the model's table lacks."""
    tokens = getattr(getattr(preprocessor, "tokenize", None), "get_special_tokens_dict", None)
    inputs = symbols(model)[0]
    if not callable(tokens) or not isinstance(inputs, dict):
        return
    rows = dict(zip(leaf_names(inputs), table_rows(model), strict=True)).get("input_word_ids")
    size = tf.get_static_value(tokens().get("vocab_size"))
    if rows is not None and size is not None and size > rows:
        raise other_vocabulary(size, rows)

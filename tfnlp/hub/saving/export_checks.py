"""Checks of the arguments of `tfnlp.hub.export`, made before anything slow."""

import keyword
from collections.abc import Collection
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.saving.keras_module import symbols
from tfnlp.hub.saving.names import leaf_names
from tfnlp.hub.saving.probe import table_rows

# Attributes of a loaded module, and of the modules of this package.
_TAKEN = (
    *("asset_paths", "graph_debug_info", "initializer", "signatures", "keras_api"),
    *("tensorflow_version", "tensorflow_git_version", "encoder", "preprocessor"),
    *("variables", "trainable_variables", "regularization_losses"),
    *("input_spec", "outputs", "signature", "stored_weights"),
)


def check_model(model: Any, name: str) -> None:
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


def keys_of(model: keras.Model) -> tuple[str, ...]:
    """Return the keys of the dict of outputs; none if the model returns no dict."""
    outputs = symbols(model)[1]
    return tuple(outputs) if isinstance(outputs, dict) else ()


def check_default(model: keras.Model, default: str | None) -> None:
    """Raise ValueError if `default` is no output."""
    keys = keys_of(model)
    if default is not None and default not in keys:
        raise ValueError(
            f"default={default!r} is not an output of model {model.name}, which returns "
            + (", ".join(keys) or "no dict")
        )


def check_objects(objects: dict[str, Any]) -> None:
    """Raise ValueError if a sub-object can't have its name or is no model to export."""
    for name, model in objects.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"objects: {name!r} is not a Python identifier")
        if name in _TAKEN or name.startswith("_"):
            raise ValueError(
                f"objects: the name {name!r} is reserved for SavedModels; choose another"
            )
        check_model(model, f"objects[{name!r}]")


def check_signatures(
    signatures: dict[str, str | Collection[str] | None],
    model: keras.Model,
    default: str | None,
    objects: dict[str, keras.Model],
) -> None:
    """Raise ValueError if a signature names an output or object that does not exist."""
    outputs = symbols(model)[1]
    names = {*leaf_names(outputs), *keys_of(model)}
    if default is not None:
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


def check_vocabulary(model: keras.Model, preprocessor: Any) -> None:
    """Raise ValueError if a TF-Hub preprocessor makes ids that the model's table lacks."""
    tokens = getattr(getattr(preprocessor, "tokenize", None), "get_special_tokens_dict", None)
    inputs = symbols(model)[0]
    if not callable(tokens) or not isinstance(inputs, dict):
        return
    rows = dict(zip(leaf_names(inputs), table_rows(model), strict=True)).get("input_word_ids")
    size = tf.get_static_value(tokens().get("vocab_size"))
    if rows is not None and size is not None and size > rows:
        raise ValueError(
            f"preprocessor has a vocabulary of {size} tokens, but model {model.name} has a table "
            f"of {rows}; give the vocabulary that the model was trained with"
        )

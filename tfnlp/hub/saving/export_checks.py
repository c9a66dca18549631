"""What `tfnlp.hub.saving.export` asks of its arguments, before anything slow happens."""

import keyword

import keras
import tensorflow as tf

from tfnlp.hub.saving.module import symbols
from tfnlp.hub.saving.names import leaf_names
from tfnlp.hub.saving.probe import table_rows

# What a loaded module has, and what is written of the ones here.
_TAKEN = (
    *("asset_paths", "graph_debug_info", "initializer", "signatures", "keras_api"),
    *("tensorflow_version", "tensorflow_git_version", "encoder", "preprocessor"),
    *("variables", "trainable_variables", "regularization_losses"),
    *("input_spec", "outputs", "signature", "stored_weights"),
)


def check_model(model, name):
    """Raises ValueError if `model`, an argument called `name`, is not one with symbolic inputs."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"{name} must be a functional or Sequential keras.Model, not {type(model).__name__}"
            + ("; put it into a keras.Model" if isinstance(model, keras.layers.Layer) else "")
        )
    if getattr(model, "inputs", None) is None:
        if isinstance(model, keras.Sequential):
            raise ValueError(
                f"{name} {model.name} is a Sequential without inputs yet; begin it with "
                "keras.Input(shape), or call it once"
            )
        raise ValueError(
            f"{name} {model.name} is a subclassed model ({type(model).__name__}), whose inputs "
            "are not known; call it on keras.Input()s and make a keras.Model of these and its "
            "outputs"
        )
    for x in model.inputs:
        if x.sparse or x.ragged:
            kind = "sparse" if x.sparse else "ragged"
            raise ValueError(
                f"{name} {model.name} takes a {kind} tensor, {x.name}; make it take a dense one"
            )


def keys_of(model):
    """Keys of the dict of outputs, none where a model returns no dict."""
    outputs = symbols(model)[1]
    return tuple(outputs) if isinstance(outputs, dict) else ()


def check_default(model, default):
    """Raises ValueError if `default` is no output, or stands in the way of one."""
    keys = keys_of(model)
    if default is not None and default not in keys:
        raise ValueError(
            f"default={default!r} is not an output of model {model.name}, which returns "
            + (", ".join(keys) or "no dict")
        )
    if default is not None and "default" in keys and default != "default":
        raise ValueError(f"default={default!r}, but model {model.name} has an output 'default'")


def check_objects(objects):
    """Raises ValueError if a sub-object can't have its name or is no model to export."""
    for name, model in objects.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"objects: {name!r} is not a Python identifier")
        if name in _TAKEN or name.startswith("_"):
            raise ValueError(
                f"objects: the name {name!r} is taken by SavedModel's own; choose another"
            )
        check_model(model, f"objects[{name!r}]")


def check_signatures(signatures, model, default, objects):
    """Raises ValueError if a signature names an output or object that there is not."""
    outputs = symbols(model)[1]
    names = {*leaf_names(outputs), *keys_of(model)}
    if default is not None:
        names |= {"default", *leaf_names({"default": outputs[default]})}
    for name, served in signatures.items():
        if isinstance(served, str):
            if served not in objects:
                raise ValueError(
                    f"signatures[{name!r}]={served!r} is none of objects: "
                    f"{', '.join(objects) or 'there are none'}; give a list for outputs"
                )
            continue
        unknown = [x for x in served or () if x not in names]
        if unknown or (served is not None and not served):
            raise ValueError(
                f"signatures[{name!r}] names {', '.join(map(repr, unknown)) or 'nothing'}, which "
                f"is not an output of model {model.name}: {', '.join(sorted(names))}"
            )


def check_vocabulary(model, preprocessor):
    """Raises ValueError if a published preprocessor makes ids that the model has no rows for."""
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

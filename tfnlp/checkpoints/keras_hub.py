"""Models of keras-hub as tfnlp's, and back."""

from __future__ import annotations

import functools
import os
import pathlib
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import reason
from tfnlp.checkpoints.keras_hub_families import COUNTERPARTS, Counterpart, counterpart, library
from tfnlp.checkpoints.mapping import (
    assign,
    stored_shapes,
    tensors_from_weights,
    weights_from_tensors,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.tokenizer_json import plain_tokenizer
from tfnlp.text.lines import shown

PREFIX = "keras_hub:"
_PACKAGE = "keras_hub>"
_LEFT_OUT = ("next_sentence_head/", "sentence_order_head/", "pooler/")


def from_keras_hub(source: Any, dtype: Any = None) -> Pretrained:
    """Return a keras-hub model as tfnlp's, with its weights and its vocabulary.

    Args:
        source: a backbone of BERT, RoBERTa, DistilBERT, ALBERT or GPT-2; a task on one, whose
            preprocessor has the tokenizer; or a preset: a folder that `save_to_preset` wrote, or
            what `keras_hub.models.Backbone.from_preset` takes, such as "bert_tiny_en_uncased",
            which keras-hub downloads; "keras_hub:" may stand before it. Of masked-LM tasks the head
            is converted too; of others the backbone and the tokenizer.
        dtype: a Keras dtype policy; None: that of the backbone.

    Returns:
        A `Pretrained`. Its weights are copies.

    Raises:
        ImportError: if keras-hub is not installed.
        ValueError: if `source` is no such model or can't be loaded.
    """
    if isinstance(source, str | os.PathLike):
        return read_preset(source, dtype)[1]
    models = library().models
    is_task = isinstance(source, models.Task)
    backbone = source.backbone if is_task else source
    if not isinstance(backbone, models.Backbone):
        raise ValueError(
            f"{type(source).__name__} is no model of keras-hub; give a Backbone, a Task or a preset"
        )
    part = counterpart(type(backbone).__name__, type(source).__name__)
    tokenizer = getattr(getattr(source, "preprocessor", None), "tokenizer", None)
    has_head = is_task and type(source).__name__ == part.pretrainer
    return _converted(part, source if has_head else backbone, backbone, tokenizer, dtype)


def read_preset(name: str | os.PathLike, dtype: Any = None) -> tuple[str, Pretrained]:
    """Return the name of the family of a preset, and the model; see `from_keras_hub`."""
    name = os.fspath(name).removeprefix(PREFIX)
    stated = preset_class(name)
    if stated is not None:
        counterpart(stated, name)  # before keras-hub reads the weights
    keras_hub = library()
    try:
        model, tokenizer = _from_preset(keras_hub, name, dtype)
    except Exception as error:  # of keras-hub, h5py, json or a download
        raise ValueError(f"keras-hub can't load {shown(name)}: {reason(error)}") from error
    backbone = getattr(model, "backbone", model)
    part = counterpart(type(backbone).__name__, name)
    loaded = _converted(part, model, backbone, tokenizer, dtype)
    loaded.path = name
    loaded.vocabulary = None if tokenizer is None else name
    return part.family, loaded


def is_preset(name: str) -> bool:
    """Return whether this is a name with "keras_hub:" before it, or the folder of a preset."""
    if name.startswith(PREFIX):
        return True
    try:
        return preset_class(name) is not None
    except ValueError:  # no JSON: of whatever else may be there
        return False


def preset_class(folder: str | os.PathLike, file: str = "config.json") -> str | None:
    """Return the class of keras-hub that a file in a preset's folder describes, or None.

    That in `config.json` is the class of the backbone.
    """
    path = pathlib.Path(folder, file)
    name = read_json(path).get("registered_name") if path.is_file() else None
    if not isinstance(name, str) or not name.startswith(_PACKAGE):
        return None
    return name.removeprefix(_PACKAGE)


def _from_preset(keras_hub: ModuleType, name: str, dtype: Any) -> tuple[keras.Model, Any]:
    options = {} if dtype is None else {"dtype": dtype}
    stated = preset_class(name, "task.json")
    backbone = preset_class(name)
    if stated is not None and backbone and stated == counterpart(backbone, name).pretrainer:
        model = getattr(keras_hub.models, stated).from_preset(name, **options)
    else:
        model = keras_hub.models.Backbone.from_preset(name, **options)
    if os.path.isdir(name) and not os.path.isfile(os.path.join(name, "tokenizer.json")):
        return model, None
    return model, keras_hub.models.Tokenizer.from_preset(name)


def _converted(
    part: Counterpart, model: keras.Model, backbone: Any, tokenizer: Any, dtype: Any
) -> Pretrained:
    """Return the `Pretrained` of `model`, which is `backbone` or the pretrainer on it."""
    stated = backbone.get_config()
    arguments = {ours: stated[theirs] for theirs, ours in part.sizes.items()}
    for name, only in part.fixed.items():
        if stated[name] != only:
            raise ValueError(
                f"the {part.backbone} has {name}={stated[name]}; tfnlp's model has {only} only"
            )
    arguments |= part.constants
    arguments |= {"dropout": stated["dropout"], "attention_dropout": stated["dropout"]}
    policy = backbone.dtype_policy if dtype is None else dtype
    encoder, has_head = part.files.encoder(**arguments, dtype=policy), model is not backbone
    pretrainer = part.with_head(encoder) if has_head or not part.head_constants else None
    arguments = part.arguments(encoder)
    target, variables = pretrainer or encoder, {weight.path: weight for weight in model.weights}
    shapes = {weight.path: tuple(weight.shape) for weight in target.weights}
    rows = part.names.rows(arguments, shapes)
    stored = stored_shapes(rows, shapes)
    weights = weights_from_tensors(
        rows, lambda name: np.asarray(variables[name].numpy()).reshape(stored[name])
    )
    assign(target, weights | part.made(variables))
    loaded = Pretrained(encoder, pretrainer, arguments)
    if tokenizer is not None:
        loaded.make_tokenizer = functools.partial(part.read_tokenizer, tokenizer)
        loaded.lowercase = part.lowercase(tokenizer)
    return loaded


def to_keras_hub(
    model: keras.Model | Pretrained,
    tokenizer: Any = None,
    approximate: bool = False,
    dropout: float | None = None,
) -> Any:
    """Return a model of tfnlp as keras-hub's, with its weights and its vocabulary.

    keras-hub's code has one activation and one epsilon for each family. A model that was made
    with others is refused unless `approximate`.

    Args:
        model: an encoder or pretrainer of BERT, RoBERTa, DistilBERT, ALBERT or GPT-2, or a
            `Pretrained`.
        tokenizer: tfnlp's tokenizer for the preprocessor of a task; that of a `Pretrained` is
            taken without it.
        approximate: convert a model whose activation or epsilon differs from keras-hub's too; its
            outputs then differ from the model's.
        dropout: the rate of keras-hub's model, which has one; needed where the model has two.

    Returns:
        the masked-LM task, such as `BertMaskedLM`, if the model has that head, `GPT2CausalLM` if it
        has GPT's, else the backbone; a task has a preprocessor if there is a tokenizer. Heads of
        sentence pairs, and RoBERTa's pooler, have no place in keras-hub and are left out. Without
        a pooler, that of BERT's and ALBERT's backbones is new.

    Raises:
        ImportError: if keras-hub is not installed.
        ValueError: if keras-hub has no such model.
    """
    if isinstance(model, Pretrained):
        if tokenizer is None and model.make_tokenizer is not None:
            tokenizer = model.tokenizer
        model = model.encoder if model.pretrainer is None else model.pretrainer
    tokenizer = plain_tokenizer(tokenizer)
    part, arguments = _counterpart(model)
    weights = {weight.path: weight for weight in model.weights}
    models = library().models
    has_head = part.head in model.output
    if not approximate:
        _check_constants(part, arguments, model, has_head)
    if dropout is None:
        dropout = arguments["dropout"]
        if arguments["attention_dropout"] != dropout:
            raise ValueError(
                f"the model has dropout={dropout} and attention_dropout="
                f"{arguments['attention_dropout']}, but keras-hub's has one rate; pass dropout="
            )
    sizes = {theirs: arguments[ours] for theirs, ours in part.sizes.items()}
    dtype = model.get_layer("token_embedding").dtype_policy
    made = getattr(models, part.backbone)(**sizes, dropout=dropout, dtype=dtype)
    if has_head:
        preprocessor = None
        if tokenizer is not None:
            converted = part.write_tokenizer(tokenizer, getattr(models, f"{part.title}Tokenizer"))
            preprocessor = getattr(models, f"{part.pretrainer}Preprocessor")(
                converted, sequence_length=arguments["max_positions"]
            )
        made = getattr(models, part.pretrainer)(made, preprocessor=preprocessor)
    variables = {variable.path: variable for variable in made.weights}
    tensors = tensors_from_weights(part.names.rows(arguments, weights), model) | part.more(weights)
    for name, array in tensors.items():
        variables[name].assign(array.reshape(variables[name].shape))
    return made


def _counterpart(model: keras.Model) -> tuple[Counterpart, dict[str, Any]]:
    """Return the family of a model in keras-hub, and the arguments of its encoder."""
    paths = {weight.path for weight in getattr(model, "weights", ())}
    for part in COUNTERPARTS.values():
        try:
            arguments = part.arguments(model)
        except ValueError:
            continue
        places = {*part.names.rows(arguments), *part.computed}
        if all(path in places or path.startswith(_LEFT_OUT) for path in paths):
            return part, arguments
    raise ValueError(
        f"model {getattr(model, 'name', model)!r} has no counterpart in keras-hub; give an encoder "
        f"or pretrainer of {', '.join(part.family for part in COUNTERPARTS.values())}"
    )


def _check_constants(
    part: Counterpart, arguments: dict[str, Any], model: keras.Model, has_head: bool
) -> None:
    pairs = [(name, arguments.get(name, only), only) for name, only in part.constants.items()]
    for name, only in part.head_constants.items() if has_head else ():
        pairs.append((f"the head's {name}", getattr(model.get_layer("masked_lm_head"), name), only))
    for name, ours, theirs in pairs:
        if ours != theirs:
            raise ValueError(
                f"the model has {name}={ours!r}, but keras-hub's {part.backbone} always has "
                f"{theirs!r}; approximate=True converts it all the same"
            )

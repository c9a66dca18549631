"""Models of tfnlp as keras-hub's."""

from __future__ import annotations

from typing import Any

import keras

from tfnlp.checkpoints.keras_hub.counterpart import Counterpart, library
from tfnlp.checkpoints.keras_hub.families import COUNTERPARTS
from tfnlp.checkpoints.mapping import tensors_from_weights
from tfnlp.checkpoints.pretrained import Pretrained

_LEFT_OUT = ("next_sentence_head/", "sentence_order_head/", "pooler/")


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
    part, arguments = _counterpart(model)
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
    tensors = tensors_from_weights(part.rows(arguments, has_head), model)
    tensors |= part.write({weight.path: weight for weight in model.weights})
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
        table = {*part.rows(arguments, part.head in model.output), *part.made}
        if table <= paths and not {p for p in paths - table if not p.startswith(_LEFT_OUT)}:
            return part, arguments
    raise ValueError(
        f"model {getattr(model, 'name', model)!r} has no counterpart in keras-hub; give an encoder "
        f"or pretrainer of {', '.join(part.family for part in COUNTERPARTS.values())}"
    )


def _check_constants(
    part: Counterpart, arguments: dict[str, Any], model: keras.Model, has_head: bool
) -> None:
    pairs = [(name, arguments.get(name, only), only) for name, only in part.constants.items()]
    if has_head:
        for name, only in part.head_constants.items():
            ours = getattr(model.get_layer("masked_lm_head"), name)
            pairs.append((f"the head's {name}", ours, only))
    for name, ours, theirs in pairs:
        if ours != theirs:
            raise ValueError(
                f"the model has {name}={ours!r}, but keras-hub's {part.backbone} always has "
                f"{theirs!r}; approximate=True converts it all the same"
            )

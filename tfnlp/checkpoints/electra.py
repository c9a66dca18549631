"""ELECTRA's checkpoints, by the names of Hugging Face's modeling_electra.py."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.encoder_config import layer_arguments
from tfnlp.checkpoints.encoder_files import BERT_SIZES, ConfigNames, EncoderFiles, TensorNames
from tfnlp.checkpoints.encoders import MODEL_FILES, load_encoder, save_encoder
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import (
    BERT_LAYER,
    UNTIED,
    Row,
    bert_embeddings,
    bert_layers,
    torch_names,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.layers import TransformerBlock
from tfnlp.models import bert_pretrainer, electra, electra_discriminator, electra_pretrainer

GENERATOR = "generator"  # the folder of the generator inside the discriminator's
_SHARED = ("token_embedding", "position_embedding", "segment_embedding", "embedding_norm")
_PREFIX = "generator_"  # of the names of the generator's layers in a pretrainer


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table)
    if config["embedding_size"] != config["hidden_size"]:
        table.dense("embedding_projection", "embeddings_project")
    bert_layers(table, config["num_layers"])
    if "masked_lm" in heads:
        table.masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
            "generator_lm_head.weight" if UNTIED in heads else "",
        )
    if "discriminator" in heads:
        table.dense("discriminator_head/dense", "discriminator_predictions.dense")
        table.dense("discriminator_head/logit", "discriminator_predictions.dense_prediction")
    return table.rows


def _with_heads(
    encoder: keras.Model,
    config: Mapping[str, Any],
    heads: Mapping[str, bool],
    max_predictions: int | None,
) -> keras.Model:
    """Return a discriminator or the masked LM of a generator; a file holds one of the two."""
    if heads["discriminator"]:
        return electra_discriminator(encoder, initializer_range=config["initializer_range"])
    return bert_pretrainer(
        encoder,
        activation=config["activation"],
        norm_epsilon=config["norm_epsilon"],
        initializer_range=config["initializer_range"],
        next_sentence=False,
        max_predictions=max_predictions,
        tied=not heads[UNTIED],
    )


class _ElectraFiles(EncoderFiles):
    """A discriminator's folder may have that of its generator inside."""

    def load(self, path: str, dtype: str | None = None) -> Pretrained:
        return load_electra(path, dtype=dtype)

    def save(
        self, model: keras.Model, directory: str, tokenizer: Any = None, overwrite: bool = False
    ) -> None:
        save_electra(model, directory, tokenizer, overwrite)


ELECTRA_FILES = _ElectraFiles(
    title="ELECTRA",
    loader="load_electra",
    encoder=electra,
    pretrainer=_with_heads,
    config=ConfigNames(
        "electra",
        sizes={**BERT_SIZES, "embedding_size": "embedding_size"},
        written={"pad_token_id": 0},
    ),
    formats=(
        TensorNames(
            rows=_rows,
            heads={
                "masked_lm": ("generator_predictions.", "generator_lm_head."),
                "discriminator": ("discriminator_predictions.",),
            },
            layer=BERT_LAYER,
            base="electra.",
            hint="'electra.embeddings.' or 'embeddings.'",
            copies={"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
        ),
    ),
    classes={
        ("discriminator",): "ElectraForPreTraining",
        ("masked_lm",): "ElectraForMaskedLM",
        (): "ElectraModel",
    },
    head_activation="gelu",  # the generator's, whatever the blocks have
    tasks=task_heads(
        "Electra",
        {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
        {"hidden": "sequence_summary.summary", "classifier": "classifier"},
        {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"},
    ),
)


def load_electra(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published ELECTRA checkpoint, a discriminator or a generator.

    If the folder has a folder `generator` with the generator of its discriminator, which
    `save_electra` writes, the `pretrainer` is that of both.

    Args:
        path: a local folder with `config.json` and usually `vocab.txt`, or a weight file in it.
        options: those of `tfnlp.checkpoints.encoders.load_encoder`, such as `dtype`,
            `vocab`, `lowercase` and `ignore`; the errors are its own too.
    """
    loaded = load_encoder(ELECTRA_FILES, path, **options)
    folder = pathlib.Path(path) / GENERATOR
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    if "discriminator_logits" in outputs and folder.is_dir():
        kept = ("activation", "dropout", "attention_dropout", "seq_length", "dtype")
        same = {name: options[name] for name in kept if name in options}
        generator = load_encoder(ELECTRA_FILES, folder, **same)
        loaded.pretrainer = _both(loaded, generator, options.get("max_predictions"))
    return loaded


def _both(loaded: Pretrained, generator: Pretrained, max_predictions: int | None) -> keras.Model:
    """Return the pretrainer of a discriminator and of its generator."""
    ours = _by_path(loaded.pretrainer)
    theirs = _by_path(generator.pretrainer or generator.encoder)
    wrong = [path for path in ours if path.startswith(_SHARED) and not _equal(ours, theirs, path)]
    wrong += [path for path in theirs if path.startswith("masked_lm_table")]
    model = electra_pretrainer(
        loaded.encoder,
        min(1.0, generator.config["hidden_size"] / loaded.config["hidden_size"]),
        loaded.config["initializer_range"],
        max_predictions,
    )
    if model.get_layer("generator_layer_0").num_heads != generator.config["num_heads"]:
        wrong.append("num_attention_heads")
    values = {}
    for variable in model.trainable_variables:
        path = variable.path
        if path.startswith((_PREFIX, "masked_lm_")):
            value = theirs.get(path.removeprefix(_PREFIX))
        else:
            value = ours[path]
        if value is None or value.shape != variable.shape:
            wrong.append(path)
        values[path] = value
    if wrong:
        raise ValueError(
            f"{generator.path} is not the generator of {loaded.path}: {wrong[0]} does not fit; "
            f"take the folder `{GENERATOR}` away to load the discriminator alone"
        )
    for variable in model.trainable_variables:
        variable.assign(values[variable.path])
    return model


def _by_path(model: keras.Model) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in model.trainable_variables}


def _equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], path: str) -> bool:
    return path in theirs and np.array_equal(ours[path], theirs[path])


def save_electra(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Any = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_electra` read.

    Of a model made by `electra_pretrainer` it is that of the discriminator, and a folder
    `generator` inside is that of the generator.

    Args:
        model: an encoder made by `electra`, or a model with its pretraining heads.
        directory, tokenizer, overwrite: as in `tfnlp.checkpoints.encoders.save_encoder`.
    """
    if "replaced" not in model.output:
        save_encoder(ELECTRA_FILES, model, directory, tokenizer, overwrite)
        return
    names = (*MODEL_FILES, *ELECTRA_FILES.tokenizer.names, GENERATOR)
    with new_folder(directory, names, overwrite) as folder:
        save_encoder(ELECTRA_FILES, _alone(model, "", "discriminator"), folder, tokenizer)
        inside = os.path.join(folder, GENERATOR)
        save_encoder(ELECTRA_FILES, _alone(model, _PREFIX, "masked_lm"), inside, tokenizer)


def _alone(model: keras.Model, prefix: str, head: str) -> keras.Model:
    """Return a copy of the discriminator or of the generator of a pretrainer."""
    blocks = [
        layer
        for layer in model.layers
        if isinstance(layer, TransformerBlock) and layer.name.startswith(f"{prefix}layer_")
    ]
    layers = {layer.name: layer for layer in model.layers}
    hidden_size = blocks[0].output_norm.gamma.shape[0]
    config = layer_arguments(layers, blocks[0], len(blocks), hidden_size)
    heads = {"discriminator": False, "masked_lm": False, UNTIED: False, head: True}
    del config["padding_id"]
    encoder, numbers = electra(**config), ELECTRA_FILES.of_heads(config)
    copy, values = _with_heads(encoder, numbers, heads, None), _by_path(model)
    for variable in copy.trainable_variables:
        own = variable.path.startswith(("embedding_projection", "layer_"))
        variable.assign(values[prefix + variable.path if own else variable.path])
    return copy

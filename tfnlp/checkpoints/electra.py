"""ELECTRA's checkpoints, by the names of Hugging Face's modeling_electra.py."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.config import BERT_SIZES, ConfigNames, layer_arguments
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import BERT_EMBEDDINGS, UNTIED, TensorNames
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.models import bert_pretrainer, electra, electra_discriminator, electra_pretrainer

GENERATOR = "generator"  # the folder of the generator inside the discriminator's
_SHARED = ("token_embedding", "position_embedding", "segment_embedding", "embedding_norm")
_PREFIX = "generator_"  # of the names of the generator's layers in a pretrainer


class _ElectraFiles(EncoderFiles):
    """A discriminator's folder may have that of its generator inside."""

    def load(self, path: str | os.PathLike, **options: Any) -> Pretrained:
        """Load a published checkpoint, a discriminator or a generator.

        If the folder has a folder `generator` with the generator of its discriminator, which
        `save` writes, the `pretrainer` is that of both. Arguments and errors are those of
        `EncoderFiles.load`.
        """
        loaded = super().load(path, **options)
        folder = pathlib.Path(path) / GENERATOR
        outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
        if "discriminator_logits" in outputs and folder.is_dir():
            kept = ("activation", "dropout", "attention_dropout", "seq_length", "dtype")
            same = {name: options[name] for name in kept if name in options}
            generator = super().load(folder, **same)
            loaded.pretrainer = _both(loaded, generator, options.get("max_predictions"))
        return loaded

    def with_heads(
        self,
        encoder: keras.Model,
        config: Mapping[str, Any],
        heads: Mapping[str, bool],
        max_predictions: int | None,
    ) -> keras.Model | None:
        """Return a discriminator or the masked LM of a generator; a file holds one of the two."""
        if heads["discriminator"]:
            return electra_discriminator(encoder, initializer_range=config["initializer_range"])
        alone = {name: there for name, there in heads.items() if name != "discriminator"}
        return super().with_heads(encoder, config, alone, max_predictions)

    def save(
        self,
        model: keras.Model,
        directory: str | os.PathLike,
        tokenizer: Any = None,
        overwrite: bool = False,
        max_length: int | None = None,
    ) -> None:
        """Write the folder that `from_pretrained` and `load` read.

        Of a model made by `electra_pretrainer` it is that of the discriminator, and a folder
        `generator` inside is that of the generator. Arguments and errors are those of
        `EncoderFiles.save`.
        """
        if "replaced" not in model.output:
            return super().save(model, directory, tokenizer, overwrite, max_length)
        with new_folder(directory, (*self.files, GENERATOR), overwrite) as folder:
            super().save(self._alone(model, "", "discriminator"), folder, tokenizer)
            inside = os.path.join(folder, GENERATOR)
            super().save(self._alone(model, _PREFIX, "masked_lm"), inside, tokenizer)

    def _alone(self, model: keras.Model, prefix: str, head: str) -> keras.Model:
        """Return a copy of the discriminator or of the generator of a pretrainer."""
        found = layer_arguments(model, prefix)
        config = {name: found[name] for name in self.config.arguments}
        heads = {"discriminator": False, "masked_lm": False, UNTIED: False, head: True}
        copy, values = self.with_heads(electra(**config), config, heads, None), _by_path(model)
        for variable in copy.trainable_variables:
            own = variable.path.startswith(("embedding_projection", "layer_"))
            variable.assign(values[prefix + variable.path if own else variable.path])
        return copy


ELECTRA_FILES = _ElectraFiles(
    title="ELECTRA",
    encoder=electra,
    pretrainer=functools.partial(bert_pretrainer, next_sentence=False),
    config=ConfigNames(
        "electra",
        sizes={**BERT_SIZES, "embedding_size": "embedding_size"},
        written={"pad_token_id": 0},
    ),
    formats=(
        TensorNames(
            layers={**BERT_EMBEDDINGS, "embedding_projection": "embeddings_project"},
            heads={
                "masked_lm": {
                    "masked_lm_head/dense": "generator_predictions.dense",
                    "masked_lm_head/norm": "generator_predictions.LayerNorm",
                    "masked_lm_bias": "generator_lm_head.bias",
                    "masked_lm_table": "generator_lm_head",
                },
                "discriminator": {
                    "discriminator_head/dense": "discriminator_predictions.dense",
                    "discriminator_head/logit": "discriminator_predictions.dense_prediction",
                },
            },
            base="electra.",
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
load_electra = ELECTRA_FILES.load
save_electra = ELECTRA_FILES.save


def _both(loaded: Pretrained, generator: Pretrained, max_predictions: int | None) -> keras.Model:
    """Return the pretrainer of a discriminator and of its generator."""
    ours = _by_path(loaded.pretrainer)
    theirs = _by_path(generator.pretrainer or generator.encoder)
    shared = [path for path in ours if path.startswith(_SHARED)]
    wrong = [path for path in shared if not np.array_equal(ours[path], theirs.get(path))]
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
        of_generator = path.startswith((_PREFIX, "masked_lm_"))
        values[path] = theirs.get(path.removeprefix(_PREFIX)) if of_generator else ours[path]
        if np.shape(values[path]) != variable.shape:
            wrong.append(path)
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

"""Task models on the backbones of BERT and the encoders after it, GPT and ELMo."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfnlp.families.adaptation import Adaptation
from tfnlp.families.preparation import BPE_VOCABULARY, write_bpe_folder

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained

WHOLE = Adaptation()  # all weights are trained


def max_positions(backbone: Pretrained) -> int | None:
    """Return the longest sequence that a backbone reads, None if it does not say."""
    if backbone.saved and backbone.encoder is not None:
        from tfnlp.hub.loading.encoders import max_positions as positions_of

        return positions_of(backbone.encoder.get_layer("saved_model"))
    return backbone.config.get("max_positions")


def width(backbone: Pretrained) -> int | None:
    """Return the width of a backbone's vectors (of an ELMo in one direction), None if unknown."""
    if backbone.config:
        return backbone.config.get("hidden_size") or backbone.config.get("projection_size")
    if backbone.encoder is None:
        return None
    return backbone.encoder.output["sequence_output"].shape[-1]


def bert_reader(backbone: Pretrained) -> Any:
    """Return the reader of `[CLS] A [SEP] B [SEP]`, with the tokenizer's special tokens."""
    from tfnlp.text.task_readers import BertReader

    return BertReader(backbone.tokenizer)


def gpt_reader(backbone: Pretrained) -> Any:
    """Return the reader with GPT's start, delimiter and extract tokens."""
    from tfnlp.text.task_readers import GPTReader

    if not backbone.saved:
        first = backbone.config["vocab_size"]
        return GPTReader(backbone.tokenizer, (first, first + 1, first + 2))
    end = backbone.tokenizer.end_id  # the table of a module can't get new rows
    if end is None:
        raise ValueError(f"{backbone.path} has no token that ends texts, which tasks need")
    return GPTReader(backbone.tokenizer, (end, end, end))


def word_reader(backbone: Pretrained) -> Any:
    """Return the reader of whole words."""
    from tfnlp.text.task_readers import WordReader

    return WordReader()


def fine_tuned_encoder(
    backbone: Pretrained,
    spec: Any,
    head: dict,
    outputs: dict,
    dtype: str | None,
    adaptation: Adaptation = WHOLE,
    packed: bool = False,
    hidden: str | None = None,
    drop_first: bool = True,
) -> Any:
    """Return one linear layer on a whole encoder (Devlin et al. 2019, section 4).

    `hidden` and `drop_first` are of a layer before the linear one, see `models.bert_task`.
    """
    from tfnlp import models

    encoder = backbone.encoder
    if not backbone.saved:
        changes = {"dropout": head["dropout"], "attention_dropout": head["dropout"]}
        build = backbone.family.encoder_function()
        changes.update({"dtype": dtype, "packed": packed})
        encoder = models.encoder_for_tasks(build, encoder, backbone.config, **changes)
        adaptation.apply(encoder)
    outputs = {**outputs, "hidden": hidden, "drop_first": drop_first}
    return models.bert_task(encoder, spec.output, dropout=head["dropout"], **outputs)


def fine_tuned_gpt(
    backbone: Pretrained,
    spec: Any,
    head: dict,
    outputs: dict,
    dtype: str | None,
    adaptation: Adaptation = WHOLE,
) -> Any:
    """Return one linear layer on a whole GPT (Radford et al. 2018, sections 3.2 and 3.3)."""
    from tfnlp import models

    encoder = backbone.encoder
    if not backbone.saved:
        rates = {"dropout": head["dropout"], "attention_dropout": head["dropout"]}
        encoder = models.gpt_with_extra_tokens(encoder, backbone.config, dtype=dtype, **rates)
        adaptation.apply(encoder)
    return models.gpt_task(encoder, spec.output, dropout=head["dropout"], **outputs)


def encoder_features(backbone: Pretrained, choice: str) -> tuple[Any, int, int, bool]:
    """Return features of a frozen BERT; see `Fitting.features`."""
    return _layers_of(backbone, backbone.encoder, choice)


def gpt_features(backbone: Pretrained, choice: str) -> tuple[Any, int, int, bool]:
    """Return features of a frozen GPT; see `Fitting.features`."""
    from tfnlp import models

    encoder = backbone.encoder
    if not backbone.saved:
        encoder = models.gpt_with_extra_tokens(encoder, backbone.config)
    return _layers_of(backbone, encoder, choice)


def elmo_features(backbone: Pretrained, choice: str) -> tuple[Any, int, int, bool]:
    """Return features of a frozen ELMo; see `Fitting.features`."""
    from tfnlp import hub, models
    from tfnlp.hub.modules.frozen_features import ElmoFeatures

    encoder, loaded = backbone.encoder, None
    if encoder is None:
        module = hub.saved_elmo(backbone.path)
        loaded = module.module  # a part of what is exported
        found = module({"tokens": [["a"]], "sequence_len": [1]})
        count = sum(name.startswith("lstm_outputs") for name in found)
        size = found["lstm_outputs1"].shape[-1]
    else:
        module, bilm = _elmo_module(encoder), encoder.get_layer("bilm")
        count, size = bilm.num_layers, 2 * bilm.projection_size
    layers, mix = models.select_layers(choice, count, embeddings=True)
    return ElmoFeatures(module, layers, size, encoder, loaded), len(layers), size, mix


def _elmo_module(encoder: Any) -> Any:
    import keras

    if keras.backend.backend() == "jax":
        from tfnlp.hub.modules.elmo_in_jax import ElmoInJax

        return ElmoInJax(encoder)
    from tfnlp.hub import ElmoModule

    return ElmoModule(encoder)


def _layers_of(backbone: Pretrained, encoder: Any, choice: str) -> tuple[Any, int, int, bool]:
    from tfnlp import models
    from tfnlp.hub.modules.frozen_features import EncoderFeatures

    if choice == models.WORDS_ALONE:
        raise ValueError(
            f"`features` {choice} is of a model that reads whole words, an ELMo; {backbone.path} "
            "reads pieces of words"
        )
    if "embedding_output" not in encoder.output or "encoder_outputs" not in encoder.output:
        raise ValueError(f"{backbone.path} does not give its layers, which `features` takes")
    count = len(encoder.output["encoder_outputs"])
    layers, mix = models.select_layers(choice, count, embeddings=False)
    return EncoderFeatures(encoder, layers), len(layers), width(backbone), mix


def keep_bpe(tokenizer: Any, folder: str) -> None:
    """Write tokens and merges of a byte-pair tokenizer into a run's folder."""
    path = os.path.join(folder, BPE_VOCABULARY)
    if not os.path.isdir(path):
        write_bpe_folder(path, (tokenizer.vocabulary, tokenizer.merges))


def restore_bpe(folder: str, lowercase: bool | None) -> Any:
    """Return the byte-pair tokenizer of a run's folder."""
    from tfnlp.text import gpt_tokenizer

    return gpt_tokenizer(os.path.join(folder, BPE_VOCABULARY))

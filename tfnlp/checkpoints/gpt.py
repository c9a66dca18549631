"""The checkpoints of GPT and GPT-2: OpenAI's and Hugging Face's."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints import gpt_openai
from tfnlp.checkpoints.config import (
    ACTIVATIONS,
    ConfigNames,
    defaults_of,
    layer_arguments,
    read_size,
)
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.folders import find_one, find_weights
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.gpt_openai import OPENAI_ACTIVATIONS, OPENAI_GPT, OPENAI_GPT2
from tfnlp.checkpoints.heads import SPAN, TaskHead
from tfnlp.checkpoints.mapping import TORCH, TensorNames, recognise
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.byte_pairs import GPT_BYTE_PAIRS
from tfnlp.models import gpt, gpt_pretrainer
from tfnlp.text import GPT2Tokenizer, GPTTokenizer
from tfnlp.text.lines import shown

HEAD = "lm_head.weight"


@dataclass(frozen=True)
class GPTKind(EncoderFiles):
    """The checkpoints of one of the two models.

    Its head has no tensors of its own but for a table, where that is not the input's.

    Attributes:
        norm_first: that of `tfnlp.models.gpt`.
    """

    norm_first: bool = False

    def _open(
        self, path: str | os.PathLike, config_file: str | os.PathLike | None, activation: str | None
    ) -> tuple[Tensors, pathlib.Path, dict[str, Any]]:
        folder = gpt_openai.find_pieces(pathlib.Path(path))
        if folder is not None:
            tensors, config_path = gpt_openai.open_pieces(folder), folder / gpt_openai.CONFIGURATION
            return tensors, config_path, gpt_openai.read_sizes(folder, tensors)
        weights = find_weights(path)
        tensors = open_tensors(weights)
        form, _ = recognise(self.formats, self.title, tensors, ())
        if form is not self.huggingface:
            config_path = find_one(weights.parent, (gpt_openai.CONFIGURATION,), "configuration")
            return tensors, config_path, gpt_openai.read_hparams(config_path)
        config_path = find_one(weights.parent, self.configurations, "configuration")
        return tensors, config_path, self._read_config(config_path)

    def _read_config(self, path: pathlib.Path) -> dict[str, Any]:
        """Return the arguments that a `config.json` states.

        The rate on the embeddings, `embd_pdrop`, is ignored: `gpt` has one `dropout` for them and
        for the sub-layers, which is `resid_pdrop`.
        """
        arguments, config = self.config.read(path, self.title), read_json(path)
        classes = config.get("architectures") or ()
        if any(str(name).endswith("DoubleHeadsModel") for name in classes):
            raise ValueError(
                f"{path} has architectures={shown(classes)}; tfnlp has no GPT with a head of "
                "choices beside that of the language model"
            )
        wide = 4 * arguments["hidden_size"]
        if self.norm_first and config.get("n_inner") is not None:
            wide = read_size(path, config, "n_inner", self.title)
        return {**arguments, "intermediate_size": wide, "norm_first": self.norm_first}

    def _read(
        self,
        tensors: Tensors,
        config: dict[str, Any],
        config_path: pathlib.Path,
        ignore: Sequence[str],
        tied: bool,
    ) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
        """Return the weights and heads; factors of attention are put into the queries' kernels.

        `scale_attn_by_inverse_layer_idx` divides the scores of layer l by l + 1; without
        `scale_attn_weights` they are not divided by `sqrt(D)`, which tfnlp's always are.
        """
        weights, heads = super()._read(tensors, config, config_path, ignore, tied)
        stated = read_json(config_path) if config_path.is_file() else {}
        hidden = config["hidden_size"]
        for layer in range(config["num_layers"]):
            factor = 1.0
            if not stated.get("scale_attn_weights", True):
                factor *= (hidden // config["num_heads"]) ** 0.5
            if stated.get("scale_attn_by_inverse_layer_idx", False):
                factor /= layer + 1
            for name in ("kernel", "bias") if factor != 1.0 else ():
                path = f"layer_{layer}/attention/qkv/{name}"
                weights[path] = weights[path].copy()
                weights[path][..., :hidden] *= factor
        return weights, heads

    def with_heads(
        self,
        encoder: keras.Model,
        config: Mapping[str, Any],
        heads: Mapping[str, bool],
        max_predictions: int | None,
    ) -> keras.Model:
        return gpt_pretrainer(encoder, tied=not heads["untied"])

    def config_of(self, model: keras.Model) -> dict[str, Any]:
        config, found = super().config_of(model), layer_arguments(model)
        own = {name: found[name] for name in ("intermediate_size", "norm_first")}
        return {**config, **own}

    def _heads(self, model: keras.Model) -> tuple[str, ...]:
        return ("lm",) if "lm_logits" in model.output else ()

    def written_config(
        self,
        config: Mapping[str, Any],
        architecture: str,
        tokenizer: GPTTokenizer | GPT2Tokenizer | None,
    ) -> dict[str, Any]:
        """Return the contents of `config.json`; arguments that are not given are the usual ones."""
        config = {**defaults_of(gpt), **config}
        stated = self.config.write(config, architecture)
        wide, hidden = config["intermediate_size"], config["hidden_size"]
        if not self.norm_first and wide != 4 * hidden:
            raise ValueError(
                f"intermediate_size={wide} has no place in Hugging Face's 'openai-gpt'; expected "
                f"{4 * hidden}, 4 times hidden_size"
            )
        end = None if tokenizer is None else tokenizer.end_id
        return {
            **stated,
            "n_ctx": config["max_positions"],  # the name in early versions
            "embd_pdrop": config["dropout"],
            "bos_token_id": end,
            "eos_token_id": end,
            **({"n_inner": wide} if self.norm_first else {}),
        }


def _names(tokens: str, positions: str, title: str, last: Mapping[str, str]) -> TensorNames:
    """Return Hugging Face's names.

    Kernels are `[in, out]` as in Keras: these two models do not use PyTorch's `Linear`.
    """
    return TensorNames(
        layers={"token_embedding": tokens, "position_embedding": positions, **last},
        block={
            "attention/qkv": "attn.c_attn",
            "attention/output": "attn.c_proj",
            "attention_norm": "ln_1",
            "intermediate": "mlp.c_fc",
            "output": "mlp.c_proj",
            "output_norm": "ln_2",
        },
        prefix="h.{}.",
        heads={"lm": {"lm_table": "lm_head"}},
        words=TORCH._replace(transposed=False),
        beginning=(f"{tokens}.", f"{positions}."),
        base="transformer.",
        # The causal mask and the numbers of the positions.
        buffers=re.compile(r"position_ids|h\.\d+\.attn\.(bias|masked_bias)"),
        hint=f"'{tokens}.weight' (Hugging Face's {title})",
    )


def _config(
    model_type: str, activation: str, default: str, words: Any, **optional: Any
) -> ConfigNames:
    """Return Hugging Face's names, and what is read beside sizes and numbers."""
    return ConfigNames(
        model_type,
        sizes={"vocab_size": "vocab_size", "n_positions": "max_positions", **gpt_openai.SAME_SIZES},
        numbers=gpt_openai.NUMBERS,
        activation=activation,
        default_activation=default,
        activations=words,
        elsewhere=("intermediate_size", "norm_first"),
        optional={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            **optional,
        },
    )


def _texts(name: str) -> dict[str, TaskHead]:
    head = TaskHead(f"{name}ForSequenceClassification", {"classifier": "score"}, biased=False)
    return dict.fromkeys(("class", "label", "score", "scores"), head)


GPT1_FILES = GPTKind(
    title="GPT",
    encoder=gpt,
    pretrainer=gpt_pretrainer,
    config=_config("openai-gpt", "afn", "gelu", OPENAI_ACTIVATIONS),
    formats=(OPENAI_GPT, _names("tokens_embed", "positions_embed", "GPT", {})),
    classes={("lm",): "OpenAIGPTLMHeadModel", (): "OpenAIGPTModel"},
    tokenizer=GPT_BYTE_PAIRS,
    tasks=_texts("OpenAIGPT"),
)
GPT2_FILES = GPTKind(
    title="GPT",
    encoder=gpt,
    pretrainer=gpt_pretrainer,
    config=_config("gpt2", "activation_function", "gelu_new", ACTIVATIONS, n_inner=None),
    formats=(OPENAI_GPT2, _names("wte", "wpe", "GPT-2", {"final_norm": "ln_f"})),
    classes={("lm",): "GPT2LMHeadModel", (): "GPT2Model"},
    tokenizer=GPT_BYTE_PAIRS,
    tasks={
        **_texts("GPT2"),
        "tag": TaskHead("GPT2ForTokenClassification", {"classifier": "classifier"}),
        "span": TaskHead("GPT2ForQuestionAnswering", {SPAN: SPAN}, size=2),
    },
    norm_first=True,
)
KINDS = {False: GPT1_FILES, True: GPT2_FILES}  # by norm_first


def load_gpt(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published GPT or GPT-2 checkpoint: OpenAI's formats or Hugging Face's.

    OpenAI's files state no dropout: 0.1 is taken, as in GPT, section 4.1. Of Hugging Face's rates
    `resid_pdrop` becomes `dropout`, `attn_pdrop` `attention_dropout`.

    Args:
        path: a local folder, or a weight file in it. OpenAI's GPT: `params_shapes.json`,
            `params_0.npy`, ... (and `hparams.json` with `n_head` where it is not 12). OpenAI's
            GPT-2: a TensorFlow checkpoint and `hparams.json`. Hugging Face's `openai-gpt` and
            `gpt2`: weights as of `EncoderFiles.load`, and `config.json`.
        options: those of `EncoderFiles.load`, such as `dtype`, `ignore` and `vocab`, the folder of
            `encoder.json` and `vocab.bpe`, `encoder_bpe_40000.json` and `vocab_40000.bpe`,
            `vocab.json` and `merges.txt`, or `tokenizer.json`; the errors are its own too.

    Returns:
        A `Pretrained`; the head of its `pretrainer` has a table of its own only if the checkpoint
        holds one. The head of a task is left out, and `left_out` names the class.
    """
    kind = GPT1_FILES
    if gpt_openai.find_pieces(pathlib.Path(path)) is None:
        formats = (*GPT2_FILES.formats, GPT1_FILES.huggingface)
        form, _ = recognise(formats, "GPT", open_tensors(find_weights(path)), ())
        kind = KINDS[form in GPT2_FILES.formats]
    return kind.load(path, **options)


def save_gpt(
    directory: str | os.PathLike,
    model: keras.Model,
    tokenizer: GPTTokenizer | GPT2Tokenizer | None = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_gpt` read.

    A GPT is written as `openai-gpt`, a model with `norm_first` as `gpt2`; a pretrainer as the
    class with the language-model head, an encoder as the one without. The head's table is the
    input's and is stored once.

    Args:
        directory: a folder that does not exist yet, or is empty.
        model: an encoder made by `gpt` or a model made by `gpt_pretrainer`.
        tokenizer: a `GPTTokenizer` or `GPT2Tokenizer`, whose files are written too.
        overwrite: replace a folder that holds files of `save_gpt` and nothing else.

    Raises:
        ValueError: if `model` is not a GPT or Hugging Face's format can't hold it, or the
            tokenizer has more tokens than its table.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    norm_first = GPT1_FILES.config_of(model)["norm_first"]
    KINDS[norm_first].save(model, directory, tokenizer, overwrite)

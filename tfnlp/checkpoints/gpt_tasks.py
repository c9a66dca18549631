"""Fine-tuned GPTs of Hugging Face, in both directions.

Hugging Face's classes read what the tokenizer gives and take the vector of the last token; the
head of texts has no bias. tfnlp's models read a start, a delimiter and an extract token around
texts (Radford et al. 2018, section 3.3): these are written as special tokens that `tokenizer.json`
puts there. A bias of classes moves into that of the last layer norm, which nothing else reads.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.folders import MODEL_FILES, find_weights, new_folder, write_model
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.gpt import GPT2_FILES, HEAD, KINDS, load_gpt, save_gpt
from tfnlp.checkpoints.heads import Arrays, FineTuned, TaskHead, task_config, written_head
from tfnlp.checkpoints.mapping import Row, tensors_from_weights
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.byte_pairs import (
    GPT_BYTE_PAIRS,
    write_byte_pairs,
    write_task_tokens,
)
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME, read_tokenizer_json
from tfnlp.models import gpt
from tfnlp.text import PipelineTokenizer, gpt_tokenizer
from tfnlp.text.base_tokenizers import BytePairTokenizer
from tfnlp.text.task_readers import GPTReader

ENDS = ("<|start|>", "<|delimiter|>", "<|extract|>")
_TOLERANCE = 1e-5  # of a bias that moves


class GPTFiles:
    """The files of GPT and GPT-2, Hugging Face's and OpenAI's; its methods are `EncoderFiles`'."""

    @property
    def model_types(self) -> tuple[str, ...]:
        return tuple(name for kind in KINDS.values() for name in kind.model_types)

    @property
    def task_heads(self) -> dict[str, TaskHead]:
        return {name: head for kind in KINDS.values() for name, head in kind.task_heads.items()}

    def canonical(self, name: str) -> str | None:
        return GPT2_FILES.canonical(name)

    @property
    def outside(self) -> tuple[str, ...]:
        return (HEAD, *(name for head in self.task_heads.values() for name in head.beginnings()))

    def load(self, path: str | os.PathLike, *, dtype: Any = None) -> Pretrained:
        return load_gpt(path, dtype=dtype)

    def save(
        self, model: keras.Model, directory: str, tokenizer: Any = None, overwrite: bool = False
    ) -> None:
        save_gpt(directory, model, tokenizer, overwrite)

    def write_tokenizer(self, folder: str, reader: Any, arguments: Mapping[str, Any]) -> None:
        special = reader.special
        if special is not None and len(set(special)) < len(special):
            return  # of a loaded module: one token stands for three
        ends = None if special is None else ENDS
        positions = arguments.get("max_positions", 512)
        write_byte_pairs(folder, reader.tokenizer)
        write_task_tokens(folder, reader.tokenizer, arguments["vocab_size"], ends, positions)

    def read_task(self, path: str | os.PathLike, architecture: str) -> FineTuned:
        (kind,) = (kind for kind in KINDS.values() if architecture in kind.task_heads)
        found = kind.read_task(path, architecture)
        backbone, tokenizer_path = found.backbone, find_weights(path).parent / NAME
        ends = _ends(tokenizer_path)
        if ends is not None:
            return _with_ends(found, ends, tokenizer_path)
        padding = read_json(tokenizer_path.with_name("config.json")).get("pad_token_id")
        known = type(padding) is int and 0 <= padding < backbone.config["vocab_size"]
        found.reader = lambda: _PlainReader(backbone.tokenizer, padding if known else None)
        return found

    def write_task(
        self,
        directory: str | os.PathLike,
        task_model: Any,
        arguments: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        task, kind = task_model.task, KINDS[arguments["norm_first"]]
        head = kind.tasks.get(task.output)
        if head is None:
            raise ValueError(
                f"Hugging Face's {kind.config.model_type!r} has no class for {task.name}"
            )
        if task.both_orders:
            raise ValueError(
                "the model reads each pair in both orders, which no class of Hugging Face does"
            )
        reader, size = task_model.reader, arguments["vocab_size"] + len(ENDS)
        tokens, padding = ENDS, None
        if reader.special is None:
            tokens, padding = None, getattr(reader, "padding_id", None)
            if padding is None:
                padding = len(reader.tokenizer.vocabulary)
            size = max(arguments["vocab_size"], padding + 1)
        stated = kind.written_config(arguments, head.architecture, reader.tokenizer)
        stated = {**stated, "vocab_size": size, **task_config(task)}
        # Only what is never last tells padding apart.
        stated["pad_token_id"] = size - 2 if padding is None else padding
        paths = {weight.path for weight in task_model.model.weights}
        rows = kind.huggingface.rows(arguments, paths)
        tensors = _tensors(task_model, rows, arguments["num_layers"], head, size)
        with new_folder(directory, (*MODEL_FILES, *GPT_BYTE_PAIRS.names), overwrite) as folder:
            write_model(folder, stated, tensors)
            sizes = arguments["vocab_size"], tokens, arguments["max_positions"], padding
            write_task_tokens(folder, reader.tokenizer, *sizes)


GPT_FILES = GPTFiles()


class _PlainReader(GPTReader):
    """A reader without special tokens, of a checkpoint that may state the id of its padding."""

    def __init__(self, tokenizer: BytePairTokenizer, padding_id: int | None) -> None:
        super().__init__(tokenizer, None)
        self.padding_id = padding_id


def _ends(path: pathlib.Path) -> tuple[int, int, int] | None:
    """Return the ids of start, delimiter and extract that `tokenizer.json` puts around texts."""
    if not path.is_file():
        return None
    found = read_tokenizer_json(path)
    single, pair = found.template("single"), found.template("pair")
    if not any(isinstance(part, int) for part in [*single, *pair]):
        return None
    match single, pair:
        case [int(start), "A", int(extract)], [int(first), "A", int(delimiter), "B", int(last)]:
            if (first, last) == (start, extract):
                return start, delimiter, extract
    raise ValueError(
        f"{path} puts tokens around texts that tfnlp's GPT does not have; expected none, or one "
        "before, between and after them"
    )


def _with_ends(found: FineTuned, ends: tuple[int, int, int], path: pathlib.Path) -> FineTuned:
    """Return the checkpoint with the last three rows of the table as those tokens."""
    backbone, size = found.backbone, found.backbone.config["vocab_size"] - 3
    if ends != (size, size + 1, size + 2):
        raise ValueError(
            f"{path} has the ids {', '.join(map(str, ends))} around texts; expected the last three"
        )
    whole, config = backbone.encoder, {**backbone.config, "vocab_size": size}
    backbone.config, backbone.encoder = config, gpt(**config, dtype=whole.dtype_policy)
    table, cut = (m.get_layer("token_embedding").embeddings for m in (whole, backbone.encoder))
    for variable, old in zip(backbone.encoder.weights, whole.weights, strict=True):
        variable.assign(old[:size] if variable is cut else old)
    found.rows = np.asarray(table[size:])
    backbone.make_tokenizer = functools.partial(_first_tokens, backbone.make_tokenizer, size)
    return found


def _first_tokens(make: Any, size: int) -> Any:
    whole = make()
    if isinstance(whole, PipelineTokenizer):
        return whole.of_first(size)
    return gpt_tokenizer((whole.vocabulary[:size], whole.merges))


def _tensors(
    task_model: Any, rows: Mapping[str, Row], layers: int, head: TaskHead, size: int
) -> Arrays:
    tensors = tensors_from_weights(rows, task_model.model)
    (name,) = rows["token_embedding/embeddings"].names
    tensors[name] = tensors[name][:size]
    heads = written_head(task_model.model, head, task_model.task)
    if "score.bias" in heads:
        bias = heads.pop("score.bias")
        last = "final_norm" if "final_norm/beta" in rows else f"layer_{layers - 1}/output_norm"
        (beta,) = rows[f"{last}/beta"].names
        moved = _moved(heads["score.weight"], bias, task_model.task.output)
        tensors[beta] = tensors[beta] + moved
    return {**{f"transformer.{n}": array for n, array in tensors.items()}, **heads}


def _moved(kernel: np.ndarray, bias: np.ndarray, output: str) -> np.ndarray:
    """Return what to add to the vectors so that `kernel` gives the bias too, `[H]`."""
    kernel, bias = kernel.astype(np.float64), bias.astype(np.float64)
    choices = [bias]
    if output == "class":
        choices.append(bias - bias.mean())  # the same classes and probabilities
    for wanted in choices:
        shift = np.linalg.lstsq(kernel, wanted, rcond=None)[0]
        if np.abs(kernel @ shift - wanted).max() < _TOLERANCE:
            return shift.astype(np.float32)
    raise ValueError(
        "the bias of the classes has no place in Hugging Face's head, which has none: the rows of "
        "the kernel depend on each other"
    )

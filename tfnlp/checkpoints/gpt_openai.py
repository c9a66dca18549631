"""OpenAI's own formats of GPT and GPT-2.

Those of GPT-2 are TensorFlow's checkpoints (openai/gpt-2, src/model.py). In GPT's
(openai/finetune-transformer-lm, `model/`) all weights are concatenated into one vector, which is
cut into pieces of any length: `params_0.npy`, `params_1.npy`, ...; `params_shapes.json` lists the
shapes of the weights in order: positions, tokens, then the weights of each block.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from typing import Any

import numpy as np

from tfnlp.checkpoints.config import ConfigNames
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import FLOATS, Tensors, reading
from tfnlp.checkpoints.mapping import TensorNames, Words

CONFIGURATION = "hparams.json"
SHAPES = "params_shapes.json"
SAME_SIZES = {"n_embd": "hidden_size", "n_layer": "num_layers", "n_head": "num_heads"}
# Of Hugging Face, whose defaults are constants in OpenAI's code of both models.
NUMBERS = {
    "resid_pdrop": ("dropout", 0.1, 0.0, 1.0),
    "attn_pdrop": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_epsilon": ("norm_epsilon", 1e-5, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
# OpenAI's code of both models, and `openai-gpt` of transformers, call the tanh form "gelu".
OPENAI_ACTIVATIONS = {
    "gelu": "gelu_tanh",
    "gelu (tanh)": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Of GPT-2; of GPT it states what is not usual: `n_head`, `afn` and `ln_eps`.
HPARAMS = ConfigNames(
    "gpt",
    sizes={"n_vocab": "vocab_size", "n_ctx": "max_positions", **SAME_SIZES},
    numbers={"ln_eps" if "norm" in key else key: limits for key, limits in NUMBERS.items()},
    activation="afn",
    activations=OPENAI_ACTIVATIONS,
)
_PIECE = re.compile(r"params_(\d+)\.npy")
_MOST_AXES = 3
_IN_LAYER = 12  # tensors
_HEADS = 12  # of the published GPT
# In the order in which OpenAI's code makes them.
_BLOCK = {
    # [H, 3H], the last axis ordered by query, key and value, then heads, then columns, as here.
    "attention/qkv": "attn/c_attn",
    "attention/output": "attn/c_proj",
    "attention_norm": "ln_1",
    "intermediate": "mlp/c_fc",
    "output": "mlp/c_proj",
    "output_norm": "ln_2",
}
_WORDS = Words("/g", "/b", "/w", "/b", "", convolution=True)
OPENAI_GPT = TensorNames(
    layers={"position_embedding": "pos", "token_embedding": "we"},
    block=_BLOCK,
    prefix="h{}/",
    words=_WORDS,
    beginning="we",
    hint="'we' (OpenAI's GPT)",
)
OPENAI_GPT2 = TensorNames(
    layers={
        "position_embedding": "model/wpe",
        "token_embedding": "model/wte",
        "final_norm": "model/ln_f",
    },
    block=_BLOCK,
    prefix="model/h{}/",
    words=_WORDS,
    beginning="model/",
    hint="'model/wte' (OpenAI's GPT-2)",
)


def find_pieces(path: pathlib.Path) -> pathlib.Path | None:
    """Return the folder of the pieces if `path` is it or a file in it, else None."""
    if path.is_dir():
        held = any(f.name == SHAPES or _PIECE.fullmatch(f.name) for f in path.iterdir())
        return path if held else None
    named = path.name == SHAPES or _PIECE.fullmatch(path.name)
    return path.parent if named and path.is_file() else None


def open_pieces(folder: pathlib.Path) -> Tensors:
    """Open the pieces in a folder."""
    shapes = _read_shapes(folder / SHAPES)
    pieces = _pieces(folder)
    sizes = [math.prod(shape) for shape in shapes]
    *starts, held = np.cumsum([0, *map(len, pieces)])
    if held != sum(sizes):
        raise ValueError(
            f"{folder} holds {held} numbers in params_0.npy to params_{len(pieces) - 1}.npy, but "
            f"{SHAPES} asks for {sum(sizes)}; a piece is missing or they don't belong together"
        )
    table = OPENAI_GPT.rows({"num_layers": (len(shapes) - 2) // _IN_LAYER})
    names = [row.names[0] for row in table.values()]
    ends = np.cumsum(sizes)
    table = zip(names, shapes, sizes, ends, strict=True)
    spans = {name: (end - size, end, shape) for name, shape, size, end in table}

    def read(name: str) -> np.ndarray:
        first, last, shape = spans[name]
        parts = [
            piece[max(first - start, 0) : max(last - start, 0)]
            for start, piece in zip(starts, pieces, strict=True)
        ]
        return np.concatenate(parts, dtype=np.float32).reshape(shape)

    entries = {name: (shape, "float32") for name, (_, _, shape) in spans.items()}
    return Tensors(folder / SHAPES, entries, read, sum(piece.nbytes for piece in pieces))


def read_sizes(folder: pathlib.Path, tensors: Tensors) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt`.

    The sizes are those of the tensors if `hparams.json` does not state them; the number of heads
    is 12, as in the published model.
    """
    shapes = tensors.shapes
    for name, rank in (("pos", 2), ("we", 2), ("h0/mlp/c_fc/w", 3)):
        if len(shapes[name]) != rank:
            raise ValueError(
                f"{tensors.path} has shape {list(shapes[name])} for {name!r}, expected one of "
                f"{rank} sizes; is it the list of a GPT?"
            )
    stated = {
        "n_vocab": shapes["we"][0],
        "n_layer": (len(shapes) - 2) // _IN_LAYER,
        "n_embd": shapes["we"][1],
        "n_ctx": shapes["pos"][0],
        "n_head": _HEADS,
    }
    names = dataclasses.replace(HPARAMS, optional=stated)
    arguments = names.read(folder / CONFIGURATION, "GPT")
    wide = shapes["h0/mlp/c_fc/w"][2]
    return {**arguments, "intermediate_size": wide, "norm_first": False}


def read_hparams(path: pathlib.Path) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt` that the `hparams.json` of a GPT-2 states."""
    arguments = HPARAMS.read(path, "GPT")
    wide = 4 * arguments["hidden_size"]
    return {**arguments, "intermediate_size": wide, "norm_first": True}


def _read_shapes(path: pathlib.Path) -> list[tuple[int, ...]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; the pieces params_0.npy, ... have no names without it"
        )
    shapes = read_json(path, list)
    # A product of any number of sizes could be too long even to be printed.
    lists = all(isinstance(shape, list) and len(shape) <= _MOST_AXES for shape in shapes)
    if not lists or not all(type(n) is int and 0 < n < 2**31 for shape in shapes for n in shape):
        raise ValueError(f"{path} is no list of shapes: expected [[512, 768], [40478, 768], ...]")
    if len(shapes) <= 2 or (len(shapes) - 2) % _IN_LAYER:
        raise ValueError(
            f"{path} lists {len(shapes)} shapes; expected 2 and {_IN_LAYER} for each layer"
        )
    return [tuple(shape) for shape in shapes]


def _pieces(folder: pathlib.Path) -> list[np.ndarray]:
    """Return the vectors, mapped into memory."""
    held = filter(None, (_PIECE.fullmatch(file.name) for file in folder.iterdir()))
    pieces = []
    for number in range(max((int(match[1]) for match in held), default=0) + 1):
        path = folder / f"params_{number}.npy"
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} holds no {path.name}; fetch it again, the pieces make one vector"
            )
        with reading(path):
            piece = np.lib.format.open_memmap(path, mode="r")
        if piece.ndim != 1 or piece.dtype.name not in FLOATS:
            raise ValueError(
                f"{path} holds {piece.dtype.name[:40]} {list(piece.shape)}; expected a vector of "
                "floats"
            )
        pieces.append(piece)
    return pieces

"""OpenAI's own formats of GPT and GPT-2.

Those of GPT-2 are TensorFlow's checkpoints (openai/gpt-2, src/model.py). In GPT's
(openai/finetune-transformer-lm, `model/`) all weights are concatenated into one vector, which is
cut into pieces of any length: `params_0.npy`, `params_1.npy`, ...; `params_shapes.json` lists the
shapes of the weights in order: positions, tokens, then the weights of each block.
"""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfnlp.checkpoints.encoder_files import TensorNames
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import FLOATS, Tensors, reading
from tfnlp.checkpoints.formats.weight_files import npy_header
from tfnlp.checkpoints.gpt_config import complete
from tfnlp.checkpoints.mapping import NameTable, Row

CONFIGURATION = "hparams.json"
SHAPES = "params_shapes.json"
_PIECE = re.compile(r"params_(\d+)\.npy")
_MOST_AXES = 3
_IN_LAYER = 12  # tensors


def block_rows(num_layers: int, prefix: str) -> dict[str, Row]:
    """Return the table of weight path to `Row` for the blocks.

    The order is that in which OpenAI's code makes them. GPT and GPT-2 have the same names.
    """
    table = NameTable("/g", "/b", "/w", "/b", convolution=True)
    for i in range(num_layers):
        path, name = f"layer_{i}", f"{prefix}h{i}"
        # [H, 3H], the last axis ordered by query, key and value, then heads, then columns, as here.
        table.dense(f"{path}/attention/qkv", f"{name}/attn/c_attn")
        table.dense(f"{path}/attention/output", f"{name}/attn/c_proj")
        table.norm(f"{path}/attention_norm", f"{name}/ln_1")
        table.dense(f"{path}/intermediate", f"{name}/mlp/c_fc")
        table.dense(f"{path}/output", f"{name}/mlp/c_proj")
        table.norm(f"{path}/output_norm", f"{name}/ln_2")
    return table.rows


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    return {
        "position_embedding/embeddings": Row(("model/wpe",)),
        "token_embedding/embeddings": Row(("model/wte",)),
        **block_rows(config["num_layers"], "model/"),
        "final_norm/gamma": Row(("model/ln_f/g",)),
        "final_norm/beta": Row(("model/ln_f/b",)),
    }


OPENAI_GPT2 = TensorNames(
    rows=_rows,
    heads={},
    layer=re.compile(r"model/h(\d+)/"),
    beginning="model/",
    hint="'model/wte' (OpenAI's GPT-2)",
)


def rows(config: Mapping[str, Any]) -> dict[str, Row]:
    """Return the table of weight path to `Row`, in the file's order."""
    return {
        "position_embedding/embeddings": Row(("pos",)),
        "token_embedding/embeddings": Row(("we",)),
        **block_rows(config["num_layers"], ""),
    }


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
    held = sum(len(piece) for piece in pieces)
    if held != sum(sizes):
        raise ValueError(
            f"{folder} holds {held} numbers in params_0.npy to params_{len(pieces) - 1}.npy, but "
            f"{SHAPES} asks for {sum(sizes)}; a piece is missing or they don't belong together"
        )
    table = rows({"num_layers": (len(shapes) - 2) // _IN_LAYER})
    names = [row.names[0] for row in table.values()]
    ends = np.cumsum(sizes)
    table = zip(names, shapes, sizes, ends, strict=True)
    spans = {name: (end - size, end, shape) for name, shape, size, end in table}

    def read(name: str) -> np.ndarray:
        first, last, shape = spans[name]
        parts, start = [], 0
        for piece in pieces:
            parts.append(piece[max(first - start, 0) : max(last - start, 0)])
            start += len(piece)
        return np.concatenate(parts, dtype=np.float32).reshape(shape)

    entries = {name: (shape, "float32") for name, (_, _, shape) in spans.items()}
    return Tensors(folder / SHAPES, entries, read, sum(piece.nbytes for piece in pieces))


def read_sizes(folder: pathlib.Path, tensors: Tensors) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt`.

    The sizes are those of the tensors; the number of heads is in `hparams.json`, or 12 as in the
    published model.
    """
    shapes = tensors.shapes
    for name, rank in (("pos", 2), ("we", 2), ("h0/mlp/c_fc/w", 3)):
        if len(shapes[name]) != rank:
            raise ValueError(
                f"{tensors.path} has shape {list(shapes[name])} for {name!r}, expected one of "
                f"{rank} sizes; is it the list of a GPT?"
            )
    sizes = {
        "vocab_size": shapes["we"][0],
        "num_layers": (len(shapes) - 2) // _IN_LAYER,
        "hidden_size": shapes["we"][1],
        "intermediate_size": shapes["h0/mlp/c_fc/w"][2],
        "max_positions": shapes["pos"][0],
    }
    path = folder / CONFIGURATION
    return complete(path, read_json(path) if path.is_file() else {}, sizes)


def _read_shapes(path: pathlib.Path) -> list[tuple[int, ...]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; the pieces params_0.npy, ... have no names without it"
        )
    shapes = read_json(path, list)

    def is_shape(shape: Any) -> bool:
        # A product of any number of sizes could be too long even to be printed.
        return (
            isinstance(shape, list)
            and len(shape) <= _MOST_AXES
            and all(type(n) is int and 0 < n < 2**31 for n in shape)
        )

    if not all(map(is_shape, shapes)):
        raise ValueError(f"{path} is no list of shapes: expected [[512, 768], [40478, 768], ...]")
    if len(shapes) <= 2 or (len(shapes) - 2) % _IN_LAYER:
        raise ValueError(
            f"{path} lists {len(shapes)} shapes; expected 2 and {_IN_LAYER} for each layer"
        )
    return [tuple(shape) for shape in shapes]


def _pieces(folder: pathlib.Path) -> list[np.ndarray]:
    """Return the vectors, mapped into memory."""
    numbers = {int(m[1]) for m in map(_PIECE.fullmatch, (f.name for f in folder.iterdir())) if m}
    for number in range(max(numbers, default=0) + 1):
        if number not in numbers:
            raise FileNotFoundError(
                f"{folder} holds no params_{number}.npy; fetch it again, the pieces make one vector"
            )
    pieces = []
    for number in sorted(numbers):
        path = folder / f"params_{number}.npy"
        with reading(path), open(path, "rb") as file:
            shape, dtype, offset = npy_header(file, path.stat().st_size)
        if len(shape) != 1 or dtype.name not in FLOATS:
            raise ValueError(
                f"{path} holds {dtype.name[:40]} {list(shape)}; expected a vector of floats"
            )
        with reading(path):
            pieces.append(np.memmap(path, dtype, "r", offset, shape))
    return pieces

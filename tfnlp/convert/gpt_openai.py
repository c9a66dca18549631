"""OpenAI's GPT as its authors published it (openai/finetune-transformer-lm, `model/`).

All weights stand one after the other in one vector that is cut, with no regard to where a weight
ends, into `params_0.npy`, `params_1.npy`, ...; `params_shapes.json` lists their shapes in order:
positions, tokens, then the weights of each block.
"""

import json
import math
import re

import numpy as np

from tfnlp.convert import gpt2_openai
from tfnlp.convert.bert_config import read_json
from tfnlp.convert.gpt_config import complete
from tfnlp.convert.mapping import Row
from tfnlp.convert.tensors import FLOATS, Tensors, reason

CONFIGURATION = "hparams.json"
SHAPES = "params_shapes.json"
_PIECE = re.compile(r"params_(\d+)\.npy")
_IN_LAYER = len(gpt2_openai.block_rows(1, ""))  # 12 tensors
stored_shape = gpt2_openai.stored_shape


def rows(config):
    """Table of weight path to `Row`, in the file's order."""
    return {
        "position_embedding/embeddings": Row(("pos",)),
        "token_embedding/embeddings": Row(("we",)),
        **gpt2_openai.block_rows(config["num_layers"], ""),
    }


def find_pieces(path):
    """The folder of the pieces, of which `path` is the folder or a file; None if there are none."""
    if path.is_dir():
        held = any(f.name == SHAPES or _PIECE.fullmatch(f.name) for f in path.iterdir())
        return path if held else None
    named = path.name == SHAPES or _PIECE.fullmatch(path.name)
    return path.parent if named and path.is_file() else None


def open_pieces(folder):
    """The pieces of a folder as `Tensors` by name.

    Raises:
        FileNotFoundError: if `params_shapes.json` or one of the pieces is missing.
        ValueError: if a piece is damaged or no vector of floats, the shapes make no sense, or the
            pieces hold another number of floats than the shapes say.
    """
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
    spans = {n: (e - s, e) for n, s, e in zip(names, sizes, ends, strict=True)}

    def read(name):
        first, last = spans[name]
        parts, start = [], 0
        for piece in pieces:
            parts.append(piece[max(first - start, 0) : max(last - start, 0)])
            start += len(piece)
        return np.concatenate(parts, dtype=np.float32).reshape(shapes[names.index(name)])

    entries = {name: (shape, "float32") for name, shape in zip(names, shapes, strict=True)}
    return Tensors(folder / SHAPES, entries, read)


def read_sizes(folder, tensors):
    """The arguments of `tfnlp.models.gpt`: the sizes are those of the tensors; the number of
    heads is in `hparams.json`, or 12 as in the published model.

    Raises:
        ValueError: if `hparams.json` disagrees with the shapes, or makes no sense.
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


def _read_shapes(path):
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; the pieces params_0.npy, ... can't be told apart without it"
        )
    try:
        shapes = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file ({reason(error)}); fetch it again") from error

    def is_shape(shape):
        return isinstance(shape, list) and all(type(n) is int and 0 < n < 2**31 for n in shape)

    if not isinstance(shapes, list) or not all(map(is_shape, shapes)):
        raise ValueError(f"{path} is no list of shapes: expected [[512, 768], [40478, 768], ...]")
    if len(shapes) <= 2 or (len(shapes) - 2) % _IN_LAYER:
        raise ValueError(
            f"{path} lists {len(shapes)} shapes; expected 2 and {_IN_LAYER} for each layer"
        )
    return [tuple(shape) for shape in shapes]


def _pieces(folder):
    """The vectors, mapped into memory."""
    numbers = {int(m[1]) for m in map(_PIECE.fullmatch, (f.name for f in folder.iterdir())) if m}
    for number in range(max(numbers, default=0) + 1):
        if number not in numbers:
            raise FileNotFoundError(
                f"{folder} holds no params_{number}.npy; fetch it again, the pieces make one vector"
            )
    pieces = []
    for number in sorted(numbers):
        path = folder / f"params_{number}.npy"
        try:
            piece = np.lib.format.open_memmap(path, mode="r")  # never unpickles
        except OSError:
            raise
        except Exception as error:
            raise ValueError(
                f"{path} is truncated, corrupt or no array of numbers ({reason(error)}); fetch it "
                "again"
            ) from error
        if piece.ndim != 1 or piece.dtype.name not in FLOATS:
            raise ValueError(
                f"{path} holds {piece.dtype} {list(piece.shape)}; expected a vector of floats"
            )
        pieces.append(piece)
    return pieces

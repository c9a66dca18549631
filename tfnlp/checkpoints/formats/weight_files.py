"""Weight files of every format: the reader follows from the file's name."""

from __future__ import annotations

import os
import pathlib
import re

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.npy_files import open_npz
from tfnlp.checkpoints.formats.safetensors_files import open_safetensors
from tfnlp.checkpoints.formats.tensorflow_files import open_tensorflow
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.torch_files import open_torch
from tfnlp.text.lines import shown

_LONGEST_NAME = 255  # of a file, in bytes


def open_tensors(path: str | os.PathLike) -> Tensors:
    """Open a weight file; the format follows from the name. Nothing is unpickled.

    `*.safetensors`, `*.npz`, `*.bin`, `*.pt`, `*.pth` (PyTorch's, read without torch),
    `*.safetensors.index.json` and `*.bin.index.json` (shards), and anything else as the prefix (or
    the `.index` or `.data-...` file) of a TensorFlow checkpoint, whose optimizer slots and step
    counters are left out. Load only TensorFlow checkpoints that you trust: a forged index file can
    end the process.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is truncated, corrupt, of an unknown format or would have to be
            unpickled; also while a tensor is read from the result.
    """
    path = pathlib.Path(path)
    name = path.name
    if name.endswith((".safetensors.index.json", ".bin.index.json")):
        return _open_shards(_existing(path))
    reader = _READERS.get(path.suffix)
    if reader is not None:
        return reader(_existing(path))
    prefix = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", name))
    if not prefix.with_name(prefix.name + ".index").is_file():
        raise FileNotFoundError(
            f"{path} is not a weight file: expected a .safetensors, .npz, .bin or the prefix of "
            f"a TensorFlow checkpoint ({prefix.name}.index and {prefix.name}.data-*)"
        )
    return open_tensorflow(prefix)


def _existing(path: pathlib.Path) -> pathlib.Path:
    if not path.is_file():
        raise FileNotFoundError(f"weight file {path} does not exist")
    return path


def shard_names(path: str | os.PathLike) -> dict[str, str]:
    """Return what an index of shards says: the name of each tensor to that of the file it is in."""
    path = pathlib.Path(path)
    ending = path.name.removesuffix(".index.json").rpartition(".")[2]
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict):
        raise ValueError(
            f"{path} is not an index of shards: expected a `weight_map` of names to files"
        )
    for name in places.values():
        # Only files beside the index: it may not lead anywhere else.
        plain = isinstance(name, str) and name.isprintable() and name == pathlib.PurePath(name).name
        if not plain or not name.endswith(f".{ending}") or len(name.encode()) > _LONGEST_NAME:
            raise ValueError(
                f"{path} names the shard {shown(name)}; expected a .{ending} file beside the index"
            )
    return places


def _open_shards(path: pathlib.Path) -> Tensors:
    """Open several files by an index that maps each tensor to the file that holds it."""
    places = shard_names(path)
    ending, names = path.name.removesuffix(".index.json").rpartition(".")[2], set(places.values())
    shards = {name: _READERS[f".{ending}"](_existing(path.parent / name)) for name in names}
    absent = [tensor for tensor, name in places.items() if tensor not in shards[name]]
    if absent:
        raise ValueError(
            f"{path} lists {len(absent)} tensors that are not in their shards, the first is "
            f"{shown(absent[0])}; fetch the files again"
        )
    entries = {t: (shards[n].shapes[t], shards[n].dtypes[t]) for t, n in places.items()}
    held = sum((path.parent / name).stat().st_size for name in names)
    return Tensors(path, entries, lambda tensor: shards[places[tensor]][tensor], held)


_READERS = {
    ".safetensors": open_safetensors,
    ".npz": open_npz,
    ".bin": open_torch,
    ".pt": open_torch,
    ".pth": open_torch,
}

"""Weight files of every format: the reader follows from the file's name.

PyTorch's are in `torch_files`; here are safetensors, NumPy's, TensorFlow's, HDF5, and shards by
their index. Nothing is unpickled. TensorFlow's checkpoints are read with its own reader, whose
process a forged index file can end: load only checkpoints that you trust. HDF5 is read with pyfive,
in pure Python: its own library ends the process on some damaged files. Nothing is read from any
other file: data in external files count as missing.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import re
import zipfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import h5py
import numpy as np
import safetensors
import tensorflow as tf

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Refused, Tensors, reading, reason
from tfnlp.checkpoints.formats.torch_files import open_torch
from tfnlp.extras import needed
from tfnlp.files import written_whole
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    import pyfive

# The methods of numpy. The others can need gigabytes to decompress a few bytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DTYPES = {"BOOL": "bool", "BF16": "bfloat16"}
_DTYPES |= {f"F{bits}": f"float{bits}" for bits in (16, 32, 64)}
_DTYPES |= {f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
_DTYPES |= {f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}

_SLOT = re.compile(r"(/(adam_m|adam_v|Adam|Adam_1)|(^|/)(global_step|beta[12]_power))$")
_DATA_FILE = re.compile(r"\.data-\d{5}-of-(\d{5})")

_LONGEST_NAME = 255  # of a file, in bytes
# Of HDF5.
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_UNDEFINED = 2**64 - 1  # the address of data that were never written
_CONTIGUOUS, _CHUNKED = 1, 2  # layout classes; 0 is compact, inside the header
_NUMBERS = "fiub"  # kinds of dtypes


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


def _npy_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Return (shape, dtype) of the `.npy` file of `size` bytes in `stream`."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version in ((2, 0), (3, 0)):  # which differ in the names of columns
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"version {version} of the format is unknown")
    needed = stream.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and (needed != size or min(shape, default=0) < 0):
        raise ValueError(f"it has {size} bytes, needs {needed}")
    return shape, dtype


def open_npz(path: pathlib.Path) -> Tensors:
    """Open a `.npz` file."""
    members, entries = {}, {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in members:
                raise ValueError(f"{shown(name)} is in it twice")
            if member.compress_type not in _METHODS:
                raise ValueError(f"{shown(name)} is compressed by another method than deflate")
            with archive.open(member) as stream:
                shape, dtype = _npy_header(stream, member.file_size)
            if dtype.hasobject:
                raise Refused(
                    f"{path} holds pickled objects ({shown(name)}), which could run code and are "
                    "not loaded; save plain float arrays"
                )
            members[name], entries[name] = member, (shape, dtype.name)

    def read(name: str) -> np.ndarray:
        with zipfile.ZipFile(path) as archive, archive.open(members[name]) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    return Tensors(path, entries, read, path.stat().st_size)


def open_safetensors(path: pathlib.Path) -> Tensors:
    """Open a `.safetensors` file."""
    with reading(path):
        file = safetensors.safe_open(str(path), framework="np")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        entries = {
            name: (s.get_shape(), _DTYPES.get(s.get_dtype(), s.get_dtype()))
            for name, s in slices.items()
        }
    return Tensors(path, entries, file.get_tensor, path.stat().st_size)


def open_tensorflow(prefix: pathlib.Path) -> Tensors:
    """Open the checkpoint of `prefix.index` and `prefix.data-*`.

    Optimizer slots and step counters are left out.
    """
    held = _data_size(prefix)
    with reading(prefix):
        reader = tf.train.load_checkpoint(str(prefix))
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    entries = {name: (tuple(shapes[name]), dtypes[name].name) for name in sorted(shapes)}
    listed = sum(
        math.prod(shape) * dtypes[name].size
        for name, (shape, _) in entries.items()
        if dtypes[name] is not tf.string
    )
    if listed > held:
        raise Refused(
            f"{prefix}.data-* has {held} bytes, but {prefix.name}.index lists tensors of {listed}; "
            "the files are truncated or don't belong together, fetch them again"
        )

    kept = {name: entry for name, entry in entries.items() if not _SLOT.search(name)}
    return Tensors(prefix, kept, reader.get_tensor, held)


def _data_size(prefix: pathlib.Path) -> int:
    """Return the bytes of all data files, which must all exist."""
    found, count = {}, 1
    for path in prefix.parent.iterdir():
        if path.name.startswith(prefix.name):
            match = _DATA_FILE.fullmatch(path.name.removeprefix(prefix.name))
            if match:
                found[path.name], count = path.stat().st_size, int(match[1])
    for shard in range(count):
        name = f"{prefix.name}.data-{shard:05d}-of-{count:05d}"
        if name not in found:
            raise FileNotFoundError(f"{prefix}.index has no {name} beside it")
    return sum(found.values())


def open_hdf5(path: pathlib.Path) -> Tensors:
    """Open an HDF5 file; its datasets may be chunked and compressed.

    Raises:
        MissingPackage: if pyfive is not installed.
        ValueError: if the file is damaged, or holds what is not read.
    """
    pyfive = needed("pyfive", "pyfive", "elmo-files", f"{path}, an HDF5 file,")
    with open(path, "rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ValueError(f"{path} is not an HDF5 file; fetch it again")
    size = path.stat().st_size
    datasets: dict[str, pyfive.Dataset] = {}

    def collect(name: str, item: object) -> None:
        if isinstance(item, pyfive.Dataset):
            datasets[name] = item

    with _reading_hdf5(path), pyfive.File(str(path)) as file:
        file.visititems(collect, noindex=True)
    entries, empty = {}, []
    for name, dataset in sorted(datasets.items()):
        with _reading_hdf5(path, name):
            if dataset.shape is None:
                raise ValueError("the dataset has no shape")
            dtype = np.dtype(dataset.dtype)
            known = dtype.kind in _NUMBERS
            entries[name] = tuple(dataset.shape), dtype.name if known else f"HDF5 type {dtype}"
            if not _is_filled(dataset, size):
                empty.append(name)
    if empty:
        raise ValueError(
            f"{path} holds no data of its own for {len(empty)} datasets "
            f"({', '.join(shown(name) for name in empty[:10])}); was it written to the end?"
        )

    def read(name: str) -> np.ndarray:
        with _reading_hdf5(path, name):
            return datasets[name][...]

    return Tensors(path, entries, read, size)


@contextlib.contextmanager
def written_hdf5(path: str | os.PathLike) -> Iterator[h5py.File]:
    """Yield an HDF5 file to write to, which is at `path` if the block succeeds.

    HDF5 writes through a file of Python, which raises an error on a full disk. By itself the
    library ends the process there.
    """
    with written_whole(path) as partial:
        with open(partial, "w+b") as file, h5py.File(file, "w") as datasets:
            yield datasets


@contextlib.contextmanager
def _reading_hdf5(path: pathlib.Path, name: str | None = None) -> Iterator[None]:
    """Turn any error into one line, see `reading`; pyfive does not read every kind of HDF5."""
    with reading(path, name):
        try:
            yield
        except (NotImplementedError, RuntimeError, ImportError) as error:
            raise Refused(
                f"{path} is HDF5 of a kind that is not read ({reason(error)}); copy its datasets "
                "to a new file with h5py's defaults"
            ) from error


def _is_filled(dataset: pyfive.Dataset, file_size: int) -> bool:
    """Return whether the file holds all data of a dataset."""
    storage, count = dataset.id, math.prod(dataset.shape)
    if storage.layout_class > _CHUNKED:
        raise NotImplementedError(f"layout class {storage.layout_class}")
    if storage.layout_class == _CONTIGUOUS and count:
        begin, size = storage.data_offset, count * np.dtype(dataset.dtype).itemsize
        if begin != _UNDEFINED and begin + size > file_size:
            raise ValueError(f"its {size} bytes from byte {begin} on reach beyond the file's end")
        return begin != _UNDEFINED
    if storage.layout_class == _CHUNKED and count:
        axes = zip(dataset.shape, dataset.chunks, strict=True)
        return storage.get_num_chunks() >= math.prod(-(-n // chunk) for n, chunk in axes)
    return True


_READERS = {
    ".safetensors": open_safetensors,
    ".npz": open_npz,
    ".bin": open_torch,
    ".pt": open_torch,
    ".pth": open_torch,
}

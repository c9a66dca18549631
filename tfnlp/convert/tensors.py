"""Readers of weight files: each gives the same mapping of name to float32 array."""

import contextlib
import json
import math
import pathlib
import re
import zipfile
from collections.abc import Mapping

import numpy as np
import safetensors
import tensorflow as tf

FLOATS = ("float32", "float16", "bfloat16", "float64")
_SAFE_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
_SLOT = re.compile(r"(/(adam_m|adam_v|Adam|Adam_1)|(^|/)(global_step|beta[12]_power))$")
_SAFE_TORCH = (2, 6)  # before 2.6 even `weights_only=True` could be made to run code


class Tensors(Mapping):
    """The tensors of a file: `tensors[name]` reads one, `shapes` and `dtypes` cost nothing.

    Floating point tensors of any width are given as float32, others as they are.

    Args:
        path: the file, for messages.
        entries: dict of name to (shape, name of the dtype).
        read: function of a name that returns the array.
    """

    def __init__(self, path, entries, read):
        self.path = str(path)
        self.shapes = {name: tuple(shape) for name, (shape, _) in entries.items()}
        self.dtypes = {name: dtype for name, (_, dtype) in entries.items()}
        self._read = read

    def __getitem__(self, name):
        if name not in self.shapes:
            raise KeyError(name)
        with _reading(self.path):
            array = np.asarray(self._read(name))
        return array.astype(np.float32) if self.dtypes[name] in FLOATS else array

    def __iter__(self):
        return iter(self.shapes)

    def __len__(self):
        return len(self.shapes)


def open_tensors(path):
    """Opens a weight file; the format follows from the name.

    `*.safetensors`, `*.safetensors.index.json` (shards), `*.npz` (never unpickled), `*.bin`,
    `*.pt`, `*.pth` (PyTorch, where torch is installed, `weights_only=True`), and anything else
    as the prefix (or the `.index` or `.data-...` file) of a TensorFlow checkpoint, whose
    optimizer slots and step counters are left out.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is truncated, corrupt, of an unknown format or would have to be
            unpickled; also while a tensor is read from the result.
    """
    path = pathlib.Path(path)
    name = path.name
    if name.endswith(".safetensors.index.json"):
        return _sharded_safetensors(_existing(path))
    if path.suffix == ".safetensors":
        return _safetensors(_existing(path))
    if path.suffix == ".npz":
        return _npz(_existing(path))
    if path.suffix in (".bin", ".pt", ".pth"):
        return _torch(_existing(path))
    prefix = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", name))
    if not prefix.with_name(prefix.name + ".index").is_file():
        raise FileNotFoundError(
            f"{path} is not a weight file: expected a .safetensors, .npz, .bin or the prefix of "
            f"a TensorFlow checkpoint ({prefix.name}.index and {prefix.name}.data-*)"
        )
    return _tensorflow(prefix)


def _existing(path):
    if not path.is_file():
        raise FileNotFoundError(f"weight file {path} does not exist")
    return path


def reason(error):
    """The first line of an exception's message, cut to a readable length."""
    lines = str(getattr(error, "message", None) or error).strip().split("\n")
    return f"{type(error).__name__}: {lines[0][:200]}" if lines[0] else type(error).__name__


@contextlib.contextmanager
def _reading(path):
    """Whatever a reader of a damaged file raises becomes one line that names the file."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is truncated, corrupt or not of the format its name says "
            f"({reason(error)}); fetch it again"
        ) from error


def _size(shape):
    return math.prod(int(n) for n in shape)


def _tensorflow(prefix):
    shards = [
        f for f in prefix.parent.iterdir()
        if f.name.startswith(prefix.name) and re.match(r"\.data-\d+-", f.name[len(prefix.name) :])
    ]
    if not shards:
        raise FileNotFoundError(f"{prefix}.index has no {prefix.name}.data-* files beside it")
    with _reading(prefix):
        reader = tf.train.load_checkpoint(str(prefix))
        dtypes = reader.get_variable_to_dtype_map()
        shapes = reader.get_variable_to_shape_map()
    # TensorFlow makes room for a tensor before it looks whether the file is that long.
    claimed = sum(_size(shape) * max(dtypes[name].size or 0, 1) for name, shape in shapes.items())
    held = sum(f.stat().st_size for f in shards)
    if claimed > held:
        raise ValueError(
            f"{prefix}.data-* hold {held} bytes, but {prefix.name}.index lists tensors of "
            f"{claimed}; the files are truncated or don't belong together, fetch them again"
        )
    entries = {n: (s, dtypes[n].name) for n, s in shapes.items() if not _SLOT.search(n)}
    return Tensors(prefix, entries, reader.get_tensor)


def _safetensors(path):
    with _reading(path):
        file = safetensors.safe_open(str(path), framework="np")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        entries = {
            name: (s.get_shape(), _SAFE_DTYPES.get(s.get_dtype(), s.get_dtype()))
            for name, s in slices.items()
        }
    return Tensors(path, entries, file.get_tensor)


def _sharded_safetensors(path):
    try:
        places = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        names = set(places.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not an index of shards: expected JSON with a `weight_map` of names to "
            f"files ({reason(error)})"
        ) from error
    for name in names:
        plain = isinstance(name, str) and name == pathlib.PurePath(name).name
        if not plain or not name.endswith(".safetensors"):
            raise ValueError(
                f"{path} names the shard {name!r}; expected a .safetensors file beside the index"
            )
    shards = {name: _safetensors(_existing(path.parent / name)) for name in names}
    absent = [tensor for tensor, name in places.items() if tensor not in shards[name]]
    if absent:
        raise ValueError(
            f"{path} lists {len(absent)} tensors that are not in their shards, the first is "
            f"{absent[0]!r}; fetch the files again"
        )
    entries = {t: (shards[n].shapes[t], shards[n].dtypes[t]) for t, n in places.items()}
    return Tensors(path, entries, lambda tensor: shards[places[tensor]][tensor])


def _npz(path):
    entries = {}
    with _reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                if np.lib.format.read_magic(stream) == (1, 0):
                    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
                else:
                    shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
            size = _size(shape) * dtype.itemsize
            if not dtype.hasobject and not 0 <= size <= member.file_size:
                raise ValueError(f"{member.filename} has {member.file_size} bytes, needs {size}")
            entries[member.filename.removesuffix(".npy")] = (shape, dtype)
    pickled = [name for name, (_, dtype) in entries.items() if dtype.hasobject]
    if pickled:
        raise ValueError(
            f"{path} holds pickled objects ({pickled[0]!r}), which could run code and are never "
            "loaded; save plain float arrays"
        )
    entries = {name: (shape, dtype.name) for name, (shape, dtype) in entries.items()}

    def read(name):
        with np.load(path, allow_pickle=False) as archive:
            return archive[name]

    return Tensors(path, entries, read)


def _torch(path):
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            f"{path} is a PyTorch file and torch is not installed; install torch, or convert the "
            "file to model.safetensors"
        ) from error
    version = tuple(int(n) for n in re.findall(r"\d+", torch.__version__)[:2])
    if version < _SAFE_TORCH:
        raise ValueError(
            f"{path} needs torch 2.6 or later to be read safely, but torch {torch.__version__} "
            "is installed; upgrade torch, or convert the file to model.safetensors"
        )
    with _reading(path):
        state = torch.load(str(path), weights_only=True, map_location="cpu")
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(t, torch.Tensor) for name, t in state.items()
    ):
        raise ValueError(
            f"{path} holds a {type(state).__name__} that is not a flat dict of tensors; save the "
            "model's `state_dict()`"
        )
    entries = {n: (t.shape, str(t.dtype).removeprefix("torch.")) for n, t in state.items()}

    def read(name):
        tensor = state[name].detach()
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()

    return Tensors(path, entries, read)

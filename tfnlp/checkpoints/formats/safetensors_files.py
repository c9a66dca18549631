"""Files of safetensors."""

from __future__ import annotations

import pathlib

import safetensors

from tfnlp.checkpoints.formats.tensors import Tensors, reading

_DTYPES = {"BOOL": "bool", "BF16": "bfloat16"}
_DTYPES |= {f"F{bits}": f"float{bits}" for bits in (16, 32, 64)}
_DTYPES |= {f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
_DTYPES |= {f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}


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

"""TensorFlow's checkpoints, read with TensorFlow's own reader.

An index file that was forged can end the process: load only checkpoints that you trust.
"""

from __future__ import annotations

import math
import pathlib
import re

import tensorflow as tf

from tfnlp.checkpoints.formats.tensors import Refused, Tensors, reading

_SLOT = re.compile(r"(/(adam_m|adam_v|Adam|Adam_1)|(^|/)(global_step|beta[12]_power))$")
_DATA_FILE = re.compile(r"\.data-\d{5}-of-(\d{5})")


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

"""Texts that belong together as columns of numbers for `tfnlp.data.TaskBatches`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_PART = 4096  # texts that are tokenized at a time


def encode_texts(
    reader: Any, rows: Sequence[Sequence[str]], max_length: int
) -> tuple[dict[str, list[np.ndarray]], np.ndarray, int]:
    """Return the model's inputs of rows of S texts, numbers of the texts, and how many are cut.

    `max_length` is that of a text in tokens, special ones included.

    Returns:
        Columns by name, for each row int32 `[S, n]`, n the length of its longest text; int32
        `[N, S]`, equal for equal texts; and the number of distinct texts that are cut.
    """
    numbers = {text: n for n, text in enumerate(dict.fromkeys(t for row in rows for t in row))}
    texts, found, cut = list(numbers), [], 0
    for first in range(0, len(texts), _PART):
        ids, _, _ = reader.read([tf.constant(texts[first : first + _PART], "string")])
        packed = {name: x.numpy() for name, x in reader.pack(ids, max_length).items()}
        cut += int(packed["is_cut"].sum())
        sizes = packed["input_mask"].sum(1)
        names = [name for name in packed if packed[name].ndim == 2]
        found += [{n: packed[n][i, :size] for n in names} for i, size in enumerate(sizes)]
    places = np.array([[numbers[text] for text in row] for row in rows], np.int32)  # [N, S]
    columns: dict[str, list[np.ndarray]] = {name: [] for name in found[0]}
    for row in places:
        longest = max(1, *(len(found[i]["input_mask"]) for i in row))
        for name, column in columns.items():
            parts = [np.pad(x, (0, longest - len(x))) for x in (found[i][name] for i in row)]
            column.append(np.stack(parts).astype(np.int32))  # [S, n]
    return columns, places, cut

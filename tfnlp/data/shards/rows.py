"""Tables of rows with tokens of any length, which workers exchange: dicts of arrays."""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.pretraining.token_stream import window_keys


def grouped(groups: np.ndarray, rows: dict[str, np.ndarray]) -> Iterator[tuple[int, dict]]:
    """Yield the rows (arrays [N]) of each group (ints [N]) in their order: (group, rows)."""
    order = np.argsort(groups, kind="stable")
    borders = np.flatnonzero(np.diff(groups[order])) + 1
    for chosen in np.split(order, borders) if len(order) else ():
        yield int(groups[chosen[0]]), {name: values[chosen] for name, values in rows.items()}


def grouped_tokens(
    groups: np.ndarray, tokens: np.ndarray, starts: np.ndarray, rows: dict[str, np.ndarray]
) -> Iterator[tuple[int, dict]]:
    """As `grouped`; each row also gets `lengths` tokens from `starts` [N] on."""
    for group, part in grouped(groups, {"starts": starts, **rows}):
        starts = part.pop("starts")
        yield group, {**part, "tokens": ranges(tokens, starts, part["lengths"])}


def merged(batches: Iterable[dict]) -> dict:
    """Return tables joined into one."""
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def window_parts(
    tokens: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    numbers: np.ndarray,
    piece: int,
    wanted: np.ndarray,
    *,
    shards: int,
    seed: int,
    epoch: int,
) -> Iterator[tuple[int, dict]]:
    """Yield what a piece of the text has of windows: (shard, rows with tokens).

    Args:
        tokens: of the piece.
        begins, ends: int64 [N], the windows as ranges of these tokens.
        numbers: int64 [N], consecutive, those of the windows.
        piece: number of the piece.
        wanted: numbers of the shards to make.
        shards, seed, epoch: decide the shard and the order of each window, see `window_keys`.
    """
    key = window_keys(int(numbers[0]), int(numbers[-1]) + 1, seed, epoch)
    shard = epoch * shards + shard_of(key, shards)
    place = np.full(len(numbers), piece)
    rows = {"key": key, "number": numbers, "place": place, "lengths": ends - begins}
    chosen = np.isin(shard, wanted)
    rows = {name: values[chosen] for name, values in rows.items()}
    return grouped_tokens(shard[chosen], tokens, begins[chosen], rows)


def joined_windows(batches: Iterable[dict]) -> list[np.ndarray]:
    """Return the windows of a shard in their order, joined from the parts of the pieces."""
    batches = list(batches)
    if not batches:
        return []
    rows = merged(batches)
    starts = np.cumsum(rows["lengths"]) - rows["lengths"]
    order = np.lexsort((rows["place"], rows["number"], rows["key"]))
    lengths, numbers = rows["lengths"][order], rows["number"][order]
    borders = np.flatnonzero(np.diff(numbers)) + 1
    tokens = ranges(rows["tokens"], starts[order], lengths)
    return np.split(tokens, np.cumsum(lengths)[borders - 1])


def example(**features: list[int]) -> bytes:
    """Return a serialized `tf.train.Example` of lists of ints."""
    wrapped = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=wrapped)).SerializeToString(
        deterministic=True
    )


def shard_of(keys: np.ndarray, shards: int) -> np.ndarray:
    """Return the shard of each key, uint64 [N].

    Shard s of S has the keys from s/S to (s + 1)/S of the range, so that sorted shards with sorted
    keys are all keys in order.
    """
    return ((keys >> 32) * np.uint64(shards) >> np.uint64(32)).astype(np.int64)

"""Tables of rows with tokens of any length, which workers exchange: dicts of arrays."""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf


def gather(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the ranges of `tokens` from `starts` [N] with `lengths` [N], as one array."""
    before = np.cumsum(lengths) - lengths
    return tokens[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]


def grouped(groups: np.ndarray, rows: dict[str, np.ndarray]) -> Iterator[tuple[int, dict]]:
    """Yield the rows of each group, in their order: (group, rows).

    Args:
        groups: ints [N].
        rows: arrays [N].
    """
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
        yield group, {**part, "tokens": gather(tokens, starts, part["lengths"])}


def merged(batches: Iterable[dict]) -> dict:
    """Return tables joined into one."""
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


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

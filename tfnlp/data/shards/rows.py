"""Tables of rows with tokens of any length, as they travel between workers: dicts of arrays."""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf


def gather(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges of `tokens` that start at `starts` [N] and have `lengths` [N], in one row."""
    before = np.cumsum(lengths) - lengths
    return tokens[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]


def grouped(groups: np.ndarray, rows: dict) -> Iterator[tuple[int, dict]]:
    """The rows of each group, in their order: (group, rows).

    Args:
        groups: ints [N].
        rows: arrays [N].
    """
    order = np.argsort(groups, kind="stable")
    borders = np.flatnonzero(np.diff(groups[order])) + 1
    for chosen in np.split(order, borders) if len(order) else ():
        yield int(groups[chosen[0]]), {name: values[chosen] for name, values in rows.items()}


def grouped_tokens(
    groups: np.ndarray, tokens: np.ndarray, starts: np.ndarray, rows: dict
) -> Iterator[tuple[int, dict]]:
    """As `grouped`, each row with the tokens from `starts` [N] on, of which it has `lengths`."""
    for group, part in grouped(groups, {"starts": starts, **rows}):
        starts = part.pop("starts")
        yield group, {**part, "tokens": gather(tokens, starts, part["lengths"])}


def merged(batches: Iterable[dict]) -> dict:
    """Tables, one behind the other."""
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def example(**features: list[int]) -> bytes:
    """A serialized `tf.train.Example` of lists of ints."""
    wrapped = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=wrapped)).SerializeToString(
        deterministic=True
    )


def shard_of(keys: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each key uint64 [N]: shard s of S has the keys from s/S of all on, so that the
    order of the keys is the order of the shards and of the keys in them."""
    return ((keys >> 32) * np.uint64(shards) >> np.uint64(32)).astype(np.int64)

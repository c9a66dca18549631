"""Rows of prepared TFDS data sets, with the names of classes instead of their numbers."""

from collections.abc import Iterable, Iterator
from typing import Any

from tfnlp.data.corpus.documents import open_tfds
from tfnlp.data.labelled.rows import BadRow
from tfnlp.data.labelled.tables import Row


def tfds_rows(source: str, class_names: bool = True) -> tuple[list[str], Iterator[Row]]:
    """Return the features of a TFDS data set, and its examples as `(where, dict)` of plain values.

    Classes are names (None for -1, an unknown class), or numbers if `class_names` is False.
    """
    builder, split = open_tfds(source)
    features = builder.info.features

    def rows() -> Iterator[Row]:
        dataset = builder.as_dataset(split=split, shuffle_files=False)
        for number, example in enumerate(dataset.as_numpy_iterator()):
            try:
                row = {key: _plain(features[key], example[key], class_names) for key in features}
            except UnicodeDecodeError:
                row = BadRow("is not UTF-8 text")
            yield f"example {number}", row

    return list(features), rows()


def _plain(feature: Any, value: Any, class_names: bool) -> Any:
    """Return a feature's value as str, int, float, bool, list or dict."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.ClassLabel):
        number = int(value)
        if not class_names:
            return number
        return feature.int2str(number) if number >= 0 else None
    inner = getattr(feature, "feature", None)  # of a sequence
    if isinstance(inner, tfds.features.FeaturesDict):  # a dict of lists, to a list of dicts
        lists = {key: _values(inner[key], value[key], class_names) for key in inner}
        return [dict(zip(lists, entry, strict=True)) for entry in zip(*lists.values(), strict=True)]
    if inner is not None:
        return _values(inner, value, class_names)
    if isinstance(feature, tfds.features.FeaturesDict):
        return {key: _plain(feature[key], value[key], class_names) for key in feature}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if getattr(value, "shape", None) == ():
        return value.item()
    return value


def _values(feature: Any, values: Iterable, class_names: bool) -> list:
    return [_plain(feature, value, class_names) for value in values]

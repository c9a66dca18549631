"""Rows of prepared TFDS data sets, with the names of their classes in place of numbers."""

import os
from collections.abc import Iterator

from tfnlp.data.corpus import _TFDS_SOURCE
from tfnlp.data.task_rows import BadRow


def tfds_rows(source: str, class_names: bool = True) -> tuple[list[str], Iterator]:
    """The features of a TFDS data set and its examples, as plain Python values.

    Args:
      source: `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`; the split is "train" if left out. Data sets
        are looked for in the folder of the environment variable TFDS_DATA_DIR, else where TFDS
        puts them.
      class_names: classes by their names (None for -1, which stands for an unknown one); else by
        their numbers.

    Returns:
      (names of the features, rows as `(where, dict)`).

    Raises:
      ValueError: not such a source, no such config, version or split.
      FileNotFoundError: an unknown data set, or one that is not prepared.
      ImportError: without the package tensorflow-datasets.
    """
    try:
        import tensorflow_datasets as tfds  # optional, and slow to import
    except ImportError as error:
        raise ImportError(f"{source} needs the package tensorflow-datasets: {error}") from error

    match = _TFDS_SOURCE.fullmatch(source)
    if not match:
        raise ValueError(f"expected tfds:NAME[:SPLIT], such as tfds:glue/sst2; got {source!r}")
    name, split = match["name"], match["split"] or "train"
    try:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    except tfds.core.DatasetNotFoundError:
        raise FileNotFoundError(
            f"TFDS knows no data set {name!r} (from {source}); check the name and TFDS_DATA_DIR"
        ) from None  # the cause lists every data set there is
    except (AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{source} names no version or config of a TFDS set: {reason}") from None
    if not builder.is_prepared():
        raise FileNotFoundError(
            f"the TFDS data set {name!r} is not prepared in {builder.data_dir}; run "
            f"tfds.load({name!r}) once or set TFDS_DATA_DIR to where it lies"
        )
    try:
        builder.info.splits[split]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"the TFDS data set {name!r} has no split {split!r}; choose from "
            f"{', '.join(builder.info.splits)}"
        ) from error
    features = builder.info.features

    def rows():
        dataset = builder.as_dataset(split=split, shuffle_files=False)
        for number, example in enumerate(dataset.as_numpy_iterator()):
            try:
                row = {key: _plain(features[key], example[key], class_names) for key in features}
            except UnicodeDecodeError:
                row = BadRow("is not UTF-8 text")
            yield f"example {number}", row

    return list(features), rows()


def _plain(feature, value, class_names):
    """A feature's value as str, int, float, bool, list or dict."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.ClassLabel):
        number = int(value)
        if not class_names:
            return number
        return feature.int2str(number) if number >= 0 else None
    inner = getattr(feature, "feature", None)  # of a sequence
    if isinstance(inner, tfds.features.FeaturesDict):  # a dict of lists, to a list of dicts
        lists = {key: _values(inner[key], value[key], class_names) for key in inner}
        return [
            dict(zip(lists, entry, strict=True)) for entry in zip(*lists.values(), strict=True)
        ]
    if inner is not None:
        return _values(inner, value, class_names)
    if isinstance(feature, tfds.features.FeaturesDict):
        return {key: _plain(feature[key], value[key], class_names) for key in feature}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if getattr(value, "shape", None) == ():
        return value.item()
    return value


def _values(feature, values, class_names):
    return [_plain(feature, value, class_names) for value in values]

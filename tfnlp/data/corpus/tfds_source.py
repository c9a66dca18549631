"""Prepared TFDS data sets, opened by names such as `tfds:imdb_reviews:train`."""

import os
import re
from typing import Any

from tfnlp.extras import needed

# NAME[/CONFIG][:VERSION][:SPLIT]; a split may be a slice such as train[:10%].
_SOURCE = re.compile(
    r"tfds:(?P<name>[^:\[\]]+(?::(?:\d+|\*)\.(?:\d+|\*)\.(?:\d+|\*))?)(?::(?P<split>.+))?"
)


def open_tfds(source: str) -> tuple[Any, str]:
    """Return the builder of a prepared TFDS data set, and the split.

    Args:
        source: `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`; the split is "train" if left out. Data sets
            are looked for in the folder of the environment variable TFDS_DATA_DIR, else where TFDS
            puts them.
    """
    tfds = needed("tensorflow_datasets", "tensorflow-datasets", "tfds", source)
    match = _SOURCE.fullmatch(source)
    if not match:
        raise ValueError(f"expected tfds:NAME[:SPLIT], such as tfds:imdb_reviews; got {source!r}")
    name, split = match["name"], match["split"] or "train"
    try:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    except tfds.core.DatasetNotFoundError:
        raise FileNotFoundError(
            f"TFDS knows no data set {name!r} (from {source}); check the name and TFDS_DATA_DIR"
        ) from None  # whose message lists all data sets
    except (AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{source} names no version or config of a TFDS set: {reason}") from None
    if not builder.is_prepared():
        raise FileNotFoundError(
            f"the TFDS data set {name!r} is not prepared in {builder.data_dir}; run "
            f"tfds.load({name!r}) once or set TFDS_DATA_DIR to its folder"
        )
    try:
        builder.info.splits[split]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"the TFDS data set {name!r} has no split {split!r}; choose from "
            f"{', '.join(builder.info.splits)}"
        ) from error
    return builder, split

"""Files that a SavedModel carries as assets."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfnlp.files import write_text


def make_assets(names: Sequence[str], write: Callable[[str], None]) -> list[tf.saved_model.Asset]:
    """Return assets for the files that `write` writes into a temporary folder of their own.

    The user's own file may change or be deleted before the SavedModel is written. The folder is
    deleted when the first asset is garbage-collected.
    """
    folder = tempfile.mkdtemp(prefix="tfnlp_assets_")
    try:
        write(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    assets = [tf.saved_model.Asset(os.path.join(folder, name)) for name in names]
    weakref.finalize(assets[0], _remove_folder, folder, os.getpid())
    return assets


def lines_asset(name: str, lines: Iterable[str]) -> tf.saved_model.Asset:
    """Return an asset for a new file of UTF-8 lines; no line may hold a line end."""
    text = "".join(f"{line}\n" for line in lines)
    (asset,) = make_assets([name], lambda folder: write_text(os.path.join(folder, name), text))
    return asset


def line_number_table(
    asset: tf.saved_model.Asset, default_value: int = -1
) -> tf.lookup.StaticHashTable:
    """Return a table from the lines of a file to their numbers, int64, counted from 0.

    Other strings have the default value.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                asset.asset_path,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=default_value,
        )


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete its parent's files
        shutil.rmtree(folder, ignore_errors=True)

"""Files that a SavedModel carries as assets."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence

import tensorflow as tf


def make_assets(
    names: Sequence[str], write: Callable[[str], None], prefix: str = "tfnlp_vocabulary_"
) -> list[tf.saved_model.Asset]:
    """Return assets for files in a temporary folder of their own.

    The user's own file may change or be deleted before the SavedModel is written. The folder is
    deleted when the first asset is garbage-collected.

    Args:
        names: of the files.
        write: writes the files into the folder that it is given.
        prefix: of the folder's name.
    """
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        write(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    assets = [tf.saved_model.Asset(os.path.join(folder, name)) for name in names]
    weakref.finalize(assets[0], _remove_folder, folder, os.getpid())
    return assets


def line_number_table(
    asset: tf.saved_model.Asset, default_value: int = -1
) -> tf.lookup.StaticHashTable:
    """Return a table from the lines of a file to their numbers, int64, counted from 0.

    Args:
        asset: the file.
        default_value: the value of strings that are not in the file.
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

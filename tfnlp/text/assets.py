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
    write(folder)
    assets = [tf.saved_model.Asset(os.path.join(folder, name)) for name in names]
    weakref.finalize(assets[0], _remove_folder, folder, os.getpid())
    return assets


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete its parent's files
        shutil.rmtree(folder, ignore_errors=True)

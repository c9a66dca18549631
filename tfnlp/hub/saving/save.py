"""Writing a SavedModel whole or not at all."""

import contextlib
import os
import shutil
import uuid

import tensorflow as tf
from tensorflow.python.saved_model import save_context

_OPTIONS = tf.saved_model.SaveOptions(experimental_custom_gradients=True)


@contextlib.contextmanager
def as_saved():
    """While open, functions are traced as `tf.saved_model.save` traces them.

    TensorFlow keeps what is traced while it saves apart from all other traces, so that a function
    which was traced before is traced once more; that is half of the time of an export.
    """
    if save_context.in_save_context():
        yield
        return
    with save_context.save_context(_OPTIONS):
        yield


def save(module, directory, signatures=None, overwrite=False):
    """Writes `module` to `directory` as a SavedModel.

    It is written beside `directory` under another name and renamed when complete.

    Args:
        module: a trackable object.
        directory: a path that does not exist yet, or is an empty folder.
        signatures: dict of name to concrete function, or None.
        overwrite: replace an existing SavedModel.

    Raises:
        FileExistsError: if there is something and `overwrite` is False, or if what is there is
            not a SavedModel.
        OSError: if it can't be written; nothing half-written stays.
    """
    directory = os.path.abspath(os.fspath(directory))
    check_free(directory, overwrite)
    partial = f"{directory}.partial-{uuid.uuid4().hex[:8]}"
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        tf.saved_model.save(module, partial, signatures=signatures, options=_OPTIONS)
        if os.path.exists(directory):
            shutil.rmtree(directory)
        os.rename(partial, directory)
    except (OSError, tf.errors.OpError) as error:
        reason = str(getattr(error, "message", None) or error).split("\n")[0]
        raise OSError(
            f"SavedModel {directory} could not be written ({reason}); free some space or choose "
            "another folder"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(directory, overwrite=False):
    """Raises FileExistsError if `save` would not write to `directory`, for use before slow work."""
    directory = os.path.abspath(os.fspath(directory))
    if os.path.exists(directory) and not _may_replace(directory, overwrite):
        raise FileExistsError(
            f"{directory} exists; choose another folder, or overwrite it if it is a SavedModel"
        )


def _may_replace(directory, overwrite):
    if not os.path.isdir(directory):
        return False
    return not os.listdir(directory) or (
        overwrite and os.path.exists(os.path.join(directory, "saved_model.pb"))
    )

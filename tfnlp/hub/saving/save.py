"""Writing a SavedModel whole or not at all."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.saved_model import save_context

from tfnlp.cards import CARD, current_card, name_of
from tfnlp.files import WriteError, named_errors, write_error, write_text, written_whole
from tfnlp.hub.inspection.inspect import inspect
from tfnlp.hub.loading.checks import is_saved_model, write_record
from tfnlp.hub.saving.compact import CompactWeights
from tfnlp.in_tensorflow import is_elsewhere

_OPTIONS = tf.saved_model.SaveOptions(experimental_custom_gradients=True)


@contextlib.contextmanager
def as_saved() -> Iterator[None]:
    """Trace functions inside the context as `tf.saved_model.save` traces them.

    TensorFlow keeps traces made while saving apart from others, so a function that was traced
    before is traced again when it is saved. With this context it is traced once, which halves the
    time of an export.
    """
    if save_context.in_save_context():
        yield
        return
    with save_context.save_context(_OPTIONS):
        yield


def save(
    module: Any,
    directory: str | os.PathLike,
    signatures: dict[str, Callable] | None = None,
    overwrite: bool = False,
    about: dict[str, Any] | None = None,
) -> None:
    """Write `module` to `directory` as a SavedModel.

    It is written beside `directory` under a temporary name and renamed when complete.

    Args:
        module: a trackable object.
        directory: a path that does not exist yet, or is an empty folder.
        signatures: dict of name to concrete function, or None.
        overwrite: replace an existing SavedModel.
        about: facts about the model for `tfnlp.hub.loading.checks.read_about`.
    """
    check_free(directory, overwrite)
    directory = os.path.abspath(os.fspath(directory))
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        with written_whole(directory) as partial:
            tf.saved_model.save(module, partial, signatures=signatures, options=_OPTIONS)
            write_record(partial, about)
            card = current_card()  # of the export that is going on
            if card is not None:
                usage = inspect(partial, shown=os.path.basename(directory)).usage
                call = "" if usage is None else f"```python\n{usage}\n```"
                write_text(os.path.join(partial, CARD), card.text(name_of(directory), call))
    except WriteError:
        raise
    except (OSError, tf.errors.OpError) as error:
        raise write_error(directory, error) from error


def save_module(
    make: Callable[[CompactWeights | None], Any],
    directory: str | os.PathLike,
    overwrite: bool = False,
    weights: str | None = None,
    models: Sequence[keras.Model] = (),
    **facts: Any,
) -> str:
    """Make a module and write it with its `signatures()` as a SavedModel; return its path.

    It states its `kind` and the `facts` that are not None. With `weights`, "bfloat16" or "int8",
    `make` gets the weights of `models` in fewer bits; the size, and the error of the first of the
    models, are printed.
    """
    check_free(directory, overwrite)
    stored = CompactWeights(models, weights) if weights else None
    with as_saved():
        module = make(stored)
        signatures = module.signatures()
    save(module, directory, signatures, overwrite, about_module(module, **facts))
    if stored is not None:
        stored.report(directory, models[0])
    return os.fspath(directory)


def about_module(module: Any, **facts: Any) -> dict[str, Any]:
    """Return what a module states of itself: its class's `kind`, and the facts that are known."""
    return {"kind": module.kind, **{k: value for k, value in facts.items() if value is not None}}


@contextlib.contextmanager
def together(directory: str | os.PathLike, names: Sequence[str]) -> Iterator[list[str]]:
    """Yield temporary paths for modules of a folder; move them there when all are written.

    A new folder appears with all of them: it is renamed once. In one that exists they are renamed
    one after the other at the end. Call `check_parts` before, and name the largest first.
    """
    directory = os.path.abspath(os.fspath(directory))
    if os.path.exists(directory):
        with contextlib.ExitStack() as stack:
            # The last that is entered is flushed and moved first.
            paths = {
                name: stack.enter_context(written_whole(os.path.join(directory, name)))
                for name in reversed(names)
            }
            yield [paths[name] for name in names]
        return
    with named_errors(directory, os.path.dirname(directory)):
        os.makedirs(os.path.dirname(directory), exist_ok=True)
    with written_whole(directory) as partial:
        yield [os.path.join(partial, name) for name in names]
        check_free(directory)  # another process may have made it meanwhile


def check_parts(
    directory: str | os.PathLike, names: Sequence[str], overwrite: bool = False
) -> None:
    """Check that `save` can write modules into `directory`, which holds no other model."""
    for name in names:
        check_free(os.path.join(directory, name), overwrite)
    for found in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        other = found not in names and is_saved_model(os.path.join(directory, found))
        if other or found.endswith((".json", ".pb")):
            raise FileExistsError(
                f"{directory} holds {found}, a part of another model; choose another folder"
            )


def check_free(directory: str | os.PathLike, overwrite: bool = False) -> None:
    """Check that `save` can write to `directory`; call it before slow work."""
    if is_elsewhere():
        raise ValueError(
            "a SavedModel is a graph of TensorFlow, but Keras runs on another backend here; "
            "`tfnlp.export` writes it from a process of its own"
        )
    if not os.fspath(directory):
        raise ValueError("`directory` is empty; give a path, . for the current folder")
    directory = os.path.abspath(os.fspath(directory))
    free = not os.path.exists(directory)
    if os.path.isdir(directory):
        free = not os.listdir(directory) or (overwrite and is_saved_model(directory))
    if not free:
        raise FileExistsError(
            f"{directory} exists; choose another folder, or `overwrite` it if it is a SavedModel"
        )

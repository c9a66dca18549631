"""SavedModels: found from a path, an archive or a URL, and loaded."""

import os
import re
from typing import Any

import tensorflow as tf

from tfnlp.files import first_line
from tfnlp.hub.loading.checks import GRAPHS, check_record, check_saved_model, is_saved_model
from tfnlp.hub.loading.downloads import downloaded, unpacked
from tfnlp.training.graph_memory import loaded_freely

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_EXPECTED = (
    f"the folder of a SavedModel, an archive ({', '.join(ARCHIVES)}) or an http(s):// or gs:// URL"
)
PAIR = ("encoder", "model", "preprocessor")
_TF1_FORMAT = "tfhub_module.pb"  # beside the graph of a module of TF-Hub's first format


def resolve(handle: str | os.PathLike) -> str:
    """Return the folder of a SavedModel.

    Args:
        handle: one of
            - a folder with a saved_model.pb (or .pbtxt) in it; `~` is expanded;
            - a `.tar`, `.tar.gz`, `.tgz` or `.zip` file with one SavedModel in it, at its root or
              in a folder. It is unpacked once into a cache, the folder `TFHUB_CACHE_DIR` or a
              temporary one, under the sha256 of its bytes;
            - an `http(s)://` or `gs://` URL of such an archive or of a page on tfhub.dev or
              kaggle.com, downloaded once into the same cache, or a `gs://` folder.

    The cache holds complete modules only, also if several processes fill it at the same time or
    one of them is killed. The files of a folder are not checked: see `tfnlp.hub.loading.checks`.

    Raises:
        FileNotFoundError: if the path does not exist, or holds no SavedModel.
        ValueError: if it is another kind of file, or the archive is damaged, unsafe or holds
            several SavedModels (see `tfnlp.hub.loading.downloads.unpack`).
    """
    if not isinstance(handle, str | os.PathLike) or not os.fspath(handle):
        raise ValueError(f"handle is {handle!r}; expected {_EXPECTED}")
    path = os.fsdecode(os.fspath(handle))
    shown = path if path.isprintable() else repr(path)
    if _ADDRESS.match(path):
        if not path.startswith(("http://", "https://", "gs://")) or not path.isprintable():
            raise ValueError(f"{shown} can't be downloaded; expected {_EXPECTED}")
        if path.startswith("gs://") and not path.endswith(ARCHIVES):
            return path  # a folder is read from there
        return downloaded(path)
    path = os.path.abspath(os.path.expanduser(path)) if "\0" not in path else path
    if is_saved_model(path):
        return path
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        inside = [name for name in names if is_saved_model(os.path.join(path, name))]
        hint = f"give one of its folders {', '.join(inside[:4])}" if inside else ""
        raise FileNotFoundError(
            f"{shown} is not a SavedModel: it has no {GRAPHS[0]}; {hint or f'expected {_EXPECTED}'}"
        )
    if not os.path.exists(path):
        raise FileNotFoundError(f"{shown} does not exist; give {_EXPECTED}")
    if not (os.path.isfile(path) and path.lower().endswith(ARCHIVES)):
        raise ValueError(f"{shown} is no SavedModel; expected {_EXPECTED}")
    return unpacked(path, shown)


def saved_models(handle: str | os.PathLike) -> list[str]:
    """Return the folders of the SavedModels that `handle` names.

    These are: in a folder that `tfnlp export` wrote, the encoder or model, then the preprocessor;
    in a folder of numbered versions, the last one; otherwise the one that
    `tfnlp.hub.loading.saved_model` returns.
    """
    path = os.path.expanduser(os.fsdecode(handle)) if isinstance(handle, str | os.PathLike) else ""
    if os.path.isdir(path) and not is_saved_model(path):
        held = os.listdir(path)
        inside = [name for name in held if is_saved_model(os.path.join(path, name))]
        versions = [name for name in inside if name.isascii() and name.isdecimal()]
        names = [name for name in PAIR if name in inside]
        names = names or sorted(versions, key=int)[-1:]
        if names:
            return [os.path.abspath(os.path.join(path, name)) for name in names]
        if {"checkpoints", "config.json"} <= set(held):
            raise ValueError(
                f"{handle} is not a SavedModel but a run; write one with `tfnlp export`"
            )
    return [resolve(handle)]


def only_module(handle: str | os.PathLike) -> str:
    """Return the folder of the one SavedModel that `handle` names."""
    folders = saved_models(handle)
    if len(folders) > 1:
        raise ValueError(f"{handle} holds {len(folders)} SavedModels; give {' or '.join(folders)}")
    return folders[0]


def load_module(
    handle: str | os.PathLike,
    tags: str | list[str] | None = None,
    options: tf.saved_model.LoadOptions | None = None,
) -> Any:
    """Return what `tf.saved_model.load` gives of what `resolve` finds; without `tags` of one graph.

    A module of TF-Hub's first format has the attribute `is_tf1_hub_module`, which is True.
    """
    path = resolve(handle)
    check_saved_model(path)
    check_record(path)
    old_format = os.path.isfile(os.path.join(path, _TF1_FORMAT))
    if old_format and tags is None:
        tags = []
    try:
        module = loaded_freely(lambda: tf.saved_model.load(path, tags, options))
    except Exception as error:  # damage causes OpError, DecodeError, OSError, KeyError, ...
        check_saved_model(path, tensors=True)  # names the damaged file, if it can be found
        raise ValueError(
            f"SavedModel {path} cannot be read ({first_line(error)}); export or download it again"
        ) from error
    if old_format:
        module.is_tf1_hub_module = True
    return module

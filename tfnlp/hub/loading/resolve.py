"""Finding the folder of a SavedModel from a path, an archive or a URL."""

import os
import re

from tfnlp.hub.loading.checks import GRAPHS, is_saved_model
from tfnlp.hub.loading.downloads import downloaded, unpacked

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_EXPECTED = (
    f"the folder of a SavedModel, an archive ({', '.join(ARCHIVES)}) or an http(s):// or gs:// URL"
)


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
            several SavedModels (see `tfnlp.hub.loading.archives.unpack`).
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
    if os.path.isdir(path):
        return _checked_folder(path, shown)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{shown} does not exist; give {_EXPECTED}")
    if not (os.path.isfile(path) and path.lower().endswith(ARCHIVES)):
        raise ValueError(f"{shown} is no SavedModel; expected {_EXPECTED}")
    return unpacked(path, shown)


def _checked_folder(path: str, shown: str) -> str:
    if is_saved_model(path):
        return path
    inside = [name for name in sorted(os.listdir(path)) if is_saved_model(os.path.join(path, name))]
    hint = f"give one of its folders {', '.join(inside[:4])}" if inside else f"expected {_EXPECTED}"
    raise FileNotFoundError(f"{shown} is not a SavedModel: it has no {GRAPHS[0]}; {hint}")

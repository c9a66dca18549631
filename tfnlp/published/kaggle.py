"""Models of Kaggle, downloaded by kagglehub into its cache (`KAGGLEHUB_CACHE`)."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from tfnlp.files import first_line, is_full, write_error
from tfnlp.published.names import Fetched, http_status, import_library

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None


def download(name: str, model: str, version: str | None) -> Fetched:
    """Return the cache's folder of a version of a model; None: the newest.

    `name` is as the user gave it, `model` "owner/model/framework/variation".
    """
    kagglehub = import_library("kagglehub", "kaggle", "model_download", name)
    cache = os.path.join(kagglehub.config.get_cache_folder(), "models", *model.split("/"))
    with _one_line(name, kagglehub.config.get_cache_folder()), _quiet(), _one_at_a_time(cache):
        try:
            folder = kagglehub.model_download(model if version is None else f"{model}/{version}")
        except Exception as error:
            folder = _newest(cache)
            if version is not None or folder is None or not _is_of_network(error):
                raise
    return Fetched(folder, os.path.basename(folder))


def _newest(cache: str) -> str | None:
    """Return the folder of the newest version in the cache that is whole."""
    names = os.listdir(cache) if os.path.isdir(cache) else []
    whole = [n.removesuffix(".complete") for n in names if n.endswith(".complete")]
    whole = [n for n in whole if n.isdecimal() and n in names]
    return os.path.join(cache, max(whole, key=int)) if whole else None


@contextlib.contextmanager
def _one_at_a_time(cache: str) -> Iterator[None]:
    """Keep other processes from writing the same archive: kagglehub has no lock."""
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a cache that can only be read
                os.makedirs(cache, exist_ok=True)
                file = stack.enter_context(open(os.path.join(cache, ".lock"), "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep kagglehub's log, which it writes to standard output, out of a command's output."""
    logger = logging.getLogger("kagglehub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _one_line(name: str, cache: str) -> Iterator[None]:
    """Turn what kagglehub raises into one line with the name and what to do."""
    try:
        yield
    except Exception as error:
        page = f"https://www.kaggle.com/models/{name.removeprefix('kaggle://')}"
        status = http_status(error)
        if status == 404:
            raise FileNotFoundError(
                f"{name} does not exist on Kaggle; correct the name, {page}"
            ) from error
        if status in (401, 403):
            raise OSError(
                f"{name} can't be downloaded without permission: accept its conditions at {page}, "
                "and set KAGGLE_API_TOKEN, or KAGGLE_USERNAME and KAGGLE_KEY"
            ) from error
        if is_full(error) or isinstance(error, PermissionError):
            raise write_error(cache, error, " with KAGGLEHUB_CACHE") from error
        if _is_of_network(error):
            raise OSError(
                f"{name} is not in the cache {cache}, and Kaggle can't be reached; check the "
                "network, and run it again"
            ) from error
        raise OSError(f"{name} can't be downloaded: {first_line(error)}; try again") from error


def _is_of_network(error: Any) -> bool:
    import requests

    return isinstance(error, requests.ConnectionError | requests.Timeout)

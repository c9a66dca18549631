"""Models that are published under a name, downloaded once into the cache of their library.

`hf://org/name[@revision]` is downloaded by huggingface_hub, which reads `HF_HOME`, `HF_HUB_CACHE`,
`HF_HUB_OFFLINE`, `HF_TOKEN` and `HF_ENDPOINT`, resumes after a lost connection, checks sizes, and
lets several processes share the cache. `kaggle://owner/model/framework/variation[/version]` is
downloaded by kagglehub (`KAGGLEHUB_CACHE`). They are imported when such a name is used.
"""

import contextlib
import dataclasses
import glob
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.extras import needed
from tfnlp.files import first_line, is_full, write_error

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

HUGGINGFACE, KAGGLE = "hf://", "kaggle://"
# On Hugging Face, for those who give a name without what is before it.
WELL_KNOWN = (
    "google-bert/bert-base-uncased", "google-bert/bert-base-cased",
    "google-bert/bert-large-uncased", "google-bert/bert-base-multilingual-cased",
    "FacebookAI/roberta-base", "FacebookAI/roberta-large", "FacebookAI/xlm-roberta-base",
    "distilbert/distilbert-base-uncased", "distilbert/distilroberta-base", "albert/albert-base-v2",
    "google/electra-small-discriminator", "google/electra-base-discriminator",
    "microsoft/mpnet-base", "openai-community/gpt2", "openai-community/openai-gpt",
    "sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-mpnet-base-v2",
    "intfloat/e5-small-v2", "BAAI/bge-small-en-v1.5",
)  # fmt: skip
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
_HUGGINGFACE = re.compile(rf"hf://(?P<name>{_WORD}(/{_WORD})?)(@(?P<revision>[^@\s]+))?")
_KAGGLE = re.compile(rf"kaggle://(?P<name>{_WORD}(/{_WORD}){{3}})(/(?P<revision>[0-9]+))?")

# From the names of a repository's files, and a function that downloads one of them and returns its
# path, to the names of those that are needed.
Choose = Callable[[list[str], Callable[[str], str]], list[str]]


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A model on this machine.

    Attributes:
        folder: Where it is; of a model that is not published its path as given.
        revision: The commit or version of a published model; else None.
        is_temporary: Whether it is deleted when it has been used.
    """

    folder: str
    revision: str | None = None
    is_temporary: bool = False


def is_published(path: Any) -> bool:
    """Return whether `path` is a name that `fetch` takes."""
    return isinstance(path, str) and path.startswith((HUGGINGFACE, KAGGLE))


def fetch(name: str, choose: Choose) -> Fetched:
    """Download the files of a published model that are needed and not in the cache yet.

    Args:
        name: `hf://...` or `kaggle://...`.
        choose: Which files of a repository on Hugging Face are needed; may raise an error before
            anything large is downloaded. Kaggle's models are downloaded as a whole.
    """
    if name.startswith(HUGGINGFACE):
        return _from_huggingface(name, *_parts(name), choose)
    return _from_kaggle(name, *_parts(name))


def at_revision(name: str, revision: str) -> str:
    """Return the name of the same model at a commit (Hugging Face) or version (Kaggle)."""
    mark = "@" if name.startswith(HUGGINGFACE) else "/"
    scheme = HUGGINGFACE if name.startswith(HUGGINGFACE) else KAGGLE
    return f"{scheme}{_parts(name)[0]}{mark}{revision}"


def push(model: Any, name: str, private: bool, settings: dict[str, Any]) -> str:
    """Upload a model to a repository of Hugging Face, which is made if there is none.

    Args:
        model: What `save(folder, **settings)` writes.
        name: `org/name`, with or without `hf://`, and `@branch`.
        private: Of a new repository: whether others may read it.
        settings: Those of `save`, such as `format`.

    Returns:
        `hf://org/name`, which `tfnlp.load` takes.

    Raises:
        ValueError: for another name, or a model that has no such files.
        OSError: if it can't be uploaded.
    """
    name = f"{HUGGINGFACE}{name.removeprefix(HUGGINGFACE)}"
    repository, revision = _parts(name)
    hub = _library("huggingface_hub", "huggingface", "resolve_revision", name)
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "model")
        model.save(folder, **settings)
        try:
            api = hub.HfApi()
            api.create_repo(repository, private=private, exist_ok=True)
            said = "Upload a model of tfnlp"
            more = {"revision": revision, "commit_message": said}
            api.upload_folder(repo_id=repository, folder_path=folder, **more)
        except Exception as error:  # those of the HTTP library too, which differs between versions
            if _http_status(error) in (401, 403):
                raise OSError(
                    f"{name} may not be written: set HF_TOKEN to a token that may write to it"
                ) from error
            reason = first_line(error).rstrip(".")
            raise OSError(f"{name} can't be uploaded: {reason}; try again") from error
    return name


def _library(package: str, extra: str, latest: str, name: str) -> Any:
    """Return the library that downloads `name`; `latest` is in it, but not in earlier versions."""
    library = needed(package, package, extra, name)
    if not hasattr(library, latest):
        raise ImportError(f"{name} needs a newer {package}: pip install --upgrade {package}")
    return library


def _http_status(error: Exception) -> int | None:
    """Return the status of a server's refusal; None for other errors."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _parts(name: str) -> tuple[str, str | None]:
    """Return what follows the scheme, and the revision or version if one is given."""
    match = (_HUGGINGFACE if name.startswith(HUGGINGFACE) else _KAGGLE).fullmatch(name)
    if match is None:
        form = "hf://org/name or hf://org/name@revision"
        if name.startswith(KAGGLE):
            form = "kaggle://owner/model/framework/variation, with or without /version"
        raise ValueError(f"{name!r} is not the name of a published model; expected {form}")
    return match["name"], match["revision"]


def _from_huggingface(name: str, repository: str, revision: str | None, choose: Choose) -> Fetched:
    """Return the cache's folder of a commit of a repository, with the files that are needed.

    `name` is as the user gave it; `revision` is a branch, tag or commit, None the main branch.
    """
    hub = _library("huggingface_hub", "huggingface", "resolve_revision", name)
    with _hub_errors(hub, name, repository, revision):
        commit = hub.HfApi().resolve_revision(repository, revision=revision)
        files = _files(hub, repository, commit)

    def path_of(file: str) -> str:
        with _hub_errors(hub, name, repository, revision):
            return hub.hf_hub_download(repository, file, revision=commit)

    chosen = choose(files, path_of)
    if revision != commit.resolved:
        print(f"{name} is commit {commit.resolved}", file=sys.stderr, flush=True)
    folder = _cached(hub, repository, commit)
    if folder is None or not all(os.path.exists(os.path.join(folder, file)) for file in chosen):
        with _hub_errors(hub, name, repository, revision):
            patterns = [glob.escape(file) for file in chosen]
            folder = hub.snapshot_download(repository, revision=commit, allow_patterns=patterns)
    return Fetched(folder, commit.resolved)


def _files(hub: Any, repository: str, commit: Any) -> list[str]:
    """Return the names of a repository's files; without a connection those in the cache."""
    api = hub.HfApi()
    try:
        tree = hub.get_cached_repo_tree(repository, revision=commit)
    except hub.errors.CachedRepoTreeNotFoundError:
        try:
            tree = list(api.list_repo_tree(repository, recursive=True, revision=commit.resolved))
        except Exception as error:
            refused = _http_status(error) in range(400, 500)
            folder = None if refused else _cached(hub, repository, commit)
            if folder is None:
                raise
            return [
                os.path.relpath(os.path.join(place, file), folder).replace(os.sep, "/")
                for place, _, names in os.walk(folder)
                for file in names
            ]
    return [file.path for file in tree if isinstance(file, hub.RepoFile)]


def _cached(hub: Any, repository: str, commit: Any) -> str | None:
    """Return the folder of a commit in the cache, whole or not; None if there is none."""
    try:
        return hub.snapshot_download(
            repository, revision=commit, local_files_only=True, allow_patterns=[]
        )
    except hub.errors.LocalEntryNotFoundError:
        return None


@contextlib.contextmanager
def _hub_errors(hub: Any, name: str, repository: str, revision: str | None) -> Iterator[None]:
    """Turn what huggingface_hub raises into one line with the name and what to do."""
    endpoint, cache = hub.constants.ENDPOINT, hub.constants.HF_HUB_CACHE
    try:
        yield
    except hub.errors.GatedRepoError as error:
        raise OSError(
            f"{name} is gated: accept its conditions at {endpoint}/{repository} and set HF_TOKEN "
            "to a token of the account that did"
        ) from error
    except hub.errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"{name} does not exist at {endpoint}, or is private; correct the name, or set "
            "HF_TOKEN to a token that may read it"
        ) from error
    except hub.errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            f"{name} has no revision {revision!r}; give a branch, a tag or a whole commit"
        ) from error
    except Exception as error:  # those of the HTTP library too, which differs between versions
        if is_full(error) or isinstance(error, PermissionError):
            raise write_error(cache, error, " with HF_HUB_CACHE") from error
        no_network = (hub.errors.LocalEntryNotFoundError, hub.errors.OfflineModeIsEnabled)
        if isinstance(error, no_network) or not isinstance(error, OSError):
            why = f"{endpoint} can't be reached; check the network and HF_ENDPOINT"
            if hub.constants.HF_HUB_OFFLINE:
                why = "HF_HUB_OFFLINE is set; unset it to download the rest"
            raise OSError(f"{name} is not complete in the cache {cache}, and {why}") from error
        reason = first_line(error).rstrip(".")
        raise OSError(f"{name} can't be downloaded: {reason}; try again") from error


def _from_kaggle(name: str, model: str, version: str | None) -> Fetched:
    """Return the cache's folder of a version of a model; None: the newest.

    `name` is as the user gave it, `model` "owner/model/framework/variation".
    """
    kagglehub = _library("kagglehub", "kaggle", "model_download", name)
    cache = os.path.join(kagglehub.config.get_cache_folder(), "models", *model.split("/"))
    with _kaggle_errors(name, kagglehub.config.get_cache_folder()), _quiet(), _one_at_a_time(cache):
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
def _kaggle_errors(name: str, cache: str) -> Iterator[None]:
    """Turn what kagglehub raises into one line with the name and what to do."""
    try:
        yield
    except Exception as error:
        page = f"https://www.kaggle.com/models/{name.removeprefix('kaggle://')}"
        status = _http_status(error)
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
    requests = needed("requests", "requests", "kaggle", "a model of Kaggle")
    return isinstance(error, requests.ConnectionError | requests.Timeout)

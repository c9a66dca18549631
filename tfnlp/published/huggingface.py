"""Repositories of the Hugging Face Hub, downloaded by huggingface_hub into its cache.

huggingface_hub reads `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `HF_TOKEN` and `HF_ENDPOINT`,
resumes after a lost connection, checks sizes, and lets several processes share the cache.
"""

import contextlib
import glob
import os
import sys
from collections.abc import Iterator
from typing import Any

from tfnlp.files import first_line, is_full, write_error
from tfnlp.published.names import Choose, Fetched, http_status, import_library


def download(name: str, repository: str, revision: str | None, choose: Choose) -> Fetched:
    """Return the cache's folder of a commit of a repository, with the files that are needed.

    `name` is as the user gave it; `revision` is a branch, tag or commit, None the main branch.
    """
    hub = import_library("huggingface_hub", "huggingface", "resolve_revision", name)
    with _one_line(hub, name, repository, revision):
        commit = hub.HfApi().resolve_revision(repository, revision=revision)
        files = _files(hub, repository, commit)

    def path_of(file: str) -> str:
        with _one_line(hub, name, repository, revision):
            return hub.hf_hub_download(repository, file, revision=commit)

    chosen = choose(files, path_of)
    if revision != commit.resolved:
        print(f"{name} is commit {commit.resolved}", file=sys.stderr, flush=True)
    folder = _cached(hub, repository, commit)
    if folder is None or not all(os.path.exists(os.path.join(folder, file)) for file in chosen):
        with _one_line(hub, name, repository, revision):
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
            refused = http_status(error) in range(400, 500)
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
def _one_line(hub: Any, name: str, repository: str, revision: str | None) -> Iterator[None]:
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

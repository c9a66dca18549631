"""The kind of model that a SavedModel was exported from."""

import os

from tfnlp.hub.loading.checks import is_saved_model, read_about, read_graph

PREPROCESSOR = "preprocessor"
_KIND_BY_FOLDER = {"encoder": "bert", "model": "gpt"}  # the folder beside `preprocessor`
_OF_ELMO = {"tokens", "sequence_len"}  # the inputs of a signature


def saved_kind(path: str | os.PathLike) -> str | None:
    """Return "bert", "gpt" or "elmo", the kind of model in the folder `path`; None for others.

    A BERT, or another encoder with its interface, is the SavedModels `encoder` and `preprocessor`,
    a GPT `model` and `preprocessor`; one of the two is enough. An ELMo is one SavedModel with a
    signature that takes `tokens` and `sequence_len`.
    """
    path = os.fspath(path)
    kind = _pair_kind(path)
    if kind is not None or not is_saved_model(path):
        return kind
    signatures = (s for graph in read_graph(path).meta_graphs for s in graph.signature_def.values())
    return "elmo" if any(set(one.inputs) == _OF_ELMO for one in signatures) else None


def saved_family(path: str | os.PathLike) -> str | None:
    """Return the name of the family that an exported pair states, None if it states none."""
    for name in _KIND_BY_FOLDER:
        found = read_about(os.path.join(os.fspath(path), name)).get("family")
        if isinstance(found, str):
            return found
    return None


def preprocessor_folder(path: str) -> str:
    """Return the folder of the preprocessor: `path/preprocessor` of a pair, else `path` itself."""
    folder = os.path.join(path, PREPROCESSOR)
    return folder if _pair_kind(path) is not None or os.path.isdir(folder) else path


def _pair_kind(path: str) -> str | None:
    has_preprocessor = is_saved_model(os.path.join(path, PREPROCESSOR))
    for name, kind in _KIND_BY_FOLDER.items():
        folder = os.path.join(path, name)
        if is_saved_model(folder) or (has_preprocessor and os.path.isdir(folder)):
            return kind
    return None

"""What an exported module is: what it states of itself, or what its inputs and outputs tell."""

import os

from tfnlp.hub.loading.checks import is_saved_model, read_about, read_graph

PREPROCESSOR = "preprocessor"
_PAIRS = {"encoder": "encoder", "model": "language model"}  # the folder beside `preprocessor`
# The signature of an ELMo that states nothing: its inputs, and some of its outputs.
_ELMO_INPUTS, _ELMO_OUTPUTS = {"tokens", "sequence_len"}, {"word_emb", "lstm_outputs1"}


def saved_kind(path: str | os.PathLike) -> str | None:
    """Return what the folder `path` of exported modules is; None if that is not known.

    An "encoder" is the SavedModels `encoder` and `preprocessor` of a BERT or another encoder with
    its interface, a "language model" the SavedModels `model` and `preprocessor` of a GPT; one of
    the two is enough. One SavedModel is what tfnlp has recorded in it: "elmo", "task" (a fine-tuned
    model), "sentences", "fill", "search", "translation", "word vectors" or "combined encoder".
    Without a record it is an "elmo" if a signature takes `tokens` and `sequence_len` and returns
    `word_emb` and `lstm_outputs1`.
    """
    path = os.fspath(path)
    kind = _pair_kind(path)
    if kind is not None or not is_saved_model(path):
        return kind
    stated = read_about(path).get("kind")
    if isinstance(stated, str):
        return None if stated in _PAIRS.values() else stated
    for graph in read_graph(path).meta_graphs:
        for signature in graph.signature_def.values():
            if set(signature.inputs) == _ELMO_INPUTS and _ELMO_OUTPUTS <= set(signature.outputs):
                return "elmo"
    return None


def saved_family(path: str | os.PathLike) -> str | None:
    """Return the name of the family that exported modules state, None if they state none."""
    for name in (*_PAIRS, ""):
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
    for name, kind in _PAIRS.items():
        folder = os.path.join(path, name)
        if is_saved_model(folder) or (has_preprocessor and os.path.isdir(folder)):
            return kind
    return None

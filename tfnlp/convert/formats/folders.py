"""Where in a checkpoint's folder the weights and the configuration lie."""

import pathlib
import re

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "*.index", "*.npz",
           "pytorch_model.bin", "pytorch_model.bin.index.json")
# The first line of the text that TensorFlow writes beside its checkpoints.
_LATEST = re.compile(rb'\s*model_checkpoint_path: "([^"\\]*)"')


def find_weights(path):
    """The weight file that `path` means: the file or TensorFlow prefix itself, or, of a folder,
    the first of `model.safetensors` (or its shards), a TensorFlow checkpoint, an `.npz`,
    `pytorch_model.bin` (or its shards).

    Raises:
        FileNotFoundError: if nothing is there; the message lists what was looked for.
        ValueError: if several files are there and none is marked as the latest.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        prefix_index = path.with_name(path.name + ".index")
        if not path.exists() and not prefix_index.exists():
            raise FileNotFoundError(f"there is no folder, file or TensorFlow checkpoint {path}")
        return path
    for pattern in WEIGHTS:
        # No glob: a folder's own name may hold brackets.
        found = sorted(
            f for f in path.iterdir()
            if f.is_file() and (f.name.endswith(pattern[1:]) if "*" in pattern
                                else f.name == pattern)
        )
        if len(found) > 1:
            return _latest(path, found)
        if found:
            return found[0]
    raise FileNotFoundError(f"{path} holds no weights; looked for {', '.join(WEIGHTS)}")


def _latest(folder, found):
    """Of several checkpoints the one that TensorFlow's `checkpoint` file calls the latest."""
    state = folder / "checkpoint"
    stated = _LATEST.match(state.read_bytes()) if state.is_file() else None
    if stated:
        # The name alone: the path is where it was written, and may lead anywhere.
        latest = stated[1].rpartition(b"/")[2].decode(errors="replace") + ".index"
        for path in found:
            if path.name == latest:
                return path
    raise ValueError(
        f"{folder} holds {len(found)} weight files ({', '.join(f.name for f in found[:5])}); "
        "give the path of one of them"
    )


def find_one(folder, names, what):
    """The first of the files `names` in `folder`.

    Raises:
        FileNotFoundError: if none of them exists.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} holds no {what}; looked for {', '.join(names)}")

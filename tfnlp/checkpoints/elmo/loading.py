"""ELMo checkpoints of bilm-tf as tfnlp models: `options.json` and an HDF5 file."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras

from tfnlp.checkpoints.elmo.hdf5_names import dataset_rows, dataset_shapes, split_datasets
from tfnlp.checkpoints.elmo.options import read_options
from tfnlp.checkpoints.formats.hdf5_files import open_hdf5
from tfnlp.checkpoints.mapping import check_tensors, table_names
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.models import elmo, elmo_pretrainer
from tfnlp.models.shapes import weight_shapes


def load_elmo(
    path: str | os.PathLike | None = None,
    *,
    options: str | os.PathLike | None = None,
    weights: str | os.PathLike | None = None,
    dropout: float = 0.1,
    keep_sentence_boundaries: bool = False,
    seq_length: int | None = None,
    dtype: Any = None,
    num_samples: int | None = 8192,
    ignore: str | Sequence[str] = (),
) -> Pretrained:
    """Load a published ELMo checkpoint in bilm-tf's format.

    The file is compared with its options dataset by dataset before a model is built, and read
    whole before a weight is assigned: an error leaves nothing half-loaded.

    The format has no weights for mixing the layers, which belong to the task that uses them: they
    are initialized as in a new model.

    Args:
        path: a folder with one `*options*.json` and one `*weights*.hdf5`.
        options, weights: the two files, if they are elsewhere.
        dropout, keep_sentence_boundaries, seq_length, dtype: as in `elmo`.
        num_samples: as in `elmo_pretrainer`.
        ignore: beginnings of the names of datasets to leave out.

    Returns:
        A `Pretrained`; its `pretrainer` is None unless the file holds the softmax over words
        (`softmax/W` and `softmax/b`, which bilm-tf's own dumps leave out).

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for several files where one is expected, invalid options, a file that is not
            HDF5, is damaged or was never filled, datasets that are missing, surplus or misshapen
            (all listed in one message).
    """
    options = _find(path, options, "options", ".json")
    weights = _find(path, weights, "weights", ".hdf5")
    config = read_options(options)
    tensors = open_hdf5(weights)
    names = table_names(tensors, str, (ignore,) if isinstance(ignore, str) else ignore)
    vocab_size = None
    if "softmax/W" in names or "softmax/b" in names:
        vocab_size = (*tensors.shapes[names.get("softmax/W", "softmax/b")], 1)[0]

    def build(**arguments: Any) -> keras.Model:
        encoder = elmo(**arguments)
        # At least one word: the comparison refuses a softmax over none.
        return elmo_pretrainer(encoder, max(vocab_size, 1)) if vocab_size is not None else encoder

    rows = dataset_rows(config, vocab_size is not None)
    shapes = weight_shapes(build, config)
    expected = dataset_shapes(rows, shapes)
    check_tensors(
        tensors, names, expected, f"sizes from {options}; `ignore` leaves surplus datasets out"
    )
    arrays = split_datasets(rows, {name: tensors[name] for name in rows}, shapes)

    config["dropout"] = dropout
    encoder = elmo(
        **config,
        keep_sentence_boundaries=keep_sentence_boundaries,
        seq_length=seq_length,
        dtype=dtype,
    )
    pretrainer = None
    if vocab_size is not None:
        pretrainer = elmo_pretrainer(encoder, vocab_size, num_samples, dropout=dropout)
    for variable in encoder.weights if pretrainer is None else pretrainer.weights:
        if variable.path in arrays:  # all but those that mix the layers
            variable.assign(arrays[variable.path])
    path = str(weights.parent if path is None else path)
    return Pretrained(encoder, pretrainer, config, path=path)


def _find(
    folder: str | os.PathLike | None, file: str | os.PathLike | None, word: str, ending: str
) -> pathlib.Path:
    """Return `file` or, if it is None, the one file of that kind in the folder."""
    if file is not None:
        file = pathlib.Path(file)
        if not file.is_file():
            raise FileNotFoundError(f"{word} {file} does not exist")
        return file
    pattern = f"*{word}*{ending}"
    if folder is None:
        raise ValueError(f"{word}=None: give a folder that holds one {pattern}, or the file")
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; give one with *options*.json and *weights*.hdf5, or "
            "the two files as options= and weights="
        )
    held = sorted(f.name for f in folder.iterdir() if f.is_file())
    found = [name for name in held if word in name and name.endswith(ending)]
    if len(found) == 1:
        return folder / found[0]
    if found:
        raise ValueError(
            f"{folder} holds {len(found)} files {pattern}: {', '.join(found[:5])}; say which one "
            f"as {word}="
        )
    raise FileNotFoundError(f"{folder} holds no {pattern}; found {held[:10]}")

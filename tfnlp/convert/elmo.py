"""ELMo checkpoints of bilm-tf, which AllenNLP reads too: `options.json` and an HDF5 file."""

import json
import os
import pathlib
import shutil
import uuid

import h5py
import keras
import numpy as np

from tfnlp.convert.elmo_hdf5 import dataset_shapes, dataset_variables, split_rows
from tfnlp.convert.elmo_options import config_of, options_of, read_options
from tfnlp.convert.formats.hdf5_files import open_hdf5
from tfnlp.convert.formats.mapping import check_tensors
from tfnlp.convert.formats.tensors import reason
from tfnlp.convert.pretrained import Pretrained
from tfnlp.models import elmo, elmo_pretrainer

FILES = ("options.json", "weights.hdf5")  # what `save_elmo` writes


def load_elmo(
    path=None,
    *,
    options=None,
    weights=None,
    dropout=0.1,
    keep_sentence_boundaries=False,
    seq_length=None,
    dtype=None,
    num_samples=8192,
    ignore=(),
):
    """Loads an ELMo that somebody else trained, in bilm-tf's format.

    The file is compared with its options dataset by dataset before a model is built, and read
    whole before a weight is assigned: an error leaves nothing half-loaded.

    The format has no weights for mixing the layers, which belong to the task that uses them: they
    start anew.

    Args:
        path: a folder with one `*options*.json` and one `*weights*.hdf5`.
        options, weights: the two files, where they lie elsewhere.
        dropout, keep_sentence_boundaries, seq_length, dtype: as in `elmo`.
        num_samples: as in `elmo_pretrainer`.
        ignore: beginnings of the names of datasets to leave out.

    Returns:
        A `Pretrained`; its `pretrainer` is None unless the file holds the softmax over words
        (`softmax/W` and `softmax/b`, which bilm-tf's own dumps leave out).

    Raises:
        FileNotFoundError: for a file that is not there.
        ValueError: for several files where one is expected, options that make no sense, a file
            that is not HDF5, is damaged or was never filled, datasets that are missing, surplus or
            misshapen (all listed in one message).
    """
    options = _find(path, options, "options", ".json")
    weights = _find(path, weights, "weights", ".hdf5")
    config = read_options(options)
    tensors = open_hdf5(weights)
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    names = {name: name for name in tensors if not name.startswith(ignored)}
    vocab_size = None
    if "softmax/W" in names or "softmax/b" in names:
        vocab_size = (*tensors.shapes[names.get("softmax/W", "softmax/b")], 1)[0]
    shapes = dataset_shapes(config, vocab_size)
    hint = f"sizes from {options}; `ignore` leaves surplus datasets out"
    check_tensors(tensors, names, shapes, hint)
    arrays = {name: tensors[name] for name in shapes}

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
    for name, variables in dataset_variables(encoder, pretrainer).items():
        parts = split_rows(arrays[name], [variable.shape for variable in variables])
        for variable, part in zip(variables, parts, strict=True):
            variable.assign(part)
    path = str(weights.parent if path is None else path)
    return Pretrained(encoder, pretrainer, config, path=path)


def save_elmo(directory, encoder, pretrainer=None, overwrite=False):
    """Writes `options.json` and `weights.hdf5`, the folder that `load_elmo` reads.

    bilm-tf reads it, and AllenNLP where `residual` is true. With fewer filters than
    `projection_size` AllenNLP alone reads it, with as many bilm-tf alone. The weights that mix the
    layers have no place in the format.

    Args:
        directory: a folder that does not exist yet, or is empty.
        encoder: a model made by `elmo`.
        pretrainer: the model made by `elmo_pretrainer` on it, to write its softmax too (the two
            do not mind it).
        overwrite: replace a folder that holds what `save_elmo` writes and nothing else.

    Raises:
        ValueError: if a model is not of that kind, they don't share their weights, or the format
            can't hold it.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; nothing half-written stays.
    """
    config = config_of(encoder)
    options = options_of(config)
    _check_pretrainer(encoder, pretrainer)
    vocab_size = None if pretrainer is None else pretrainer.get_layer("softmax").vocab_size
    shapes = dataset_shapes(config, vocab_size)
    directory = os.path.realpath(os.fspath(directory))
    _check_free(directory, overwrite)
    partial, old = (f"{directory}.{word}-{uuid.uuid4().hex[:8]}" for word in ("partial", "old"))
    try:
        os.makedirs(partial)
        with open(os.path.join(partial, FILES[0]), "w", encoding="utf-8") as file:
            json.dump(options, file, indent=2)
            file.write("\n")
        with h5py.File(os.path.join(partial, FILES[1]), "w") as file:
            for name, variables in dataset_variables(encoder, pretrainer).items():
                rows = [keras.ops.convert_to_numpy(v).astype(np.float32) for v in variables]
                file.create_dataset(name, data=np.concatenate(rows).reshape(shapes[name]))
        if os.path.exists(directory):
            os.rename(directory, old)
        os.rename(partial, directory)
    except (OSError, RuntimeError) as error:  # h5py has either for a full disk
        if os.path.exists(old):
            os.rename(old, directory)
        raise OSError(f"{directory} could not be written ({reason(error)})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if os.path.exists(directory):
            shutil.rmtree(old, ignore_errors=True)


def _check_pretrainer(encoder, pretrainer):
    if pretrainer is None:
        return
    shared = {id(layer) for layer in encoder.layers}
    layers = {layer.name: layer for layer in pretrainer.layers}
    if "softmax" not in layers or not all(
        id(layers.get(name)) in shared for name in ("char_cnn", "bilm")
    ):
        raise ValueError(
            f"pretrainer {pretrainer.name!r} was not made by `elmo_pretrainer` on this encoder"
        )


def _check_free(directory, overwrite):
    if not os.path.exists(directory):
        return
    held = sorted(os.listdir(directory)) if os.path.isdir(directory) else None
    if held is None or set(held) - set(FILES):
        other = f" and holds {sorted(set(held) - set(FILES))[:5]}" if held else ""
        raise FileExistsError(f"{directory} exists{other}; choose another folder")
    if held and not overwrite:
        raise FileExistsError(f"{directory} holds {held}; choose another folder, or overwrite=True")


def _find(folder, file, word, ending):
    """The file given, or the one of that kind in the folder."""
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

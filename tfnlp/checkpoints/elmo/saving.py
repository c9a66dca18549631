"""tfnlp's ELMo as bilm-tf's `options.json` and HDF5 file."""

from __future__ import annotations

import os

import keras

from tfnlp.checkpoints.elmo.hdf5_names import dataset_rows, join_weights
from tfnlp.checkpoints.elmo.options import config_of, options_of
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.formats.hdf5_files import written_hdf5
from tfnlp.checkpoints.formats.json_files import write_json

FILES = ("options.json", "weights.hdf5")  # what `save_elmo` writes


def save_elmo(
    directory: str | os.PathLike,
    encoder: keras.Model,
    pretrainer: keras.Model | None = None,
    overwrite: bool = False,
) -> None:
    """Write `options.json` and `weights.hdf5`, the folder that `load_elmo` reads.

    bilm-tf reads it, and AllenNLP where `residual` is true. With fewer filters than
    `projection_size` AllenNLP alone reads it, with as many bilm-tf alone. The format has no place
    for the weights that mix the layers.

    Args:
        directory: a folder that does not exist yet, or is empty.
        encoder: a model made by `elmo`.
        pretrainer: the model made by `elmo_pretrainer` on it, to write its softmax too (bilm-tf and
            AllenNLP ignore it).
        overwrite: replace a folder that holds files of `save_elmo` and nothing else.

    Raises:
        ValueError: if a model is not of that kind, they don't share their weights, or the format
            can't hold it.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    config = config_of(encoder)
    options = options_of(config)
    if pretrainer is not None:
        layers = {layer.name: layer for layer in pretrainer.layers}
        shared = all(layers.get(n) is encoder.get_layer(n) for n in ("char_cnn", "bilm"))
        if "softmax" not in layers or not shared:
            raise ValueError(
                f"pretrainer {pretrainer.name!r} was not made by `elmo_pretrainer` on this encoder"
            )
    rows = dataset_rows(config, softmax=pretrainer is not None)
    arrays = join_weights(rows, (encoder if pretrainer is None else pretrainer).weights)
    with new_folder(directory, FILES, overwrite) as folder:
        write_json(os.path.join(folder, FILES[0]), options)
        with written_hdf5(os.path.join(folder, FILES[1])) as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)

"""ELMo's checkpoints: bilm-tf's `options.json` and HDF5 file, read and written."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.weight_files import open_hdf5, written_hdf5
from tfnlp.checkpoints.mapping import Shape, check_tensors, table_names
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.models import elmo, elmo_pretrainer
from tfnlp.models.elmo import MAX_CHARACTERS
from tfnlp.models.shapes import weight_shapes
from tfnlp.text.lines import shown

FILES = ("options.json", "weights.hdf5")  # what `save_elmo` writes
CHARACTERS, ACTIVATIONS = 262, ("relu", "tanh")
_LARGEST = 2**31
_CLIP = "a number from 0 to 1e6, or null"
_FILTERS = f"pairs [width, number], of widths from 1 to {MAX_CHARACTERS} and numbers from 1"
_ABSENT = object()


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


# key: argument, what it may be, and bilm-tf's default if it may be absent
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "lstm.dim": ("units", range(1, _LARGEST)),
    "lstm.projection_dim": ("projection_size", range(1, _LARGEST)),
    # Not more layers than can be compared with the file.
    "lstm.n_layers": ("num_layers", range(1, 1001), 1),
    "lstm.cell_clip": ("cell_clip", _CLIP, None),
    "lstm.proj_clip": ("projection_clip", _CLIP, None),
    "lstm.use_skip_connections": ("residual", (True, False)),
    "char_cnn.activation": ("activation", ACTIVATIONS),
    "char_cnn.embedding.dim": ("embedding_size", range(1, _LARGEST)),
    "char_cnn.filters": ("filters", _FILTERS),
    "char_cnn.n_highway": ("num_highway", range(1001), 0),
    # In training, which counts no padding, one less: the same table.
    "char_cnn.n_characters": ("num_characters", (CHARACTERS, CHARACTERS - 1)),
    "char_cnn.max_characters_per_token": ("max_characters", (MAX_CHARACTERS,)),
}


def _is_one(value: Any, allowed: Any) -> bool:
    """Return whether the value of an option is among those that are allowed."""
    if allowed == _CLIP:
        return type(value) in (int, float) and 0 <= value <= 1e6
    if allowed == _FILTERS:
        sizes = (range(1, MAX_CHARACTERS + 1), range(1, _LARGEST))
        pairs = isinstance(value, list) and value and all(isinstance(p, list) for p in value)
        return pairs and all(len(p) == 2 and all(map(_is_one, p, sizes)) for p in value)
    return type(value) is type(allowed[0]) and value in allowed


def _wanted(allowed: Any) -> str:
    if isinstance(allowed, range):
        return f"a whole number from {allowed[0]} to {allowed[-1]}"
    return allowed if isinstance(allowed, str) else " or ".join(map(str, allowed))


def read_options(path: pathlib.Path) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.elmo` that an options file states.

    Clips of null or 0 mean none. Keys that do not describe the model, such as those of the training
    run, are ignored. All faults of the file are listed in one line.
    """
    options = read_json(path)
    found: dict[str, Any] = {}
    faults: list[str] = []
    for key, (argument, allowed, *default) in _OPTIONS.items():
        value = options
        for part in key.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if default and value in (None, _ABSENT):
            (value,) = default
        elif value is _ABSENT:
            faults.append(f"missing {key}, expected {_wanted(allowed)}")
        elif not _is_one(value, allowed):
            faults.append(f"{key}={shown(value)}, expected {_wanted(allowed)}")
        found[argument] = value
    if not faults and found["units"] <= found["projection_size"]:
        faults.append(
            f"lstm.dim={found['units']} is not above "
            f"lstm.projection_dim={found['projection_size']}, and bilm-tf then has no projection "
            "in its LSTMs, which tfnlp's always have"
        )
    if faults:
        raise ValueError(f"{path} does not fit ELMo in {len(faults)} places: {'; '.join(faults)}")
    del found["max_characters"]
    return {
        **found,
        "num_characters": CHARACTERS,
        "filters": tuple(map(tuple, found["filters"])),
        "cell_clip": found["cell_clip"] or None,
        "projection_clip": found["projection_clip"] or None,
    }


def config_of(encoder: keras.Model) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.elmo` that determine the weights of `encoder`."""
    layers = {layer.name: layer for layer in encoder.layers}
    if not {"char_cnn", "bilm", "scalar_mix"} <= set(layers):
        raise ValueError(f"encoder {encoder.name!r} is not an ELMo; give a model made by `elmo`")
    sections = {"lstm": layers["bilm"], "char_cnn": layers["char_cnn"]}
    return {
        argument: getattr(sections[key.partition(".")[0]], argument)
        for key, (argument, *_) in _OPTIONS.items()
        if argument != "max_characters"
    }


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that `read_options` converts to `config`."""
    faults = []
    for name, allowed in (("num_characters", (CHARACTERS,)), ("activation", ACTIVATIONS)):
        if config[name] not in allowed:
            faults.append(f"{name}={config[name]!r}, expected {_wanted(allowed)}")
    if config["units"] <= config["projection_size"]:
        faults.append(
            f"units={config['units']}, expected more than projection_size="
            f"{config['projection_size']}"
        )
    if faults:
        raise ValueError(f"bilm-tf has no such model as encoder: {'; '.join(faults)}")
    filters = [list(pair) for pair in config["filters"]]
    config = {**config, "filters": filters, "max_characters": MAX_CHARACTERS}
    options: dict[str, Any] = {}
    for key, (argument, *_) in _OPTIONS.items():
        *sections, name = key.split(".")
        place = options
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = config[argument]
    return options


def dataset_rows(config: Mapping[str, Any], softmax: bool) -> dict[str, tuple[str, ...]]:
    """Return a dict of every dataset's name to the paths of the weights that are stacked in it."""
    table = {"char_embed": ("char_cnn/character_embedding",)}
    for i in range(len(config["filters"])):
        table[f"CNN/W_cnn_{i}"] = (f"char_cnn/kernel_{i + 1}",)
        table[f"CNN/b_cnn_{i}"] = (f"char_cnn/bias_{i + 1}",)
    for i in range(config["num_highway"]):
        for gate in ("carry", "transform"):
            table[f"CNN_high_{i}/W_{gate}"] = (f"char_cnn/highway_{i}/{gate}_kernel",)
            table[f"CNN_high_{i}/b_{gate}"] = (f"char_cnn/highway_{i}/{gate}_bias",)
    if sum(number for _, number in config["filters"]) != config["projection_size"]:
        table["CNN_proj/W_proj"] = ("char_cnn/projection_kernel",)
        table["CNN_proj/b_proj"] = ("char_cnn/projection_bias",)
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(config["num_layers"]):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"bilm/{direction}_{layer}"
            table[f"{cell}/W_0"] = (f"{lstm}/kernel", f"{lstm}/recurrent_kernel")
            table[f"{cell}/B"] = (f"{lstm}/bias",)
            table[f"{cell}/W_P_0"] = (f"{lstm}/projection_kernel",)
    if softmax:
        table["softmax/W"], table["softmax/b"] = ("softmax/kernel",), ("softmax/bias",)
    return table


def dataset_shapes(
    rows: Mapping[str, tuple[str, ...]], weight_shapes: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Return a dict of every dataset's name to its shape."""
    shapes = {}
    for name, paths in rows.items():
        (_, *rest), height = weight_shapes[paths[0]], sum(weight_shapes[path][0] for path in paths)
        # The convolutions are of images whose height is 1: [1, W, E, N].
        lead = (1,) if name.startswith("CNN/W_cnn_") else ()
        shapes[name] = (*lead, height, *rest)
    return shapes


def split_datasets(
    rows: Mapping[str, tuple[str, ...]],
    arrays: Mapping[str, np.ndarray],
    weight_shapes: Mapping[str, Shape],
) -> dict[str, np.ndarray]:
    """Return a dict of weight path to array."""
    weights = {}
    for name, paths in rows.items():
        stacked = arrays[name].reshape((-1, *weight_shapes[paths[0]][1:]))
        ends = np.cumsum([weight_shapes[path][0] for path in paths])
        weights.update(zip(paths, np.split(stacked, ends[:-1]), strict=True))
    return weights


def join_weights(
    rows: Mapping[str, tuple[str, ...]], variables: Iterable[keras.Variable]
) -> dict[str, np.ndarray]:
    """Return a dict of every dataset's name to float32 array."""
    weights = {v.path: keras.ops.convert_to_numpy(v).astype(np.float32) for v in variables}
    shapes = dataset_shapes(rows, {path: array.shape for path, array in weights.items()})
    return {
        name: np.concatenate([weights[path] for path in paths]).reshape(shapes[name])
        for name, paths in rows.items()
    }

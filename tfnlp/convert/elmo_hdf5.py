"""bilm-tf's weight file: what is called how, and of which shape."""

import h5py
import numpy as np

from tfnlp.convert.tensors import Tensors, reason


def open_hdf5(path):
    """The datasets of an HDF5 file, as `Tensors`.

    Raises:
        ValueError: if it is not HDF5, damaged, or if data are missing: HDF5 gives zeros for what
            was never written, and can point to other files. Also while a dataset is read.
    """
    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} is not an HDF5 file; fetch it again")
    entries, empty = {}, []

    def keep(name, item):  # links to other files are not followed
        if isinstance(item, h5py.Dataset):
            entries[name] = (item.shape or (), item.dtype.name)
            if item.is_virtual or item.external or not item.id.get_storage_size():
                empty.append(name)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(keep)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is truncated or corrupt ({reason(error)}); fetch it again") from (
            error
        )
    if empty:
        raise ValueError(
            f"{path} holds no data of its own for {len(empty)} datasets ({', '.join(empty[:10])}); "
            "was it written to the end?"
        )

    def read(name):
        try:
            with h5py.File(path, "r") as file:
                return file[name][...]
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{name!r} can't be read ({reason(error)})") from error

    return Tensors(path, entries, read)


def dataset_shapes(config, vocab_size):
    """Dict of every dataset's name to its shape, without building the model."""
    units, size = config["units"], config["projection_size"]
    filters = sum(number for _, number in config["filters"])
    shapes = {"char_embed": (config["num_characters"] - 1, config["embedding_size"])}
    for i, (width, number) in enumerate(config["filters"]):
        shapes[f"CNN/W_cnn_{i}"] = (1, width, config["embedding_size"], number)
        shapes[f"CNN/b_cnn_{i}"] = (number,)
    for i in range(config["num_highway"]):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{i}/W_{gate}"] = (filters, filters)
            shapes[f"CNN_high_{i}/b_{gate}"] = (filters,)
    if filters != size:
        shapes["CNN_proj/W_proj"], shapes["CNN_proj/b_proj"] = (filters, size), (size,)
    for direction in range(2):
        for layer in range(config["num_layers"]):
            cell = _cell(direction, layer)
            shapes[f"{cell}/W_0"] = (2 * size, 4 * units)
            shapes[f"{cell}/B"] = (4 * units,)
            shapes[f"{cell}/W_P_0"] = (units, size)
    if vocab_size is not None:
        shapes["softmax/W"], shapes["softmax/b"] = (vocab_size, size), (vocab_size,)
    return shapes


def dataset_variables(encoder, pretrainer):
    """Dict of every dataset's name to the variables that stand in it, one below the other."""
    cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")
    table = {"char_embed": [cnn.character_embedding]}
    for i, (kernel, bias) in enumerate(zip(cnn.kernels, cnn.biases, strict=True)):
        table[f"CNN/W_cnn_{i}"], table[f"CNN/b_cnn_{i}"] = [kernel], [bias]
    for i, highway in enumerate(cnn.highways):
        table[f"CNN_high_{i}/W_carry"] = [highway.carry_kernel]
        table[f"CNN_high_{i}/b_carry"] = [highway.carry_bias_weight]
        table[f"CNN_high_{i}/W_transform"] = [highway.transform_kernel]
        table[f"CNN_high_{i}/b_transform"] = [highway.transform_bias]
    if cnn.projection_size is not None:
        table["CNN_proj/W_proj"] = [cnn.projection_kernel]
        table["CNN_proj/b_proj"] = [cnn.projection_bias]
    for direction, stack in enumerate((bilm.forward, bilm.backward)):
        for layer, lstm in enumerate(stack):
            cell = _cell(direction, layer)
            table[f"{cell}/W_0"] = [lstm.kernel, lstm.recurrent_kernel]
            table[f"{cell}/B"] = [lstm.bias]
            table[f"{cell}/W_P_0"] = [lstm.projection_kernel]
    if pretrainer is not None:
        softmax = pretrainer.get_layer("softmax")
        table["softmax/W"], table["softmax/b"] = [softmax.kernel], [softmax.bias]
    return table


def _cell(direction, layer):
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def split_rows(array, shapes):
    """The arrays of the given shapes that stand one below the other in `array`."""
    rows = array.reshape((-1, *shapes[0][1:]))
    return np.split(rows, np.cumsum([shape[0] for shape in shapes])[:-1])

"""bilm-tf's weight file: what is called how, and of which shape."""

import numpy as np


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

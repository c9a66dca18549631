"""bilm-tf's inference in plain numpy, one token and one step at a time, from an HDF5 file."""

import json

import h5py
import numpy as np

from tests.layers.reference import ACTIVATIONS, sigmoid

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 257, 258, 259, 260, 261


def word_ids(word, length=50):
    """Ids of a token given as str, or of a sentence's boundary given as its id."""
    inside = [word] if isinstance(word, int) else [b + 1 for b in word.encode()[: length - 2]]
    ids = [BEGIN_WORD, *inside, END_WORD]
    return ids + [PADDING] * (length - len(ids))


def sentence_ids(words):
    """`[T, 50]` for the words alone; `with_boundaries` adds the first and the last row."""
    return np.array([word_ids(word) for word in words], np.int32).reshape(-1, 50)


def with_boundaries(ids):
    return np.array([word_ids(BEGIN_SENTENCE), *ids, word_ids(END_SENTENCE)])


def read(path):
    """Dict of dataset name to float64 array."""
    arrays = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[...].astype(np.float64)

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return arrays


def token_vector(arrays, options, ids):
    """The context-independent vector of one token, `[P]`."""
    table = np.vstack([np.zeros_like(arrays["char_embed"][:1]), arrays["char_embed"]])
    characters = table[ids]  # [50, E]
    cnn = options["char_cnn"]
    found = []
    for i, (width, _) in enumerate(cnn["filters"]):
        kernel, bias = arrays[f"CNN/W_cnn_{i}"][0], arrays[f"CNN/b_cnn_{i}"]
        windows = [
            np.einsum("we,wen->n", characters[start : start + width], kernel)
            for start in range(len(ids) - width + 1)
        ]
        found.append(ACTIVATIONS[cnn["activation"]](np.max(windows, axis=0) + bias))
    x = np.concatenate(found)
    for i in range(cnn.get("n_highway") or 0):
        layer = {
            key: arrays[f"CNN_high_{i}/{key}"]
            for key in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        carry = sigmoid(x @ layer["W_carry"] + layer["b_carry"])
        new = np.maximum(x @ layer["W_transform"] + layer["b_transform"], 0)
        x = carry * new + (1 - carry) * x
    if len(x) != options["lstm"]["projection_dim"]:
        x = x @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"]
    return x


def lstm(arrays, options, direction, layer, inputs, state):
    """One LSTM over `inputs [T, P]` in the order given; the outputs and the last (c, h)."""
    lstm = options["lstm"]
    root = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
    c, h = state
    outputs = []
    for x in inputs:
        gates = np.concatenate([x, h]) @ arrays[root + "W_0"] + arrays[root + "B"]
        i, j, f, o = np.split(gates, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        if lstm.get("cell_clip"):
            c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
        h = (sigmoid(o) * np.tanh(c)) @ arrays[root + "W_P_0"]
        if lstm.get("proj_clip"):
            h = np.clip(h, -lstm["proj_clip"], lstm["proj_clip"])
        outputs.append(h + x if lstm.get("use_skip_connections") and layer else h)
    return np.array(outputs), (c, h)


def layers(arrays, options, ids, state=None):
    """All layers of one sentence.

    Args:
        ids: `[T, 50]` character ids with the boundaries' rows.
        state: `[2L, U + P]`, row 2l + direction, c before h; zeros if None.

    Returns: list of L + 1 arrays: `[T, P]` of the tokens, then `[T, 2P]` each, with boundaries;
        and the new state.
    """
    count = options["lstm"].get("n_layers", 1)
    units, width = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    state = np.zeros((2 * count, units + width)) if state is None else state
    after = np.empty_like(state)
    tokens = np.array([token_vector(arrays, options, row) for row in ids])
    found = [tokens]
    sides = [tokens, tokens[::-1]]
    for layer in range(count):
        for direction in range(2):
            row = 2 * layer + direction
            before = state[row, :units], state[row, units:]
            sides[direction], last = lstm(
                arrays, options, direction, layer, sides[direction], before
            )
            after[row] = np.concatenate(last)
        found.append(np.concatenate([sides[0], sides[1][::-1]], axis=-1))
    return found, after


def random_arrays(options, seed=0, size=0.4):
    """float32 arrays by bilm-tf's names for any options; no rule of the library is used."""
    rng = np.random.default_rng(seed)
    lstm, cnn = options["lstm"], options["char_cnn"]
    width, units = lstm["projection_dim"], lstm["dim"]
    characters, count = cnn["embedding"]["dim"], sum(n for _, n in cnn["filters"])
    shapes = {"char_embed": (261, characters)}
    for i, (wide, number) in enumerate(cnn["filters"]):
        shapes[f"CNN/W_cnn_{i}"] = (1, wide, characters, number)
        shapes[f"CNN/b_cnn_{i}"] = (number,)
    for i in range(cnn.get("n_highway") or 0):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{i}/W_{gate}"] = (count, count)
            shapes[f"CNN_high_{i}/b_{gate}"] = (count,)
    if count != width:
        shapes["CNN_proj/W_proj"] = (count, width)
        shapes["CNN_proj/b_proj"] = (width,)
    for direction in (0, 1):
        for layer in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            shapes[cell + "W_0"] = (2 * width, 4 * units)
            shapes[cell + "B"] = (4 * units,)
            shapes[cell + "W_P_0"] = (units, width)
    return {n: rng.normal(0, size, shape).astype(np.float32) for n, shape in shapes.items()}


def small_options(lstm=(), cnn=()):
    """Options of a model of a few hundred weights, with some values changed."""
    return {
        "lstm": {
            "cell_clip": 3,
            "dim": 7,
            "n_layers": 2,
            "proj_clip": 3,
            "projection_dim": 4,
            "use_skip_connections": True,
            **dict(lstm),
        },
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 3},
            "filters": [[1, 2], [3, 5]],
            "max_characters_per_token": 50,
            "n_characters": 262,
            "n_highway": 1,
            **dict(cnn),
        },
    }


def write(folder, options, arrays):
    """A folder with these options and datasets."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return folder

"""Folders of the library sentence-transformers: an encoder, and how its tokens become a vector.

    modules.json                       the modules, in their order
    config_sentence_transformers.json  prompts, and how vectors are compared
    sentence_bert_config.json          of older versions the longest text
    tokenizer_config.json              the longest text
    1_Pooling/config.json              the pooling
    2_Dense/                           a layer: config.json and weights
    3_Normalize/config.json

Version 6 writes them so. What a folder states and tfnlp does not compute is refused by its key.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file
from scipy.spatial.distance import cdist

from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.tasks.embed import unit_rows

MODULES = "modules.json"
NORMALIZE = "normalize"  # among `SentenceSettings.modules`
_DISTANCES = {"euclidean": "euclidean", "manhattan": "cityblock"}
SIMILARITIES = ("cosine", "dot", *_DISTANCES)
# Words of torch for an activation, and of Keras.
ACTIVATIONS = {
    "Identity": "linear", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu",
    "Sigmoid": "sigmoid", "ELU": "elu", "SELU": "selu", "ReLU6": "relu6", "Mish": "mish",
    "Softplus": "softplus", "Softsign": "softsign", "Hardswish": "hard_silu",
}  # fmt: skip
_LIBRARY, _TOKENIZER = "config_sentence_transformers.json", "tokenizer_config.json"
_TRANSFORMER = "sentence_bert_config.json"
_OLDER = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_TRANSFORMERS = (_TRANSFORMER, *(f"sentence_{name}_config.json" for name in _OLDER))
_TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # of a Dense
_LINEAR = ("linear.weight", "linear.bias")
SENTENCE_FILES = (
    MODULES, _LIBRARY, _TRANSFORMER,
    *(f"{i}_{kind}" for i in range(1, 10) for kind in ("Pooling", "Dense", "Normalize")),
)  # fmt: skip
_POOLINGS = {
    "mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last",
    "mean_sqrt_len_tokens": "mean_sqrt_len", "weightedmean": "weightedmean",
}  # fmt: skip
_FLAGS = {  # of files that were written before `pooling_mode` was, in the order of the vectors
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODALITY = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_OF_SENTENCES = dict.fromkeys(("module_input_name", "module_output_name"), ["sentence_embedding"])
# Keys that may be in each file, with the only values that they may have; None: any.
_KNOWN: dict[str, dict[str, Sequence[Any] | None]] = {
    _LIBRARY: {
        "__version__": None, "requirements": None, "prompts": None, "default_prompt_name": None,
        "similarity_fn_name": SIMILARITIES, "model_type": ["SentenceTransformer"],
    },
    "Transformer": {
        "max_seq_length": None, "do_lower_case": [True, False], "unpad_inputs": None,
        "transformer_task": ["feature-extraction"], "modality_config": [_MODALITY],
        "module_output_name": ["token_embeddings"],
    },
    "Pooling": {
        **dict.fromkeys(("embedding_dimension", "word_embedding_dimension", *_FLAGS)),
        "pooling_mode": None, "include_prompt": [True, False],
    },
    "Dense": {
        **dict.fromkeys(("in_features", "out_features", "activation_function")),
        "bias": [True, False], "use_residual": [False], **_OF_SENTENCES,
    },
    "Normalize": _OF_SENTENCES,
}  # fmt: skip


class _Unknown(Exception):
    """What a folder states and tfnlp does not compute."""


@dataclasses.dataclass(frozen=True)
class DenseSettings:
    """A `keras.layers.Dense` of so many units, after the pooling."""

    units: int
    activation: str = "tanh"
    use_bias: bool = True


@dataclasses.dataclass(frozen=True)
class SentenceSettings:
    """How a model makes a vector of a sentence.

    Attributes:
        pooling: see `tfnlp.layers.SentencePooling`.
        modules: what follows the pooling, before the last normalization: a `DenseSettings`, or
            "normalize".
        normalize: whether the vectors have norm 1.
        layer: see `tfnlp.models.sentence_encoder`.
        max_length: longest text in tokens, special ones included; None: not stated.
        lowercase: whether texts are lower-cased before the tokenizer reads them.
        prompt: what precedes each text.
        prompts: texts that may precede a text, by name.
        include_prompt: whether the prompt's tokens are pooled too.
        similarity: how two vectors are compared, one of `SIMILARITIES`.
        refused: what the folder states that tfnlp can't compute; "": it can all.
    """

    pooling: tuple[str, ...] = ("mean",)
    modules: tuple[DenseSettings | str, ...] = ()
    normalize: bool = True
    layer: int = -1
    max_length: int | None = None
    lowercase: bool = False
    prompt: str = ""
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    include_prompt: bool = True
    similarity: str = "cosine"
    refused: str = ""

    def __post_init__(self) -> None:
        # As JSON has them: lists, of older runs one pooling.
        pooling = (self.pooling,) if isinstance(self.pooling, str) else tuple(self.pooling)
        modules = (DenseSettings(**m) if isinstance(m, Mapping) else m for m in self.modules)
        object.__setattr__(self, "pooling", pooling)
        object.__setattr__(self, "modules", tuple(modules))


def sentence_layers(settings: SentenceSettings, size: int) -> list[keras.layers.Layer]:
    """Return the layers of `modules` with new weights; `size` is D of the tokens' vectors."""
    layers, width = [], size * len(settings.pooling)
    for number, module in enumerate(settings.modules):
        options = {"dtype": "float32", "name": f"sentence_module_{number}"}
        if module == NORMALIZE:
            layer = keras.layers.UnitNormalization(**options)
        else:
            layer = keras.layers.Dense(**dataclasses.asdict(module), **options)
        layer.build((None, width))
        width = getattr(layer, "units", width)
        layers.append(layer)
    return layers


def similarities(first: np.ndarray, second: np.ndarray, name: str = "cosine") -> np.ndarray:
    """Return how near vectors `[N, D]` and `[M, D]` are, float32 `[N, M]`; see `SIMILARITIES`."""
    u, v = (np.atleast_2d(np.asarray(x, np.float32)) for x in (first, second))
    if name in _DISTANCES:
        return -cdist(u, v, _DISTANCES[name]).astype("float32")
    return unit_rows(u) @ unit_rows(v).T if name == "cosine" else u @ v.T


def transformer_folder(path: str) -> str:
    """Return the folder in which the encoder's files are: `path` itself, or one in it."""
    for module in _modules(path):
        if _kind(module) == "Transformer":
            return os.path.join(path, module["path"]) if module["path"] else path
    return path


def read_sentences(
    path: str, size: int, positions: int | None, lowercase: bool | None
) -> tuple[SentenceSettings | None, list[keras.layers.Layer]]:
    """Return what the files of sentence-transformers in a folder say, and the layers of `modules`.

    None if there are no such files. `size` is D of the encoder's outputs `[B, T, D]`, `positions`
    the longest text that it reads; `lowercase` says whether its tokenizer lower-cases texts.
    """
    modules = _modules(path)
    if not modules:
        return None, []
    folder = pathlib.Path(transformer_folder(path))
    files = (folder / name for name in _TRANSFORMERS)
    stated = next((found for found in map(_read, files) if found), {})
    length = stated.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 3):
        raise ValueError(
            f"{path}: {_TRANSFORMER} has max_seq_length={length!r}, expected 3 or more tokens"
        )
    try:
        settings = _settings(pathlib.Path(path), modules, stated, folder / _TOKENIZER)
        dense = [m["path"] for m in modules if _kind(m) == "Dense"]
        tensors = [_dense_weights(pathlib.Path(path), place) for place in dense]
    except _Unknown as error:
        return SentenceSettings(max_length=length, refused=str(error)), []
    lengths = [int(n) for n in (settings.max_length, positions) if n is not None]
    settings = dataclasses.replace(
        settings,
        max_length=min(lengths, default=None),
        lowercase=settings.lowercase and not lowercase,
    )
    layers = sentence_layers(settings, size)
    with_weights = [layer for layer in layers if layer.weights]
    for (file, weights), layer in zip(tensors, with_weights, strict=True):
        shapes = [tuple(weight.shape) for weight in layer.weights]
        if [array.shape for array in weights] != shapes:
            raise ValueError(
                f"{file} has arrays of {[array.shape for array in weights]} (transposed), expected "
                f"{shapes}; do they belong to the pooling and {file.with_name('config.json')}?"
            )
        layer.set_weights(weights)
    return settings, layers


def _settings(
    path: pathlib.Path,
    modules: list[dict[str, Any]],
    transformer: dict[str, Any],
    tokenizer_file: pathlib.Path,
) -> SentenceSettings:
    """Return what a folder states; raise `_Unknown` for what tfnlp does not compute."""
    library, tokenizer = _read(path / _LIBRARY), _read(tokenizer_file)
    _check(_LIBRARY, library, _KNOWN[_LIBRARY])
    kinds = [_kind(module) for module in modules]
    for module, kind in zip(modules, kinds, strict=True):
        if kind not in _TYPES or module.get("kwargs"):
            what = f"type {module['type']}" if kind not in _TYPES else f"kwargs {module['kwargs']}"
            raise _Unknown(f"{MODULES}: the {what}")
    if kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Dense", "Normalize"}:
        raise _Unknown(f"{MODULES}: the order {', '.join(kinds)}")
    _check(_TRANSFORMER, transformer, _KNOWN["Transformer"])
    for side in ("padding_side", "truncation_side"):
        if tokenizer.get(side, "right") != "right":
            raise _Unknown(f"{_TOKENIZER}: {side}={tokenizer[side]!r}")
    configs = [_read(path / module["path"] / "config.json") for module in modules[1:]]
    for module, kind, config in zip(modules[1:], kinds[1:], configs, strict=True):
        _check(f"{module['path']}/config.json", config, _KNOWN[kind])
    modes = configs[0].get("pooling_mode")
    if modes is None:
        modes = [name for flag, name in _FLAGS.items() if configs[0].get(flag)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else [str(mode) for mode in modes]
    if not modes or not set(modes) <= _POOLINGS.keys():
        raise _Unknown(f"{modules[1]['path']}/config.json: pooling_mode={modes}")
    after = [
        NORMALIZE if kind == "Normalize" else _dense(module["path"], config)
        for module, kind, config in zip(modules[2:], kinds[2:], configs[1:], strict=True)
    ]
    normalize = after[-1:] == [NORMALIZE]
    prompts = library.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(t or "", str) for t in prompts.values()):
        raise _Unknown(f"{_LIBRARY}: prompts={prompts!r}")
    prompts = {name: text or "" for name, text in prompts.items()}
    default = library.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise _Unknown(f"{_LIBRARY}: default_prompt_name={default!r}, which no prompt has")
    length = transformer.get("max_seq_length") or tokenizer.get("model_max_length")
    if length is not None and (type(length) not in (int, float) or length < 3):
        raise _Unknown(f"{_TOKENIZER}: model_max_length={length!r}")
    return SentenceSettings(
        pooling=tuple(_POOLINGS[mode] for mode in modes),
        modules=tuple(after[:-1] if normalize else after),
        normalize=normalize,
        max_length=length,
        lowercase=transformer.get("do_lower_case") or False,
        prompt=prompts.get(default, ""),
        prompts=prompts,
        include_prompt=configs[0].get("include_prompt", True),
        similarity=library.get("similarity_fn_name") or "cosine",
    )


def _check(file: str, stated: dict[str, Any], known: Mapping[str, Sequence[Any] | None]) -> None:
    """Raise `_Unknown` for the first key that may not be there, or has another value."""
    for key, value in stated.items():
        allowed = known.get(key, ())
        if value not in (None, {}, []) and allowed is not None and value not in allowed:
            raise _Unknown(f"{file}: {key}={value!r}")


def _dense(place: str, config: dict[str, Any]) -> DenseSettings:
    name = str(config.get("activation_function", "torch.nn.Tanh"))
    activation = ACTIVATIONS.get(name.rpartition(".")[2])
    if activation is None or not name.startswith("torch.nn."):
        raise _Unknown(f"{place}/config.json: activation_function={name!r}")
    units = config.get("out_features")
    if type(units) is not int or units < 1:
        raise _Unknown(f"{place}/config.json: out_features={units!r}")
    return DenseSettings(units, activation, config.get("bias", True))


def _dense_weights(path: pathlib.Path, place: str) -> tuple[pathlib.Path, list[np.ndarray]]:
    """Return the file of a Dense and its arrays, as Keras has them."""
    files = [path / place / name for name in _WEIGHTS]
    file = next((file for file in files if file.is_file()), files[0])
    tensors = open_tensors(file)
    names = [name for name in _LINEAR if name in tensors]
    if set(tensors) != set(names) or not names:
        raise _Unknown(f"{place}: the tensors {', '.join(tensors)}")
    return file, [np.float32(tensors[name]).T for name in names]


def write_sentence_settings(
    folder: str, settings: SentenceSettings, layers: Sequence[keras.layers.Layer], size: int
) -> None:
    """Write the files of sentence-transformers beside those of an encoder.

    The tokenizer's files state `max_length`. `layers` are those of `settings.modules`, `size` is D
    of the encoder's outputs `[B, T, D]`.
    """
    modes = [next(t for t, ours in _POOLINGS.items() if ours == p) for p in settings.pooling]
    pooling = {
        "embedding_dimension": size,
        "pooling_mode": modes[0] if len(modes) == 1 else modes,
        "include_prompt": settings.include_prompt,
    }
    modules = [("Transformer", None), ("Pooling", pooling)]
    names = {name: value[0] for name, value in _OF_SENTENCES.items()}
    words = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    width, weights = size * len(modes), {}
    for module, layer in zip(settings.modules, layers, strict=True):
        if module == NORMALIZE:
            modules.append(("Normalize", names))
            continue
        place = "linear" if module.activation == "linear" else "activation"
        config = {
            "in_features": width,
            "out_features": module.units,
            "bias": module.use_bias,
            "activation_function": f"torch.nn.modules.{place}.{words[module.activation]}",
        }
        weights[len(modules)] = layer.get_weights()
        modules.append(("Dense", {**config, **names}))
        width = module.units
    if settings.normalize:
        modules.append(("Normalize", names))

    listed = []
    for number, (kind, config) in enumerate(modules):
        place = f"{number}_{kind}" if number else ""
        listed.append({"idx": number, "name": str(number), "path": place, "type": _TYPES[kind]})
        if config is not None:
            os.makedirs(os.path.join(folder, place))
            write_json(os.path.join(folder, place, "config.json"), config)
        if number in weights:
            tensors = zip(_LINEAR, weights[number], strict=False)
            arrays = {name: np.ascontiguousarray(array.T) for name, array in tensors}
            file = os.path.join(folder, place, _WEIGHTS[0])
            save_file(arrays, file, metadata={"format": "pt"})
    write_json(os.path.join(folder, MODULES), listed)
    transformer = {name: ok[0] for name, ok in _KNOWN["Transformer"].items() if ok}
    transformer["do_lower_case"] = settings.lowercase
    write_json(os.path.join(folder, _TRANSFORMER), transformer)
    default = next((n for n, text in settings.prompts.items() if text == settings.prompt), None)
    library = {
        "model_type": "SentenceTransformer",
        "prompts": dict(settings.prompts),
        "default_prompt_name": default if settings.prompt else None,
        "similarity_fn_name": settings.similarity,
    }
    write_json(os.path.join(folder, _LIBRARY), library)


def _modules(path: str) -> list[dict[str, Any]]:
    """Return the modules of a folder in their order; none if it has no `modules.json`."""
    file = pathlib.Path(path) / MODULES
    if not file.is_file():
        return []
    modules = read_json(file, list)
    for module in modules:
        stated = module if isinstance(module, dict) else {}
        place = stated.get("path")
        inside = isinstance(place, str) and not os.path.isabs(place) and ".." not in place
        if not inside or not isinstance(stated.get("type"), str):
            raise ValueError(f"{file} must list modules with `path`, in the folder, and `type`")
    return modules


def _kind(module: dict[str, Any]) -> str:
    """Return the class of a module, of another library with the package's name."""
    package, _, kind = module["type"].rpartition(".")
    return kind if package.startswith("sentence_transformers.") else module["type"]


def _read(path: pathlib.Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}

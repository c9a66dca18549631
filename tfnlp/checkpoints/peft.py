"""Adapters of Hugging Face's PEFT (LoRA), in both directions.

A folder of PEFT holds `adapter_config.json` and `adapter_model.safetensors`: two matrices for each
module that is changed, `lora_A` `[r, in]` and `lora_B` `[out, r]`, and the layers of a task as they
are. The model that they belong to is elsewhere. It is read as an ordinary checkpoint with
`W + s (B A)` in place of each W.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tfnlp.checkpoints.encoders import write_model
from tfnlp.checkpoints.folders import find_one, find_weights, new_folder
from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.mapping import Row
from tfnlp.models import low_rank_updates
from tfnlp.text.lines import shown

CONFIG, TASK = "adapter_config.json", "tfnlp_task.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
# task_type to the ending of the class of transformers that it wraps
_CLASSES = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
_CLASS_ENDING = re.compile(r"(Model|LMHeadModel|PreTrainedModel|For[A-Z]\w*)$")
_ENDING = re.compile(r"[\w.-]+")  # of the name of a module
_UNSUPPORTED = ("use_dora", "use_qalora", "lora_bias", "alora_invocation_tokens", "use_bdlora")
_SMALL = ("*.json", "*.txt", "*.model")


def is_adapter(folder: str) -> bool:
    """Return whether a folder holds adapters of PEFT and no model."""
    return os.path.isfile(os.path.join(folder, CONFIG)) and not any(
        os.path.isfile(os.path.join(folder, name)) for name in ("config.json", "modules.json")
    )


def is_task_adapter(folder: str) -> bool:
    """Return whether adapters in a folder are those of a fine-tuned task."""
    if os.path.isfile(os.path.join(folder, TASK)):
        return True
    return _class_ending(read_json(pathlib.Path(folder) / CONFIG)) is not None


def _class_ending(config: Mapping[str, Any]) -> str | None:
    kind = config.get("task_type")
    return _CLASSES.get(kind) if isinstance(kind, str) else None


def base_of(folder: str) -> str:
    """Return the name or path of the model that adapters belong to.

    A relative path is looked for from here and from the folder.
    """
    path = pathlib.Path(folder) / CONFIG
    name = read_json(path).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{path} names no base_model_name_or_path, the model of the adapters")
    for place in (name, os.path.join(folder, name)):
        if os.path.isdir(place):
            return place
    return name if "://" in name or os.path.isabs(name) else f"hf://{name}"


def is_base(path: str) -> bool:
    """Return whether PEFT can read a model: a folder of Hugging Face, or a name."""
    if not os.path.exists(path):
        return True
    config = pathlib.Path(path) / "config.json"
    return config.is_file() and not {"model_type", "architectures"}.isdisjoint(read_json(config))


def write_merged(folder: str, base: str, directory: str) -> None:
    """Write the checkpoint that the adapters in a folder and their model make together.

    `base` is the folder of a checkpoint of Hugging Face, `directory` an empty one to write to.
    """
    adapter = _Adapter(folder)
    config_path = find_one(pathlib.Path(base), ("config.json",), "configuration")
    config = read_json(config_path)
    weights = open_tensors(find_weights(base))
    tensors = adapter.merged(weights)
    config = {**config, **adapter.class_config(config, config_path), **adapter.task}
    for source in (base, folder):  # a tokenizer may have been saved beside the adapters
        for pattern in _SMALL:
            for file in pathlib.Path(source).glob(pattern):
                if file.name != CONFIG and not file.name.endswith(".index.json"):
                    shutil.copyfile(file, os.path.join(directory, file.name))
    write_model(directory, config, tensors)


class _Adapter:
    def __init__(self, folder: str) -> None:
        place = pathlib.Path(folder)
        self.path = place / CONFIG
        self.config = config = read_json(self.path)
        kind = config.get("peft_type")
        if kind != "LORA":
            raise ValueError(f"{self.path} has peft_type={shown(kind)}; tfnlp reads LORA alone")
        for name in _UNSUPPORTED:
            if config.get(name):
                raise ValueError(f"{self.path} has {name}={shown(config[name])}, which is not read")
        self.alphas = config.get("alpha_pattern") or {}
        if not isinstance(self.alphas, dict) or not all(map(_ENDING.fullmatch, self.alphas)):
            raise ValueError(
                f"{self.path} has alpha_pattern={shown(self.alphas)}; expected names of modules, "
                "or their endings, and no other regular expressions"
            )
        self.tensors = open_tensors(find_one(place, _WEIGHTS, "adapters"))
        self.task = read_json(place / TASK) if (place / TASK).is_file() else {}
        self.modules = sorted(
            name.removeprefix(_PREFIX).removesuffix(_A) for name in self.tensors if _A in name
        )
        if not self.modules:
            raise ValueError(f"{self.tensors.path} holds no adapters, tensors with the ending {_A}")

    def merged(self, weights: Tensors) -> dict[str, np.ndarray]:
        """Return all tensors of the model, with the adapters in them."""
        names = {}
        for name in weights:  # a bare encoder's names lack the beginning that the class gives them
            names[name] = name
            names.setdefault(name.partition(".")[2], name)
        found = {name: weights[name] for name in weights}
        for module in self.modules:
            name = self._name_of(f"{module}.weight", names, weights)
            up, down = self._pair(module)
            shape = len(up), down.shape[1]
            transposed = bool(self.config.get("fan_in_fan_out"))
            if (shape[::-1] if transposed else shape) != found[name].shape:
                raise ValueError(
                    f"{self.tensors.path} changes {shown(module)} by a matrix {shape}; in "
                    f"{weights.path} it is {found[name].shape}: it belongs to another model"
                )
            with np.errstate(over="ignore"):
                delta = (self._scale(module, len(down)) * (up @ down)).astype(np.float32)
            found[name] = found[name] + (delta.T if transposed else delta)
            if not np.isfinite(found[name]).all():
                raise ValueError(
                    f"{self.tensors.path} makes numbers that are not finite of {shown(module)}"
                )
        return {**found, **self._whole(names)}

    def _name_of(self, name: str, names: Mapping[str, str], weights: Tensors) -> str:
        for place in (name, name.partition(".")[2]):
            if place in names:
                return names[place]
        raise ValueError(
            f"{self.tensors.path} changes {shown(name)}, which {weights.path} does not hold: it "
            "belongs to another model"
        )

    def _pair(self, module: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrices B `[out, r]` and A `[r, in]` of a module, in float64."""
        down, up = (self.tensors.get(_PREFIX + module + end) for end in (_A, _B))
        fits = up is not None and down.ndim == up.ndim == 2 and len(down) == up.shape[1]
        if not fits or not len(down):
            raise ValueError(f"{self.tensors.path} has no pair of matrices for {shown(module)}")
        return up.astype(np.float64), down.astype(np.float64)

    def _scale(self, module: str, rank: int) -> float:
        """Return the factor of `B A`, of the alpha of a module or, without one, that of all."""
        alpha = self.config.get("lora_alpha", rank)
        for ending, own in self.alphas.items():
            if f".{module}".endswith(f".{ending}"):
                alpha = own
                break
        if type(alpha) not in (int, float) or not abs(alpha) < 2.0**127:
            raise ValueError(f"{self.path} has lora_alpha={shown(alpha)}; expected a number")
        return alpha / (rank**0.5 if self.config.get("use_rslora") else rank)

    def _whole(self, names: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Return the tensors that are stored as they are: those of a head, and biases."""
        found = {}
        for name in self.tensors:
            if _A in name or _B in name:
                continue
            if "lora_" in name:
                raise ValueError(f"{self.tensors.path} holds {shown(name)}, which is not read")
            plain = name.removeprefix(_PREFIX)
            found[names.get(plain, names.get(plain.partition(".")[2], plain))] = self.tensors[name]
        return found

    def class_config(self, config: Mapping[str, Any], path: pathlib.Path) -> dict[str, Any]:
        """Return which class of transformers the checkpoint is of, and what its head needs."""
        ending = _class_ending(self.config)
        stated = config.get("architectures")
        if ending is None or "architectures" in self.task:
            return {}
        if not isinstance(stated, list) or len(stated) != 1 or not isinstance(stated[0], str):
            raise ValueError(f"{path} names no class in `architectures`")
        found = {"architectures": [_CLASS_ENDING.sub("", stated[0]) + ending]}
        heads = [x for name, x in self._whole({}).items() if name.endswith(".weight")]
        size = len(heads[-1]) if heads else 0
        if len(config.get("id2label") or ()) != size:
            found["id2label"] = {str(i): f"LABEL_{i}" for i in range(size)}
        return found


def save_adapter(
    directory: str | os.PathLike,
    model: Any,
    rows: Mapping[str, Row],
    heads: Mapping[str, np.ndarray],
    base: str,
    low_rank: Mapping[str, Any],
    architecture: str,
    task: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Write the low-rank updates of a fine-tuned model as a folder that PEFT reads.

    Args:
        directory, overwrite: as in `new_folder`.
        model: the task's Keras model, with its updates.
        rows, heads, architecture: those of `ClassParts`.
        base: name or path of the model that was fine-tuned.
        low_rank: the config of a `tfnlp.layers.LowRank`.
        task: what tfnlp needs to read it again, beside what PEFT knows.
    """
    tensors, targets, rank = {}, [], low_rank["rank"]
    for path, dense, _ in low_rank_updates(model):
        modules = [name.removesuffix(".weight") for name in rows[f"{path}/kernel"].names]
        down, up = np.asarray(dense.update.down), np.asarray(dense.update.up)
        for n, part in enumerate(dense.update.parts):
            targets.append(modules[part])
            a, b = down[:, n * rank : (n + 1) * rank].T, up[n].T
            for end, array in ((_A, a), (_B, b)):
                tensors[_PREFIX + modules[part] + end] = np.ascontiguousarray(array)
    tensors.update({_PREFIX + name: array for name, array in heads.items()})
    kinds = {ending: kind for kind, ending in _CLASSES.items()}
    kind = next((k for ending, k in kinds.items() if architecture.endswith(ending)), None)
    config = {
        "peft_type": "LORA",
        "task_type": kind,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": low_rank["alpha"],
        "lora_dropout": low_rank["dropout"],
        "target_modules": targets,
        "modules_to_save": sorted({name.partition(".")[0] for name in heads}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    with new_folder(directory, (CONFIG, _WEIGHTS[0], TASK), overwrite) as folder:
        save_file(tensors, os.path.join(folder, _WEIGHTS[0]), metadata={"format": "pt"})
        write_json(os.path.join(folder, CONFIG), config)
        write_json(os.path.join(folder, TASK), {"architectures": [architecture], **task})

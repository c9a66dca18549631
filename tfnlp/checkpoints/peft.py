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

from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.folders import find_one, find_weights, new_folder, write_model
from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.gpt_tasks import GPTFiles
from tfnlp.checkpoints.heads import SPEC, ClassParts
from tfnlp.checkpoints.mapping import table_names
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
_UNSUPPORTED = (
    "use_dora", "use_qalora", "lora_bias", "alora_invocation_tokens", "use_bdlora",
    "velora_config", "monteclora_config", "arrow_config", "kasa_config", "layer_replication",
    "target_parameters", "trainable_token_indices",
)  # fmt: skip
# How adapters begin; those that are not here take their beginning out of the model.
_BEGIN, _BEGINS = "init_lora_weights", (None, "gaussian", "orthogonal", "eva")
_NAMES = "architectures"
_CONV1D = re.compile(r"(^|\.)c_\w+$")  # GPTs' layers whose matrices are `[in, out]`
_WRAPPED = re.compile(r"(?<=\.)(base_layer|modules_to_save(\.default)?)\.")
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
    name = _class_of(read_json(pathlib.Path(folder) / CONFIG), "")
    return name is not None and name.endswith((*_CLASSES.values(), "ForMultipleChoice"))


def _class_of(config: Mapping[str, Any], prefix: str) -> str | None:
    """Return the class of transformers that adapters change, None if it is that of their model.

    `prefix` is what the names of the model's classes begin with.
    """
    kind, mapped = config.get("task_type"), config.get("auto_mapping")
    if not isinstance(kind, str | None):
        raise ValueError(f"{CONFIG}: task_type {kind!r:.60} must be a string")
    if kind in _CLASSES:
        return prefix + _CLASSES[kind]
    name = mapped.get("base_model_class") if isinstance(mapped, dict) else None
    return name if isinstance(name, str) else None


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


def write_merged(folder: str, base: str, directory: str, files: EncoderFiles | GPTFiles) -> None:
    """Write the checkpoint that the adapters in a folder and their model make together.

    `base` is the folder of a checkpoint of Hugging Face, `files` those of its family, `directory`
    an empty one to write to.
    """
    adapter = _Adapter(folder, files)
    config_path = find_one(pathlib.Path(base), ("config.json",), "configuration")
    config = read_json(config_path)
    weights = open_tensors(find_weights(base))
    architecture = adapter.architecture(config, config_path)
    another = None if config.get(_NAMES) == [architecture] else architecture
    tensors = adapter.merged(weights, another)
    config.pop(SPEC, None)
    config = {**config, **adapter.head_config(config, architecture, tensors), **adapter.task}
    for source in (base, folder):  # a tokenizer may have been saved beside the adapters
        for pattern in _SMALL:
            for file in pathlib.Path(source).glob(pattern):
                if file.name != CONFIG and not file.name.endswith(".index.json"):
                    shutil.copyfile(file, os.path.join(directory, file.name))
    write_model(directory, config, tensors)


class _Adapter:
    """The adapters in a folder, for a model of a family.

    Tensors are known by the names that the family's tables have, without what only some classes of
    transformers put before them: adapters are made on another class than their model was saved as.
    """

    def __init__(self, folder: str, files: EncoderFiles | GPTFiles) -> None:
        place = pathlib.Path(folder)
        self.path, self.files = place / CONFIG, files
        self.config = config = read_json(self.path)
        kind, begin = config.get("peft_type"), config.get(_BEGIN)
        if kind != "LORA":
            raise ValueError(f"{self.path} has peft_type={shown(kind)}; tfnlp reads LORA alone")
        if type(begin) is not bool and begin not in _BEGINS:
            raise ValueError(
                f"{self.path} has {_BEGIN}={shown(begin)}, which changes the model itself; save "
                "it with `path_initial_model_for_weight_conversion`"
            )
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

    def architecture(self, config: Mapping[str, Any], path: pathlib.Path) -> str:
        """Return the class of transformers that the checkpoint is of."""
        match self.task.get(_NAMES, config.get(_NAMES)):
            case [str(name)]:
                own = None if _NAMES in self.task else _CLASS_ENDING.sub("", name)
                return name if own is None else _class_of(self.config, own) or name
        raise ValueError(f"{path} names no class in `{_NAMES}`")

    def merged(self, weights: Tensors, another: str | None) -> dict[str, np.ndarray]:
        """Return all tensors of the model, with the adapters in them.

        `another` is the class of the result if it is not that of the model, which then gives the
        parts that both have.
        """
        names = table_names(weights, self.files.canonical, ())
        outside = () if another is None else self.files.outside
        head = self.files.task_heads.get(another)
        both = () if head is None else tuple(head.beginnings())
        found = {
            name: weights[original]
            for name, original in names.items()
            if name.startswith(both) or not name.startswith(outside)
        }
        found |= self._whole()
        for module in self.modules:
            name = self.files.canonical(f"{module}.weight")
            if name not in found:
                raise ValueError(
                    f"{self.tensors.path} changes {shown(module)}, which {weights.path} does not "
                    "hold: it belongs to another model"
                )
            up, down = self._pair(module)
            shape, held = (len(up), down.shape[1]), found[name].shape
            transposed = shape != held or (len(set(shape)) == 1 and _CONV1D.search(module))
            if held != (shape[::-1] if transposed else shape):
                raise ValueError(
                    f"{self.tensors.path} changes {shown(module)} by a matrix {shape}; in "
                    f"{weights.path} it is {held}: it belongs to another model"
                )
            with np.errstate(over="ignore"):
                delta = (self._scale(module, len(down)) * (up @ down)).astype(np.float32)
            found[name] = found[name] + (delta.T if transposed else delta)
            if not np.isfinite(found[name]).all():
                raise ValueError(
                    f"{self.tensors.path} makes numbers that are not finite of {shown(module)}"
                )
        return found

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

    def _whole(self) -> dict[str, np.ndarray]:
        """Return the tensors that are stored as they are: those of a head, and biases."""
        found = {}
        for name in self.tensors:
            if _A in name or _B in name or ".original_module." in name:
                continue
            if "lora_" in name:
                raise ValueError(f"{self.tensors.path} holds {shown(name)}, which is not read")
            plain = _WRAPPED.sub("", name.removeprefix(_PREFIX))
            found[self.files.canonical(plain)] = self.tensors[name]
        return {name: array for name, array in found.items() if name is not None}

    def head_config(
        self, config: Mapping[str, Any], architecture: str, tensors: Mapping[str, np.ndarray]
    ) -> dict[str, Any]:
        """Return what the configuration of a class says of its head."""
        found: dict[str, Any] = {_NAMES: [architecture]}
        head = self.files.task_heads.get(architecture)
        if head is None or head.size is not None:
            return found
        matrix = tensors.get(f"{list(head.dense.values())[-1]}.weight", ())
        if len(config.get("id2label") or ()) != len(matrix):
            found["id2label"] = {str(i): f"LABEL_{i}" for i in range(len(matrix))}
            found["problem_type"] = None
        return found


def save_adapter(
    directory: str | os.PathLike,
    model: Any,
    parts: ClassParts,
    base: str,
    low_rank: Mapping[str, Any],
    task: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Write the low-rank updates of a fine-tuned model as a folder that PEFT reads.

    Args:
        directory, overwrite: as in `new_folder`.
        model: the task's Keras model, with its updates.
        parts: the same in the names of its class.
        base: name or path of the model that was fine-tuned.
        low_rank: the config of a `tfnlp.layers.LowRank`.
        task: what tfnlp needs to read it again, beside what PEFT knows.
    """
    tensors, targets, rank = {}, [], low_rank["rank"]
    for path, dense, _ in low_rank_updates(model):
        modules = [name.removesuffix(".weight") for name in parts.rows[f"{path}/kernel"].names]
        down, up = np.asarray(dense.update.down), np.asarray(dense.update.up)
        for n, part in enumerate(dense.update.parts):
            targets.append(modules[part])
            a, b = down[:, n * rank : (n + 1) * rank].T, up[n].T
            for end, array in ((_A, a), (_B, b)):
                tensors[_PREFIX + modules[part] + end] = np.ascontiguousarray(array)
    tensors.update({_PREFIX + name: array for name, array in parts.heads.items()})
    kinds = {ending: kind for kind, ending in _CLASSES.items()}
    kind = next((k for ending, k in kinds.items() if parts.architecture.endswith(ending)), None)
    config = {
        "peft_type": "LORA",
        "task_type": kind,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": low_rank["alpha"],
        "lora_dropout": low_rank["dropout"],
        "target_modules": targets,
        "modules_to_save": sorted({name.partition(".")[0] for name in parts.heads}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    with new_folder(directory, (CONFIG, _WEIGHTS[0], TASK), overwrite) as folder:
        save_file(tensors, os.path.join(folder, _WEIGHTS[0]), metadata={"format": "pt"})
        write_json(os.path.join(folder, CONFIG), config)
        write_json(os.path.join(folder, TASK), {"architectures": [parts.architecture], **task})

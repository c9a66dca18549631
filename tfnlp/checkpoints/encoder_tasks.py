"""Fine-tuned checkpoints of the encoders that `EncoderFiles` describe."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from tfnlp.checkpoints.config_fields import check_values
from tfnlp.checkpoints.encoder_config import written_config
from tfnlp.checkpoints.encoders import MODEL_FILES, load_encoder, write_model
from tfnlp.checkpoints.folders import find_one, find_weights, new_folder
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.heads import (
    ClassParts,
    FineTuned,
    TaskFiles,
    TaskHead,
    labels_of,
    output_of,
    outputs_of,
    read_head,
    stated_task,
    task_config,
    written_head,
)
from tfnlp.checkpoints.mapping import table_names, tensors_from_weights
from tfnlp.checkpoints.pretrained import Pretrained

if TYPE_CHECKING:
    from tfnlp.checkpoints.encoder_files import EncoderFiles


def encoder_task_files(files: EncoderFiles) -> TaskFiles:
    """Return how the fine-tuned checkpoints of a family are read and written."""
    return TaskFiles(
        {head.architecture: head for head in files.tasks.values()},
        functools.partial(_read, files),
        functools.partial(_write, files),
        functools.partial(_parts, files),
    )


def _read(
    files: EncoderFiles, path: str | os.PathLike, architecture: str, dtype: Any = None
) -> FineTuned:
    """Read a fine-tuned checkpoint: see `TaskFiles`."""
    backbone = load_encoder(files, path, dtype=dtype)
    canonical = files.huggingface.canonical
    return read_task(backbone, path, architecture, files.tasks, canonical, files.configurations)


def read_task(
    backbone: Pretrained,
    path: str | os.PathLike,
    architecture: str,
    heads: Mapping[str, TaskHead],
    canonical: Callable[[str], str | None],
    configurations: Collection[str],
) -> FineTuned:
    """Read what a fine-tuned checkpoint holds beside its backbone, which was loaded from it.

    `heads` has the kinds of output of the family's checkpoints as keys; `canonical` is that of
    `table_names`.
    """
    weights_path = find_weights(path)
    config_path = find_one(weights_path.parent, configurations, "configuration")
    outputs = {name: head for name, head in heads.items() if head.architecture == architecture}
    head = next(iter(outputs.values()))
    check_values(config_path, read_json(config_path), {k: (x,) for k, x in head.fixed.items()})
    if head.pooler and not backbone.config["pooler"]:
        raise ValueError(
            f"{weights_path} holds no pooler, on which the head of {architecture} stands; take "
            "weights that were saved as this class"
        )
    tensors = open_tensors(weights_path)
    names = table_names(tensors, canonical, ())
    size = outputs_of(tensors, names, head)
    output = output_of(config_path, outputs, size)
    weights = read_head(tensors, names, head, size, backbone.config["hidden_size"])
    labels = labels_of(config_path, output, size)
    task = stated_task(config_path, output, labels)
    return FineTuned(backbone, architecture, output, labels, weights, task)


def _write(
    files: EncoderFiles,
    directory: str | os.PathLike,
    task_model: Any,
    arguments: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write the folder that the Auto classes of transformers and tfnlp read: see `TaskFiles`."""
    parts = _parts(files, task_model, arguments)
    parameters = inspect.signature(files.encoder).parameters.values()
    # A run that was pretrained here keeps only the arguments that it was given.
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    pooler = files.tasks[task_model.task.output].pooler
    arguments = {**defaults, **arguments, "pooler": pooler}
    tensors = {**tensors_from_weights(parts.rows, task_model.model), **parts.heads}
    stated = written_config(files, arguments, parts.architecture)
    stated = {**stated, **task_config(task_model.task)}
    with new_folder(directory, (*MODEL_FILES, *files.tokenizer.names), overwrite) as folder:
        write_model(folder, stated, tensors)
        tokenizer = task_model.reader.tokenizer
        files.tokenizer.write(folder, tokenizer, arguments["max_positions"])


def _parts(files: EncoderFiles, task_model: Any, arguments: Mapping[str, Any]) -> ClassParts:
    """Return a fine-tuned model in the names of its class of transformers."""
    task, form = task_model.task, files.huggingface
    head = files.tasks[task.output]
    if head.pooler and not arguments.get("pooler", True):
        raise ValueError(
            f"the model has no pooler, on which Hugging Face's {head.architecture} stands"
        )
    _check_arguments(files, arguments)
    rows = {
        path: row._replace(names=tuple(form.base + name for name in row.names))
        for path, row in form.rows({**arguments, "pooler": head.pooler}, frozenset()).items()
    }
    inside = form.pooler or "\0"  # a task's own layer may stand where others have the pooler
    heads = {
        form.base + name if name.startswith(inside) else name: array
        for name, array in written_head(task_model.model, head, task).items()
    }
    return ClassParts(head.architecture, rows, heads)


def _check_arguments(files: EncoderFiles, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that Hugging Face has no word for, as DistilBERT's epsilon."""
    stated = {*files.config.arguments, "pooler", "seq_length"}
    for name, parameter in inspect.signature(files.encoder).parameters.items():
        value = arguments.get(name, parameter.default)
        if name not in stated and value != parameter.default:
            raise ValueError(
                f"Hugging Face's {files.title} has {name}={parameter.default}; this model has "
                f"{value}"
            )

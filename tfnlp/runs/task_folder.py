"""The folder of a fine-tuning run, or of a checkpoint of Hugging Face, and the model in it.

RUN/config.json          task, backbone, head and training settings
RUN/vocab.txt, RUN/vocab the backbone's vocabulary
RUN/words.txt            words that the task has embeddings for, beside an ELMo
RUN/backbone.weights.h5  weights of a frozen backbone
RUN/backbone             a backbone that was a SavedModel
RUN/checkpoints          the weights that were trained
RUN/results.json         measures on the dev set
RUN/dev_predictions.jsonl
RUN/page.html            curves, measures, predictions
"""

import dataclasses
import inspect
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfnlp import models
from tfnlp.cards import Card, data_lines, licence_of, shown_name
from tfnlp.checkpoints.heads import assign_head
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.families.checked import check_size, config_path, section, stated
from tfnlp.families.fitting import Tunable, adaptation_of
from tfnlp.families.recognition import (
    RUNS,
    best_run,
    check_arguments,
    place_of,
    read_ending,
)
from tfnlp.families.vocabularies import MARKS, PIECES
from tfnlp.formats import recognised_task
from tfnlp.hub import TaskModel
from tfnlp.models.shapes import count_weights
from tfnlp.runs.backbone import SAVED, WEIGHTS, backbone_config, kept_backbone
from tfnlp.runs.devices import check_trained
from tfnlp.runs.finetune_examples import listed
from tfnlp.tasks import TASKS, HeadTask, task_of
from tfnlp.text import WordIndex
from tfnlp.text.lines import read_lines
from tfnlp.training.checkpoints import check_finite, model_variables
from tfnlp.training.run import check_run, delete_run, is_run, read_config, restore_weights

WORDS, RESULTS = "words.txt", "results.json"
PREDICTIONS = "dev_predictions.jsonl"
OF_SEVERAL = ("out_of_fold.jsonl", "study.json", "search.png")  # beside RUNS
_GIVEN = ("text", "text_a", "text_b", "question", "context", "choices", "predicate")
_MANY = 20  # labels that a card lists
_LOOKED_AT, _SHORT = 1000, 1500  # rows; characters of a row
# From the start of a run to its end.
KEPT = (*PIECES, "tokenizer_config.json", MARKS, WORDS, WEIGHTS, SAVED)
_TOKENS = "token_embedding/embeddings"
# Of a network on features.
_HEAD = ("dropout", "units", "lstm_layers", "embedding_size", "predicate_size")


def make_task_model(
    backbone: Any,
    config: dict[str, Any],
    words: list[str] | None = None,
    dtype: Any = None,
    pack: bool = False,
) -> Any:
    """Return the `tfnlp.hub.TaskModel` of a `Pretrained` and the config of a run.

    `words` are those that the task has embeddings for; with `pack` it is trained on packed rows.
    """
    family, task = backbone.family, task_of(config["spec"])
    reader, head = family.reader(backbone), config["head"]
    if config["features"] is None:
        whole = (backbone, task, head, task.head, dtype, adaptation_of(config))
        if pack:
            packed = family.fine_tuned(*whole, packed=True)
            return TaskModel(task, reader, models.unpacked_task(packed), packed=packed)
        return TaskModel(task, reader, family.fine_tuned(*whole))
    features, arguments, index = _on_features(backbone, config, words)
    return TaskModel(task, reader, models.feature_task(**arguments), features, index)


def check_features(
    backbone: Any, config: dict[str, Any], words: list[str] | None, optimizer: str
) -> None:
    """Check that the network of a run on features fits into memory, before it is made."""
    _, arguments, _ = _on_features(backbone, config, words)
    sizes = ", ".join(f"`{name}` {config['head'][name]:,}" for name in ("units", "lstm_layers"))
    count = count_weights(models.feature_task, arguments)
    check_trained(count, optimizer, f"a network of {sizes}, {count:,} weights,")


def _on_features(
    backbone: Any, config: dict[str, Any], words: list[str] | None
) -> tuple[Any, dict[str, Any], WordIndex | None]:
    """Return features, the arguments of the network on them, and the index of the task's words."""
    features, count, size, mix = backbone.family.features(backbone, config["features"])
    task, index = task_of(config["spec"]), None if words is None else WordIndex(words)
    arguments = {
        "output": task.output,
        "num_layers": count,
        "size": size,
        "mix": mix,
        "pairs": task.pairs,
        "vocab_size": None if index is None else index.size,
        **task.head,
        **config["head"],
    }
    return features, arguments, index


def is_task(folder: str) -> bool:
    """Return whether a folder holds what fine-tuning left, here or in transformers."""
    best = best_run(folder)
    if is_run(best):
        return read_config(best).get("model") == "task"
    return recognised_task(place_of(folder)) is not None


def check_task(folder: str, run: dict[str, Any]) -> None:
    """Check that a run's config is of a model, and of no larger one than its files can fill."""
    kind = TASKS[stated(folder, run, "spec.task", TASKS)]
    own = {field.name for field in dataclasses.fields(kind)} & set(run["spec"])
    section(folder, {"spec": {n: run["spec"][n] for n in own}}, "spec", kind, ())
    try:
        task_of(run["spec"])
    except ValueError as error:
        raise ValueError(
            f"{config_path(folder)} has a spec that makes no sense: {error}"
        ) from error
    features = stated(folder, run, "features", (*models.FEATURES, models.WORDS_ALONE, None))
    try:
        low_rank = adaptation_of(run).low_rank or {}
    except ValueError as error:
        raise ValueError(f"{config_path(folder)} is damaged: {error}") from error
    parameters = set(inspect.signature(models.feature_task).parameters)
    head = section(folder, run, "head", models.feature_task, parameters - {*_HEAD})
    names = [name for name, family in FAMILIES.items() if isinstance(family, Tunable)]
    family = FAMILIES[stated(folder, run, "backbone.kind", names)]
    saved = stated(folder, run, "backbone.saved", (True, False))
    stated(folder, run, "backbone.lowercase", (True, False, None))
    numbers = 0
    if features is not None:  # the LSTM's, of two directions
        numbers = 8 * head["units"] ** 2 * head["lstm_layers"] + (head["embedding_size"] or 0)
        numbers += head["predicate_size"]
    if not saved:
        numbers += check_arguments(folder, run, family, "backbone.")
        width = run["backbone"]["arguments"].get("hidden_size", 1)
        numbers += low_rank.get("rank", 0) * width  # of one matrix, of two at least
    check_size(folder, numbers)


def load_task(
    folder: str, merged: bool = True
) -> tuple[Any, dict[str, Any], Any, dict[str, Any] | None, str]:
    """Return what fine-tuning left, with the weights that were best on the dev set.

    If `merged`, low-rank updates are added to the matrices that they belong to.

    Returns:
        `(TaskModel, config, History, results, folder of the run)`; of a checkpoint of Hugging Face
        without `History` and results.
    """
    found = None if is_run(best_run(folder)) else load_checkpoint(folder)
    if found is not None:
        return *found, None, None, folder
    folder = best_run(folder)
    config = read_config(folder)
    kind = stated(folder, config, "model", (*FAMILIES, "task"))
    if kind != "task":
        raise ValueError(
            f"{folder} is a pretraining run of {kind}; fine-tune it first with `tfnlp finetune`"
        )
    check_run(folder)
    check_task(folder, config)
    backbone = kept_backbone(folder, config["backbone"], config["features"] is None)
    path = os.path.join(folder, WORDS)
    words = read_lines(path, "list of words") if os.path.exists(path) else None
    results = read_ending(os.path.join(folder, RESULTS))
    task_model = make_task_model(backbone, config, words)
    task_model.task = task_model.task.with_results(results or {})
    if task_model.features is not None and not config["backbone"]["saved"]:
        weights, encoder = os.path.join(folder, WEIGHTS), task_model.features.encoder
        encoder.load_weights(weights)
        found = model_variables(encoder)
        check_finite(weights, {name: v.numpy() for name, v in found.items()})
    _, history = restore_weights(folder, task_model.model)
    if merged:
        adaptation_of(config).finish(task_model.model)
    return task_model, config, history, results, folder


def load_checkpoint(folder: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the model of a fine-tuned checkpoint and the config that its run would have.

    Returns:
        `(TaskModel, config)`, or None if the folder holds no such checkpoint. `config["open"]`
        says that the number of texts or choices of an example is not known.
    """
    place = place_of(folder)
    known = recognised_task(place)
    if known is None:
        return None
    found = known.read_task(place)
    backbone = found.backbone
    task = found.task
    if task is None:  # the first of those with such outputs
        kind = next(one for one in TASKS.values() if one.output == found.output)
        task = kind.of_checkpoint(found.labels, backbone.config["max_positions"])
    config = {
        "spec": task.config(),
        "head": {"dropout": backbone.config["dropout"]},
        "features": None,
        "backbone": backbone_config(backbone),
        "columns": {"text": None, "label": None},
        "open": found.task is None,
    }
    reader = backbone.family.reader(backbone) if found.reader is None else found.reader()
    task_model = TaskModel(task, reader, _model(backbone, task, config["head"]))
    if found.rows is not None:  # the last ones of the table of tokens
        (table,) = (w for w in task_model.model.weights if w.path == _TOKENS)
        kept = np.asarray(table)[: -len(found.rows)]
        found.weights[_TOKENS] = np.concatenate([kept, found.rows])
    assign_head(task_model.model, found.weights)
    backbone.encoder = backbone.pretrainer = None  # the task's model has copies of their weights
    return task_model, config


def _model(backbone: Any, task: Any, head: dict[str, Any]) -> Any:
    return backbone.family.fine_tuned(backbone, task, head, task.head, None)


def refitted(task_model: Any, config: dict[str, Any], task: Any) -> Any:
    """Return a task's model for a task of another number of texts or choices of an example."""
    model = task_model.model
    if task.sequences != task_model.task.sequences:
        kind, arguments = config["backbone"]["kind"], config["backbone"]["arguments"]
        backbone = Pretrained(None, None, arguments, family=FAMILIES[kind])
        model = _model(backbone, task, config["head"])
        for variable, old in zip(model.weights, task_model.model.weights, strict=True):
            variable.assign(old)
    return TaskModel(task, task_model.reader, model)


def card_of_task(
    task: HeadTask,
    config: Mapping[str, Any],
    results: Mapping[str, Any] | None,
    folder: str,
    path: str = "",
) -> Card:
    """Return the card of a fine-tuned model, of its `config.json` and `results.json`.

    `folder` is where a checkpoint of somebody else is, and `path` what it was called.
    """
    title = FAMILIES[config["backbone"]["kind"]].title
    if results:
        name, licence = shown_name(results.get("base") or ""), results.get("licence")
    else:  # somebody's checkpoint
        results, name, licence = {}, shown_name(path or folder), licence_of(folder)
    published = config["backbone"].get("published") or {}
    data, names = config.get("data") or {}, results.get("data") or {}
    recorded = data_lines({key: data[key] for key in ("examples", "crc32") if key in data})
    labels = listed(task.labels, _MANY)
    measures = results.get("metrics") or {}
    measured_on = [*names.get("dev", ())]
    if "dev_examples" in names:
        measured_on.append(f"{names['dev_examples']:,} examples")
    return Card(
        f"{title[0].upper()}{title[1:]}, fine-tuned to {task.does}"
        + (f": {labels}." if labels else "."),
        published.get("name", name) or f"{title}, whose name is not recorded",
        licence,
        (", ".join([*names.get("train", ()), *recorded]),) if recorded else (),
        {
            **({"features": config["features"]} if config.get("features") else {}),
            "max_length": task.max_length,
            **(config.get("training") or {}),
        },
        {k: v for k, v in measures.items() if isinstance(v, float | int) and "/" not in k},
        ", ".join(measured_on) or "the dev examples of the run",
        task.pipeline,
    )


def dev_examples(folder: str, count: int) -> list[dict[str, Any]]:
    """Return at most so many rows of the dev set without their labels, short ones.

    Rows with a label that no other has yet come first. Words are joined by spaces.
    """
    path = os.path.join(folder, PREDICTIONS)
    lines = read_lines(path, "predictions") if count and os.path.exists(path) else []
    try:
        rows = [json.loads(line) for line in lines[:_LOOKED_AT]]
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); `examples` 0 does without it") from error
    found, others, known = [], [], set()
    for row in (row for row in rows if isinstance(row, dict)):
        gold = row.get("gold")
        labels = {json.dumps(one) for one in (gold if isinstance(gold, list) else [gold])}
        if "text" not in row and "words" in row:
            row["text"] = " ".join(row["words"])
        given = {name: row[name] for name in _GIVEN if name in row}
        if len(json.dumps(given)) <= _SHORT:
            (others if labels <= known else found).append(given)
            known |= labels
    return [*found, *others][:count]


def delete_task(folder: str) -> None:
    """Delete what a run of a task leaves, what all runs leave last."""
    own = (WEIGHTS, WORDS, RESULTS, PREDICTIONS)
    for name in (RUNS, *OF_SEVERAL, *own):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    shutil.rmtree(os.path.join(folder, SAVED), ignore_errors=True)
    delete_run(folder)

"""The folder of a fine-tuning run, and the model that is made from it again.

RUN/config.json          task, backbone, head and training settings
RUN/vocab.txt, RUN/vocab the backbone's vocabulary
RUN/words.txt            words that the task has embeddings for, beside an ELMo
RUN/backbone.weights.h5  weights of a frozen backbone
RUN/backbone             a backbone that was a SavedModel
RUN/checkpoints          the weights that were trained
RUN/results.json         measures on the dev set
RUN/dev_predictions.jsonl
RUN/soft_targets.npz     what a teacher says of the examples, until the run has ended
"""

import dataclasses
import glob
import inspect
import os
import shutil
from typing import Any

from tfnlp.families import FAMILIES
from tfnlp.families.adaptation import adaptation_of
from tfnlp.families.adapters import merged_checkpoint
from tfnlp.families.checked import check_size, config_path, section, stated
from tfnlp.families.recognition import check_arguments, load_pretrained
from tfnlp.families.several_runs import RUNS, best_run, read_json
from tfnlp.files import check_space, written_whole
from tfnlp.published import at_revision, is_published
from tfnlp.runs.finetune_examples import say

WEIGHTS, WORDS, SAVED, RESULTS = "backbone.weights.h5", "words.txt", "backbone", "results.json"
PREDICTIONS, PICTURE = "dev_predictions.jsonl", "space.png"
SOFT_TARGETS = "soft_targets.npz"
OF_SEVERAL = ("out_of_fold.jsonl", "study.json", "search.png")  # beside RUNS
KEPT = ("vocab.txt", "vocab", WORDS, WEIGHTS, SAVED)  # from the start of a run to its end
# Of a network on features.
_HEAD = ("dropout", "units", "lstm_layers", "embedding_size", "predicate_size")


def load_backbone(model: Any, output: str | None = None) -> Any:
    """Return the pretrained model to fine-tune: a `Pretrained`, or of a path or a published name.

    Runs in the folder `output` may have begun: a published model is then loaded at the commit or
    version that they began with.
    """
    begun = None if output is None else _begun_with(model, output)
    loaded = load_pretrained(begun or model)
    if begun is not None:
        loaded.path = model
    if loaded.left_out is not None:
        say(str(loaded.path), f"the head of its {loaded.left_out} is left out; a new one is learnt")
    if loaded.family.fitting is None:
        *others, last = [f.title for f in reversed(FAMILIES.values()) if f.fitting is not None]
        raise ValueError(
            f"{loaded.path} is {loaded.family.title}; only {', '.join(others)} or {last} can be "
            "fine-tuned"
        )
    return loaded


def _begun_with(model: Any, output: str) -> str | None:
    """Return the published name of the commit or version that runs in a folder have recorded."""
    from tfnlp.training.run import read_config

    if not is_published(model):
        return None
    for path in glob.glob(os.path.join(glob.escape(output), "**", "config.json"), recursive=True):
        backbone = read_config(os.path.dirname(path)).get("backbone")
        source = backbone.get("published") if isinstance(backbone, dict) else None
        if isinstance(source, dict) and source.get("name") == model:
            return at_revision(model, source.get("revision"))
    return None


def backbone_config(backbone: Any) -> dict[str, Any]:
    """Return what `kept_backbone` makes the backbone of."""
    tokenizer = None if backbone.make_tokenizer is None else backbone.tokenizer
    lowercase = getattr(tokenizer, "lowercase", None)
    found = {
        "kind": backbone.family.name,
        "arguments": backbone.config,
        "lowercase": lowercase,
        "saved": backbone.saved,
    }
    if backbone.revision is not None:
        found["published"] = {"name": backbone.path, "revision": backbone.revision}
    return found


def keep_backbone(backbone: Any, folder: str, features: Any) -> None:
    """Write what a run needs of its backbone, but for the trained weights, into its folder."""
    if backbone.saved:
        if not os.path.isdir(os.path.join(folder, SAVED)):
            with written_whole(os.path.join(folder, SAVED)) as partial:
                shutil.copytree(backbone.folder or backbone.path, partial)
        return
    fitting = backbone.family.fitting
    if fitting.keep_vocabulary is not None:
        fitting.keep_vocabulary(backbone.tokenizer, folder)
    path = os.path.join(folder, WEIGHTS)
    if features is not None and not os.path.exists(path):
        encoder = features.encoder
        with written_whole(path) as partial:
            # 16 KB for the names of each; on a full disk HDF5 would end the process.
            check_space(partial, sum(w.numpy().nbytes + 16384 for w in encoder.weights) + 2**16)
            encoder.save_weights(partial)


def kept_backbone(folder: str, config: dict[str, Any], fine_tuned: bool) -> Any:
    """Return the backbone of a run; its weights are new, but for a SavedModel's.

    `config` is what `backbone_config` returned. One that was fine-tuned needs no encoder of its
    own.
    """
    from tfnlp.checkpoints.pretrained import Pretrained

    family, arguments = FAMILIES[config["kind"]], config["arguments"]
    if config["saved"]:
        path = os.path.join(folder, SAVED)
        loaded = family.saved(path)
        loaded.family, loaded.path, loaded.saved = family, path, True
        return loaded
    restore = family.fitting.restore_tokenizer
    encoder = None if fine_tuned else family.encoder_function()(**arguments)
    return Pretrained(
        encoder,
        None,
        arguments,
        make_tokenizer=None if restore is None else lambda: restore(folder, config["lowercase"]),
        family=family,
        path=folder,
    )


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
    from tfnlp import models
    from tfnlp.hub import TaskModel
    from tfnlp.tasks import task_of
    from tfnlp.text import WordIndex

    fitting, task = backbone.family.fitting, task_of(config["spec"])
    reader, head = fitting.reader(backbone), config["head"]
    if config["features"] is None:
        whole = (backbone, task, head, task.head, dtype, adaptation_of(config))
        if pack:
            packed = fitting.fine_tuned(*whole, packed=True)
            return TaskModel(task, reader, models.unpacked_task(packed), packed=packed)
        return TaskModel(task, reader, fitting.fine_tuned(*whole))
    features, count, size, mix = fitting.features(backbone, config["features"])
    index = None if words is None else WordIndex(words)
    model = models.feature_task(
        task.output,
        count,
        size,
        mix=mix,
        pairs=task.pairs,
        vocab_size=None if index is None else index.size,
        **task.head,
        **head,
    )
    return TaskModel(task, reader, model, features, index)


def is_task(folder: str) -> bool:
    """Return whether a folder holds what fine-tuning left, here or in transformers."""
    from tfnlp.checkpoints.peft import is_adapter, is_task_adapter
    from tfnlp.runs.task_checkpoint import task_files_of
    from tfnlp.training.run import is_run, read_config

    if is_adapter(folder):
        return is_task_adapter(folder)
    folder = best_run(folder)
    if is_run(folder):
        return read_config(folder).get("model") == "task"
    return task_files_of(folder) is not None


def check_task(folder: str, run: dict[str, Any]) -> None:
    """Check that a run's config is of a model, and of no larger one than its files can fill."""
    from tfnlp import models
    from tfnlp.tasks import TASKS, task_of

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
        adaptation_of(run)
    except ValueError as error:
        raise ValueError(f"{config_path(folder)} is damaged: {error}") from error
    parameters = set(inspect.signature(models.feature_task).parameters)
    head = section(folder, run, "head", models.feature_task, parameters - {*_HEAD})
    names = [name for name, family in FAMILIES.items() if family.fitting is not None]
    family = FAMILIES[stated(folder, run, "backbone.kind", names)]
    saved = stated(folder, run, "backbone.saved", (True, False))
    stated(folder, run, "backbone.lowercase", (True, False, None))
    numbers = 0
    if features is not None:  # the LSTM's, of two directions
        numbers = 8 * head["units"] ** 2 * head["lstm_layers"] + (head["embedding_size"] or 0)
    if not saved:
        numbers += check_arguments(folder, run, family, "backbone.")
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
    from tfnlp.checkpoints.peft import is_adapter
    from tfnlp.runs.task_checkpoint import load_checkpoint
    from tfnlp.text.lines import read_lines
    from tfnlp.training.checkpoints import check_finite, model_variables
    from tfnlp.training.run import check_run, is_run, read_config, restore_weights

    if is_adapter(folder):
        with merged_checkpoint(folder) as place:
            found = load_checkpoint(place)
    else:
        found = None if is_run(folder) else load_checkpoint(folder)
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
    results = read_json(os.path.join(folder, RESULTS))
    task_model = make_task_model(backbone, config, words)
    task_model.task = task_model.task.with_results(results or {})
    if task_model.features is not None and not config["backbone"]["saved"]:
        weights, encoder = os.path.join(folder, WEIGHTS), task_model.features.encoder
        encoder.load_weights(weights)
        check_finite(weights, model_variables(encoder))
    _, history = restore_weights(folder, task_model.model)
    if merged:
        adaptation_of(config).finish(task_model.model)
    return task_model, config, history, results, folder


def delete_task(folder: str) -> None:
    """Delete what a run of a task leaves, what all runs leave last."""
    from tfnlp.training.run import delete_run

    own = (WEIGHTS, WORDS, RESULTS, PREDICTIONS, PICTURE, SOFT_TARGETS)
    for name in (RUNS, *OF_SEVERAL, *own):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    shutil.rmtree(os.path.join(folder, SAVED), ignore_errors=True)
    delete_run(folder)

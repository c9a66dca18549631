"""The functions of `import tfnlp`: load, pretrain, check, finetune, export, inspect, verify.

Each imports what it needs when it is called: the engine must be chosen before Keras is imported.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfnlp.files import given_path
from tfnlp.runs.engine import use_engine
from tfnlp.settings.options import model_place, one_of
from tfnlp.settings.tables import FAMILIES, TASKS
from tfnlp.settings.use import CheckSettings, EmbedSettings, VerifySettings

if TYPE_CHECKING:
    import keras

    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.formats import Module
    from tfnlp.hub import Inspection
    from tfnlp.runs.checking import Check
    from tfnlp.runs.search_index import Index
    from tfnlp.runs.task_run import TaskRun
    from tfnlp.runs.verifying import Verification

    Loaded = Pretrained | TaskRun | Module | Index


def load(path: str | os.PathLike[str], dtype: str | None = None) -> Loaded:
    """Load a model from wherever it is.

    Args:
        path: A path, also one that `tf.io.gfile` takes, such as `gs://bucket/run`. The folder of a
            run of `tfnlp.pretrain` or `tfnlp.finetune`; a checkpoint of Google or Hugging Face
            (BERT), OpenAI or Hugging Face (GPT, GPT-2), bilm-tf or AllenNLP (ELMo); a file of
            word2vec, fastText or GloVe; exported modules. Or the name of a published one:
            `hf://org/name[@revision]`, or `org/name` where no such folder is here;
            `kaggle://owner/model/framework/variation[/version]`.
        dtype: A Keras dtype policy, such as "mixed_bfloat16"; None: the global one. Exported
            modules keep their own.

    Returns:
        a `Pretrained` with `encoder`, `pretrainer` and `tokenizer`; of a fine-tuned run a
        `TaskRun`; of a module that is only called a `Module`; of what `embed` wrote to be searched
        an `Index`.

    Raises:
        FileNotFoundError: if there is nothing there.
        ValueError: for anything else; says what it is and what was expected.
        OSError: if a published model can't be downloaded.
    """
    from tfnlp.families.recognition import opened

    path = model_place(given_path(path, "path"))
    with opened(path) as place:
        loaded = _load(place.folder, dtype)
        if place.is_temporary and getattr(loaded, "make_tokenizer", None) is not None:
            loaded.tokenizer  # noqa: B018  # its files are deleted with the copy
    loaded.path = path
    if place.revision is not None:
        loaded.revision = place.revision
    return loaded


def _load(path: str, dtype: str | None) -> Loaded:
    """Load a model from a path on this machine."""
    from tfnlp.families.recognition import read_model
    from tfnlp.runs.search_index import Index, is_index
    from tfnlp.runs.task_folder import is_task
    from tfnlp.runs.task_run import TaskRun

    if os.path.isdir(path):
        if is_index(path):
            return Index(path)
        if is_task(path):
            return TaskRun(path, dtype)
    return read_model(path, dtype)


def pretrain(
    family: str,
    text: Any = None,
    output: str | os.PathLike[str] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **settings: Any,
) -> Pretrained:
    """Pretrain a model, or finish a run that was stopped; what `tfnlp pretrain` does.

    Args:
        family: "word2vec", "glove", "nnlm", "seq2seq", "transformer", "elmo", "gpt", "bert",
            "roberta", "distilbert", "xlm-roberta", "albert", "electra" or "mpnet".
        text: Paths, globs, `tfds:` or `book:` names; a list of texts, of documents (lists of
            sentences) or of dicts; a table of pandas, polars or Arrow; a Hugging Face data set; a
            `tf.data.Dataset`. See `tfnlp.data.documents_of`. Of models that translate rows of a
            sentence and its translation (in tables `source` and `target`), or `source=` and
            `target=` files.
        output: The run's folder. The same call again resumes a run that was stopped.
        callbacks: Keras callbacks of the training, see `tfnlp.training.loop`.
        settings: The fields of the family's settings (`tfnlp.settings(family)` lists them), such as
            `size`, `steps`, `batch_size`, `learning_rate`, `valid`.

    Returns:
        the loaded run, with the held-out measures in `results`.

    Raises:
        ValueError: for an unknown family or setting, settings out of range, text that can't be
            used, or a folder that holds another run.
        OSError: if something can't be read or written.
    """
    if family not in tuple(FAMILIES):
        raise ValueError(one_of("family", family, FAMILIES))
    output = None if output is None else given_path(output, "output")
    given = {"text": text, "output": output, **settings}
    given = {name: value for name, value in given.items() if value is not None}
    config = FAMILIES[family][0].make(**given)
    use_engine(config.engine, config.strategy, config.tpu)  # before Keras is imported
    from tfnlp.families import FAMILIES as MODELS
    from tfnlp.runs.pretraining import train_family

    results = train_family(MODELS[family], config, callbacks)
    loaded = load(given["output"])
    loaded.results = results
    return loaded


def finetune(
    task: str,
    model: Any,
    train: Any,
    dev: Any = None,
    output: str | os.PathLike[str] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **settings: Any,
) -> TaskRun | Pretrained:
    """Fine-tune a pretrained model on a task, or finish a run; what `tfnlp finetune` does.

    Args:
        task: "classify", "labels", "similarity", "scores", "choose", "answer", "tag", "roles"
            or "coref"; "embed", vectors of sentences; or "fill", which goes on with the masked
            language model of a BERT.
        model: A `Pretrained`, or a path that `tfnlp.load` takes.
        train: Paths, globs or `tfds:` names of labelled examples; lists of tuples or dicts; a
            table of pandas, polars or Arrow; a Hugging Face data set; a `tf.data.Dataset`. See
            `tfnlp.tasks.Task.read`; of "fill" text.
        dev: Examples to measure on; None: a share of `train`, see `held_out`.
        output: The run's folder. The same call again resumes a run that was stopped.
        callbacks: Keras callbacks, of each of several runs, see `tfnlp.training.loop`.
        settings: The fields of the task's settings (`tfnlp.settings(task)` lists them), such as
            `epochs`, `learning_rate`, `features`, `seeds`, `folds`, `search`.

    Returns:
        a `TaskRun` with `results`, `predict`, `evaluate` and `export`; of "embed" and
        "fill" a `Pretrained`, also with `results`.

    Raises:
        ValueError: for an unknown task or setting, settings out of range, examples that can't be
            used, a model that can't be fine-tuned, or a folder that holds another run.
        OSError: if something can't be read or written.
    """
    if task not in tuple(TASKS):
        raise ValueError(one_of("task", task, TASKS))
    config_class, _ = TASKS[task]
    names = [field.name for field in dataclasses.fields(config_class)]
    names = ("model", "train", "dev") if "model" in names else ("start", "text", "valid")
    if names[0] == "start":  # of "fill", whose record says where the model is
        model = getattr(model, "path", None) or model
    for public, name in zip(("model", "train", "dev"), names, strict=True):
        if name in settings:
            raise ValueError(f"there is no argument {name}; did you mean {public}?")
    given = dict(zip(names, (model, train, dev), strict=True))
    given.update(settings, output=None if output is None else given_path(output, "output"))
    given = {name: value for name, value in given.items() if value is not None}
    try:
        config = config_class.make(**given)
    except ValueError as error:  # "fill" has other names for what is given as `model`, ...
        public = dict(zip(names, ("model", "train", "dev"), strict=True))
        told = re.sub(r"`(\w+)`", lambda match: f"`{public.get(match[1], match[1])}`", str(error))
        raise ValueError(told) from error
    use_engine(config.engine, config.strategy, config.tpu)  # before Keras is imported
    from tfnlp.runs.finetuning import finetune_task
    from tfnlp.runs.task_run import TaskRun
    from tfnlp.tasks import TASKS as KINDS
    from tfnlp.tasks import HeadTask

    results, examples = finetune_task(KINDS[task], config, callbacks)
    if not issubclass(KINDS[task], HeadTask):
        loaded = load(config.output)
        loaded.results = results
        return loaded
    run = TaskRun(config.output)
    run.results = {**(run.results or {}), **results}
    run.dev = examples if dev is None or isinstance(dev, Iterator) else dev
    return run


def check(data: Any, task: str | None = None, **settings: Any) -> Check:
    """Return how labelled examples are read, and what looks wrong with them; as `tfnlp check`.

    Args:
        data: What `finetune` takes as `train`.
        task: What they are for; None: a line for each task that reads such examples.
        settings: `dev`, examples to measure on; `model`, a pretrained model, to show texts as it
            reads them and how many it cuts at `max_length`; `text_columns`, `label`,
            `label_columns`, `separator`.

    Returns:
        a `Check` with the lists `lines` and `doubts`, sentences; printed it is both.

    Raises:
        ValueError: for an unknown task or setting, or if no row can be read.
        OSError: if something can't be read.
    """
    from tfnlp.runs.checking import check_rows

    return check_rows(CheckSettings.make(data=data, task=task, **settings))


def export(
    model: Any, directory: str | os.PathLike[str], **settings: Any
) -> dict[str, str] | tuple[str, str] | str:
    """Write SavedModels that need no tfnlp: loaded, called and fine-tuned by anyone.

    Args:
        model: A `Pretrained` or `TaskRun`; a path that `tfnlp.load` takes; or any functional
            Keras model, see `tfnlp.hub.export`.
        directory: The folder to write.
        settings: Those of `tfnlp export` that the model takes; of a Keras model those of
            `tfnlp.hub.export`.

    Returns:
        a dict of what was written to its path; of a Keras model what `tfnlp.hub.export` returns.

    Raises:
        ValueError: for a setting that the model does not have.
        OSError: if something can't be written, or is there already without `overwrite`.
    """
    import keras

    directory = given_path(directory, "directory")
    if isinstance(model, keras.Model):
        from tfnlp.hub import export as export_keras
        from tfnlp.in_tensorflow import export_in_tensorflow, is_elsewhere

        if is_elsewhere():
            return export_in_tensorflow(model, directory, **settings)
        return export_keras(model, directory, **settings)
    if isinstance(model, str | os.PathLike):
        model = load(model)
    if not hasattr(model, "export"):
        raise ValueError(
            f"`model` {model!r:.60} must be what `tfnlp.load` returns, a path or a Keras model"
        )
    return model.export(directory, **settings)


def embed(
    model: Any,
    input: Any,
    output: str | os.PathLike[str],
    dtype: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Write one vector for each text; what `tfnlp embed` does.

    `Pretrained.embed` returns vectors and writes nothing.

    Args:
        model: A path or name that `tfnlp.load` takes, or a `Pretrained`.
        input: A file or several, also as globs, `tfds:` and `book:` names: a text a line, `.tsv`,
            `.csv`, `.jsonl` or `.parquet`. Or texts in memory, as in `tfnlp.pretrain`.
        output: `.npy`, `.parquet`, or `.tsv` for TensorBoard's projector; a name without an ending
            is an index, which `tfnlp.load` returns as an object with `search`. The same call again
            goes on after the last whole part of 16,384 texts.
        dtype: A Keras dtype policy, such as "mixed_bfloat16".
        settings: `text` (the column), `pooling`, `prompt`, `raw` (without normalization), `layer`,
            `max_length`, `overwrite`; of an index `approximate`; of a pipeline of Beam `runner`,
            `workers`, `pipeline_options`.

    Returns:
        `texts`, how many; `size`, of a vector; `files`, that were written.

    Raises:
        ValueError: for a setting that the model does not have, or texts that can't be read.
        FileExistsError: if the output exists and `overwrite` was not given.
        OSError: if something can't be read or written.
    """
    from tfnlp.runs.embedding import embed_files

    output = given_path(output, "output")
    given = {"model": model, "input": input, "output": output, **settings}
    return embed_files(EmbedSettings.make(**given), dtype)


def inspect(path: str | os.PathLike[str]) -> list[Inspection]:
    """Return what SavedModels offer, without running any of their code.

    Args:
        path: A SavedModel; a folder with an encoder or model and its preprocessor; an archive, an
            address or the name of a published one.

    Returns:
        an `Inspection` for each module; printed it says what the module takes and returns and how
        to call it.
    """
    from tfnlp.families.recognition import opened_modules
    from tfnlp.hub import inspect as inspect_module

    with opened_modules(model_place(given_path(path, "path"))) as folders:
        return [inspect_module(folder) for folder in folders]


def verify(folder: str | os.PathLike[str], texts: Any = None, **settings: Any) -> Verification:
    """Return how far tfnlp is from the library that a folder is for; what `tfnlp verify` does.

    transformers, or sentence-transformers, runs in a process of its own.

    Args:
        folder: A folder of Hugging Face or sentence-transformers, published (`hf://org/name`) or
            written by tfnlp.
        texts: A `pathlib.Path` of texts, a line each, or strings, of which fifty are read; None:
            some of many kinds and languages.
        settings: `python`, an interpreter that has the libraries, None: this one; `card`, write the
            table into the model card.

    Returns:
        a `Verification` with `gaps` and `is_equal`; printed it is a table of the largest
        differences of ids, hidden states, the heads and sentence vectors, with their texts.

    Raises:
        ValueError: for a folder that the other library can't read, or another setting.
        ImportError: if the interpreter lacks the libraries.
        OSError: if something can't be read or written.
    """
    from tfnlp.families.recognition import opened
    from tfnlp.runs.verifying import verified

    folder = model_place(given_path(folder, "folder"))
    config = VerifySettings.make(folder=folder, texts=texts, **settings)
    with opened(folder) as place:
        return verified(_load(place.folder, None), place.folder, config)

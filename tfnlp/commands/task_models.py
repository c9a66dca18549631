"""A backbone and a task put together: from a pretrained model, or from the folder of a run.

    RUN/config.json          task, backbone, head and training settings
    RUN/vocab.txt, RUN/vocab the backbone's vocabulary
    RUN/words.txt            words that the task has embeddings for, beside an ELMo
    RUN/backbone.weights.h5  weights of a frozen backbone
    RUN/backbone             a backbone that was a SavedModel
    RUN/checkpoints          the weights that were trained
    RUN/results.json         measures on the dev set
    RUN/dev_predictions.jsonl
"""

import json
import os
import shutil
from dataclasses import dataclass, replace

WEIGHTS, WORDS, SAVED, RESULTS = "backbone.weights.h5", "words.txt", "backbone", "results.json"


@dataclass
class Backbone:
    """A pretrained model for tasks.

    Attributes:
        kind: "bert", "gpt" or "elmo".
        encoder: a Keras model; None of a SavedModel of an ELMo, and where a copy with new weights
            is all that a task needs.
        tokenizer: of BERT and GPT.
        arguments: those of `tfnlp.models.bert`, `gpt` or `elmo`; of a SavedModel empty.
        saved: its folder if it is a SavedModel, else None.
    """

    kind: str
    encoder: object
    tokenizer: object
    arguments: dict
    saved: str | None = None

    @property
    def width(self):
        """The width of its vectors (of an ELMo in one direction), None if it does not say."""
        if self.arguments:
            return self.arguments.get("hidden_size") or self.arguments.get("projection_size")
        return None if self.encoder is None else self.encoder.output["sequence_output"].shape[-1]

    @property
    def max_positions(self):
        """The longest sequence that it reads, or None."""
        if self.saved is not None and self.encoder is not None:
            from tfnlp.hub.loading.encoder import max_positions

            return max_positions(self.encoder.get_layer("saved_model"))
        return self.arguments.get("max_positions")


def load_backbone(path):
    """The pretrained model in a run's folder, a checkpoint's or an export's.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp.commands import loading
    from tfnlp.commands.run_config import KINDS
    from tfnlp.hub.loading.kind import saved_kind

    kind = saved_kind(path) if os.path.isdir(path) else None
    if kind is not None:
        return _saved_backbone(kind, path)
    kind = loading.kind_of(path)
    if kind == "task":
        raise ValueError(
            f"{path} is fine-tuned already; give the pretrained model that it was made from"
        )
    if kind not in KINDS:
        what = "a file of word vectors" if kind == "vectors" else f"a run of {kind}"
        raise ValueError(f"{path} is {what}; only a BERT, an ELMo or a GPT can be fine-tuned")
    loaded = getattr(loading, f"load_{kind}")(path)
    arguments = loaded.config.get("arguments", loaded.config)
    return Backbone(kind, loaded.encoder, getattr(loaded, "tokenizer", None), arguments)


def _saved_backbone(kind, path):
    from tfnlp.hub.loading.encoder import saved_encoder
    from tfnlp.hub.loading.tokenizer import saved_tokenizer

    if kind == "elmo":
        return Backbone(kind, None, None, {}, path)
    return Backbone(kind, saved_encoder(path), saved_tokenizer(path), {}, path)


def keep_backbone(backbone, folder, features):
    """Writes what a run needs of its backbone into its folder, but for the trained weights.

    Args:
        features: the `features` of the `TaskModel`, or None.
    """
    from tfnlp.text import write_vocabulary
    from tfnlp.text.byte_pairs.files import write_bpe

    tokenizer = backbone.tokenizer
    if backbone.saved is not None:
        if not os.path.isdir(os.path.join(folder, SAVED)):
            partial = os.path.join(folder, f"{SAVED}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(backbone.saved, partial)
            os.replace(partial, os.path.join(folder, SAVED))
        return
    if backbone.kind == "bert":
        write_vocabulary(os.path.join(folder, "vocab.txt"), tokenizer.vocabulary)
    elif backbone.kind == "gpt" and not os.path.isdir(os.path.join(folder, "vocab")):
        partial = os.path.join(folder, "vocab.partial")
        shutil.rmtree(partial, ignore_errors=True)
        write_bpe(partial, tokenizer.vocabulary, tokenizer.merges)
        os.replace(partial, os.path.join(folder, "vocab"))
    if features is not None and not os.path.exists(os.path.join(folder, WEIGHTS)):
        partial = os.path.join(folder, f"partial.{WEIGHTS}")
        features.encoder.save_weights(partial)
        os.replace(partial, os.path.join(folder, WEIGHTS))


def kept_backbone(folder, config, fine_tuned):
    """The backbone of a run; its weights are new, but for a SavedModel's.

    Args:
        folder: the run's.
        config: what `backbone_config` made.
        fine_tuned: whether its copy has been trained: it then needs no encoder of its own.
    """
    from tfnlp import models
    from tfnlp.text import WordPieceTokenizer, gpt_tokenizer

    kind, arguments = config["kind"], config["arguments"]
    if config["saved"]:
        return _saved_backbone(kind, os.path.join(folder, SAVED))
    tokenizer = None
    if kind == "bert":
        path = os.path.join(folder, "vocab.txt")
        tokenizer = WordPieceTokenizer(path, lowercase=config["lowercase"])
    elif kind == "gpt":
        tokenizer = gpt_tokenizer(os.path.join(folder, "vocab"))
    encoder = None if fine_tuned else getattr(models, kind)(**arguments)
    return Backbone(kind, encoder, tokenizer, arguments)


def backbone_config(backbone):
    """What `kept_backbone` makes it of."""
    return {
        "kind": backbone.kind,
        "arguments": backbone.arguments,
        "lowercase": getattr(backbone.tokenizer, "lowercase", None),
        "saved": backbone.saved is not None,
    }


def make_task_model(backbone, config, words=None, dtype=None):
    """The `tfnlp.hub.TaskModel` of a backbone and the settings of a run.

    Args:
        backbone: a `Backbone`.
        config: a run's, with `spec`, `head` and `features` (a name of `models.FEATURES` or None).
        words: list of the words that the task has embeddings for, or None.
        dtype: a Keras dtype policy for what is fine-tuned.

    Raises:
        ValueError: for a task that the backbone can't have.
    """
    from tfnlp.hub.modules.task_model import TaskModel
    from tfnlp.tasks.task_spec import TaskSpec
    from tfnlp.text.task_readers import BertReader, GPTReader, WordReader

    spec = TaskSpec(**config["spec"])
    if backbone.kind == "elmo":
        reader = WordReader()
    elif backbone.kind == "bert":
        reader = BertReader(backbone.tokenizer)
    elif backbone.saved is None:
        first = backbone.arguments["vocab_size"]
        reader = GPTReader(backbone.tokenizer, (first, first + 1, first + 2))
    else:  # its table can't get new rows
        end = backbone.tokenizer.end_id
        if end is None:
            raise ValueError(f"{backbone.saved} has no token that ends texts, which tasks need")
        reader = GPTReader(backbone.tokenizer, (end, end, end))
    outputs = {"num_classes": len(spec.labels) or None, "sequences": spec.sequences}
    if config["features"] is None:
        model = _fine_tuned(backbone, spec, config["head"], outputs, dtype)
        return TaskModel(spec, reader, model)
    return _on_features(backbone, spec, reader, config, outputs, words)


def _fine_tuned(backbone, spec, head, outputs, dtype):
    from tfnlp import models

    rates = {"dropout": head["dropout"], "attention_dropout": head["dropout"]}
    encoder = backbone.encoder
    if backbone.saved is None and backbone.kind == "bert":
        encoder = models.bert_for_tasks(encoder, backbone.arguments, dtype=dtype, **rates)
    elif backbone.saved is None:
        encoder = models.gpt_with_extra_tokens(encoder, backbone.arguments, dtype=dtype, **rates)
    make = models.bert_task if backbone.kind == "bert" else models.gpt_task
    return make(encoder, spec.output, dropout=head["dropout"], **outputs)


def _on_features(backbone, spec, reader, config, outputs, words):
    from tfnlp import hub, models
    from tfnlp.hub.modules.frozen_features import ElmoFeatures, EncoderFeatures
    from tfnlp.hub.modules.task_model import TaskModel
    from tfnlp.text.words.index import WordIndex

    encoder, elmo = backbone.encoder, backbone.kind == "elmo"
    if elmo and encoder is None:
        module = hub.saved_elmo(backbone.saved)
        loaded = module.module  # a part of what is exported
        found = module({"tokens": [["a"]], "sequence_len": [1]})
        count = sum(name.startswith("lstm_outputs") for name in found)
        size = found["lstm_outputs1"].shape[-1]
    elif elmo:
        module, loaded = hub.ElmoModule(encoder), None
        bilm = encoder.get_layer("bilm")
        count, size = bilm.num_layers, 2 * bilm.projection_size
    else:
        if backbone.kind == "gpt" and backbone.saved is None:
            encoder = models.gpt_with_extra_tokens(encoder, backbone.arguments)
        if "embedding_output" not in encoder.output or "encoder_outputs" not in encoder.output:
            raise ValueError(f"{backbone.saved} does not give its layers, which --features takes")
        count, size = len(encoder.output["encoder_outputs"]), backbone.width
    layers, mix = models.select_layers(config["features"], count, embeddings=elmo)
    features = (
        ElmoFeatures(module, layers, size, encoder, loaded)
        if elmo
        else EncoderFeatures(encoder, layers)
    )
    index = None if words is None else WordIndex(words)
    model = models.feature_task(
        spec.output,
        len(layers),
        size,
        mix=mix,
        pairs=spec.texts == 2 or spec.task in ("answer", "choose"),
        vocab_size=None if index is None else index.size,
        **outputs,
        **config["head"],
    )
    return TaskModel(spec, reader, model, features, index)


@dataclass
class TaskRun:
    """`task_model`, the run's `config`, its `folder`, the `history` of its training and its
    `results`, None if it has not ended."""

    task_model: object
    config: dict
    folder: str
    history: object
    results: dict | None


def best_run(folder):
    """The folder of the best of several runs under `folder`, or `folder` itself."""
    from tfnlp.commands.run_config import best_name

    path = os.path.join(folder, "runs.json")
    runs = read_json(path)
    return folder if runs is None else os.path.join(folder, best_name(path, runs))


def read_json(path):
    """What a file that a run ends with says; None if there is no such file."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}); delete it and run the same `tfnlp finetune` again"
        ) from error


def load_task_run(folder):
    """What fine-tuning left in `folder`, with the weights that were best on the dev set.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp.commands.run_config import check_run, run_kind
    from tfnlp.text.lines import read_lines
    from tfnlp.training.run import read_config, restore_weights

    folder = best_run(folder)
    config = read_config(folder)
    kind = run_kind(folder, config)
    if kind != "task":
        raise ValueError(
            f"{folder} is a pretraining run of {kind}; fine-tune it first with `tfnlp finetune`"
        )
    check_run(folder, config)
    backbone = kept_backbone(folder, config["backbone"], config["features"] is None)
    path = os.path.join(folder, WORDS)
    words = read_lines(path, "list of words") if os.path.exists(path) else None
    results = read_json(os.path.join(folder, RESULTS))
    task_model = make_task_model(backbone, config, words)
    if results is not None and "threshold" in results:
        task_model.spec = replace(task_model.spec, threshold=results["threshold"])
    if task_model.features is not None and not config["backbone"]["saved"]:
        task_model.features.encoder.load_weights(os.path.join(folder, WEIGHTS))
    _, history = restore_weights(folder, task_model.model)
    return TaskRun(task_model, config, folder, history, results)

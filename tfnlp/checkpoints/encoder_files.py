"""The checkpoints of a family of encoders: one description, which readers and writers take."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints import mapping
from tfnlp.checkpoints.config import ConfigNames, defaults_of, layer_arguments
from tfnlp.checkpoints.folders import MODEL_FILES, find_one, find_weights, new_folder, write_model
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.heads import (
    ClassParts,
    FineTuned,
    TaskHead,
    architecture_of,
    class_parts,
    read_task,
    task_config,
)
from tfnlp.checkpoints.mapping import UNTIED, TensorNames, tensors_from_weights
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.files import TokenizerFiles
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE
from tfnlp.models.shapes import weight_shapes

_MOST_SHARED = 1000  # layers that share their weights: the file does not hold their number


@dataclass(frozen=True)
class EncoderFiles:
    """The checkpoints of a family of encoders.

    Attributes:
        title: the family in messages, without article: "BERT".
        encoder: function of `tfnlp.models` that makes the encoder.
        pretrainer: function of `tfnlp.models` that makes the model with its pretraining heads.
        config: names in `config.json`.
        formats: names of tensors in each format; the last one is Hugging Face's, which is written.
        classes: the heads that are there, in the order of `TensorNames.heads`, to the name of
            Hugging Face's class.
        needs_pooler: heads that need the pooler.
        head_activation: that of the masked-LM head; None: that of the encoder.
        configurations: names of the configuration, the first that exists is read.
        tokenizer: how the vocabulary is read and written.
        tasks: kind of output of a task to the head of its fine-tuned checkpoints.
    """

    title: str
    encoder: Callable[..., keras.Model]
    pretrainer: Callable[..., keras.Model]
    config: ConfigNames
    formats: tuple[TensorNames, ...]
    classes: Mapping[tuple[str, ...], str]
    needs_pooler: tuple[str, ...] = ()
    head_activation: str | None = None
    configurations: tuple[str, ...] = ("config.json",)
    tokenizer: TokenizerFiles = WORDPIECE
    tasks: Mapping[str, TaskHead] = field(default_factory=dict)

    @property
    def huggingface(self) -> TensorNames:
        """The names that are written."""
        return self.formats[-1]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that are written."""
        return (*MODEL_FILES, *self.tokenizer.names)

    @property
    def model_types(self) -> tuple[str, ...]:
        """What `config.json` calls the kind of model."""
        return (self.config.model_type,)

    @property
    def task_heads(self) -> dict[str, TaskHead]:
        """The classes of transformers that are fine-tuned, to their heads."""
        return {head.architecture: head for head in self.tasks.values()}

    def canonical(self, name: str) -> str | None:
        """Return the name of a tensor without what only some classes put before it."""
        return self.huggingface.canonical(name)

    @property
    def outside(self) -> tuple[str, ...]:
        """What the canonical names of the tensors of all heads begin with."""
        form = self.huggingface
        tasks = [name for head in self.tasks.values() for name in head.beginnings(form.pooler)]
        return (*tasks, *form.outside)

    def load(
        self,
        path: str | os.PathLike,
        *,
        activation: str | None = None,
        dropout: float | None = None,
        attention_dropout: float | None = None,
        seq_length: int | None = None,
        dtype: Any = None,
        max_predictions: int | None = None,
        config_file: str | os.PathLike | None = None,
        vocab: str | os.PathLike | None = None,
        lowercase: bool | None = None,
        ignore: str | Sequence[str] = (),
    ) -> Pretrained:
        """Load a published checkpoint of an encoder.

        The file is compared with its configuration tensor by tensor before a model is built, and
        read whole before a weight is assigned: an error leaves nothing half-loaded.

        Args:
            path: a local folder, or a weight file in it: the prefix of a TensorFlow checkpoint,
                `.safetensors` or `pytorch_model.bin` (or the index of its shards), `.npz`. The same
                folder holds the configuration, and usually the vocabulary. Load only TensorFlow
                checkpoints that you trust: a forged index file can end the process.
            activation: "gelu" (erf), "gelu_tanh" or "relu" instead of the configuration's.
            dropout, attention_dropout: rates instead of the configuration's.
            seq_length, dtype: as in the encoder's function.
            max_predictions: static number of masked positions, or None for any number.
            config_file: the configuration, if it is elsewhere.
            vocab: the vocabulary, if it is elsewhere.
            lowercase: whether the vocabulary is for lower-cased text, instead of what the files
                say.
            ignore: beginnings of the names of tensors to leave out, such as a classifier's.

        Returns:
            A `Pretrained`; its `pretrainer` has those pretraining heads that the checkpoint holds.
            The head of a task is left out, and `left_out` names the class.

        Raises:
            FileNotFoundError: for a file that does not exist.
            ValueError: for a damaged file, an invalid configuration, tensors that are missing,
                surplus or misshapen (all listed in one message), a vocabulary that is longer than
                the embedding table.
        """
        tensors, config_path, config = self._open(path, config_file, activation)
        folder = pathlib.Path(tensors.path).parent
        rates = {"dropout": dropout, "attention_dropout": attention_dropout}
        config |= {name: rate for name, rate in rates.items() if rate is not None}
        found = self.tokenizer.find(folder, vocab, lowercase, config["vocab_size"])
        stated = read_json(config_path) if config_path.is_file() else {}
        ignore = [ignore] if isinstance(ignore, str) else list(ignore)
        left_out = architecture_of(stated, self.task_heads)
        if left_out is not None:
            ignore += self.task_heads[left_out].beginnings(self.huggingface.pooler)
        tied = bool(stated.get("tie_word_embeddings", True))
        weights, heads = self._read(tensors, config, config_path, ignore, tied)
        encoder = self.encoder(**config, seq_length=seq_length, dtype=dtype)
        pretrainer = self.with_heads(encoder, config, heads, max_predictions)
        mapping.assign(encoder if pretrainer is None else pretrainer, weights)
        return Pretrained(
            encoder,
            pretrainer,
            config,
            make_tokenizer=found.make,
            vocabulary=found.path,
            lowercase=found.lowercase,
            path=str(path),
            left_out=left_out,
        )

    def _open(
        self, path: str | os.PathLike, config_file: str | os.PathLike | None, activation: str | None
    ) -> tuple[Tensors, pathlib.Path, dict[str, Any]]:
        """Return the tensors, the path of the configuration and the encoder's arguments."""
        weights = find_weights(path)
        if config_file is None:
            config_path = find_one(weights.parent, self.configurations, "configuration")
        else:
            config_path = pathlib.Path(config_file)
            if not config_path.is_file():
                raise FileNotFoundError(f"config_file {config_path} does not exist")
        config = self.config.read(config_path, self.title, activation)
        return open_tensors(weights), config_path, config

    def _read(
        self,
        tensors: Tensors,
        config: dict[str, Any],
        config_path: pathlib.Path,
        ignore: Sequence[str],
        tied: bool,
    ) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
        """Return the weights, and which heads are there; set `config["pooler"]`."""
        form, names = mapping.recognise(self.formats, self.title, tensors, ignore)
        key, num_layers = self.config.size_key("num_layers"), config["num_layers"]
        if form.layer is not None:
            mapping.check_layers(tensors, names, form.layer, config_path, key, num_layers)
        elif num_layers * config["group_blocks"] > _MOST_SHARED:
            raise ValueError(
                f"{config_path} has {key}={num_layers}; expected at most {_MOST_SHARED} layers "
                "that share their weights"
            )

        def has(*beginnings: str) -> bool:
            return any(name.startswith(beginnings) for name in names)

        heads = {head: has(*form.beginnings(head)) for head in form.heads}
        has_table = [h for h in form.heads if any(x.endswith("_table") for x in form.heads[h])]
        heads[UNTIED] = not tied and any(heads[head] for head in has_table)
        copies = {}
        if heads[UNTIED]:
            # The bias beside the table is the one that counts; the other may be a left-over.
            names |= {form.copies[name]: names.pop(name) for name in form.biases if name in names}
        else:
            copies = mapping.separate_copies(form.copies, names)
        needs_pooler = any(heads.get(head) for head in self.needs_pooler)
        if form.pooler is not None:
            config["pooler"] = has(form.pooler) or needs_pooler

        def build(**arguments: Any) -> keras.Model:
            encoder = self.encoder(**arguments)
            return self.with_heads(encoder, config, heads, None) or encoder

        pairs = ", 2 of sentence pairs whatever id2label" if needs_pooler else ""
        hint = f"sizes from {config_path}{pairs}; `ignore` leaves surplus tensors out"
        shapes = weight_shapes(build, config)
        rows = form.rows(config, shapes)
        mapping.check_tensors(tensors, names, mapping.stored_shapes(rows, shapes), hint)
        weights = mapping.weights_from_tensors(rows, lambda name: tensors[names[name]])
        mapping.check_copies(tensors, copies, f"tfnlp's {self.title} shares one array between them")
        return weights, heads

    def with_heads(
        self,
        encoder: keras.Model,
        config: Mapping[str, Any],
        heads: Mapping[str, bool],
        max_predictions: int | None,
    ) -> keras.Model | None:
        """Return an encoder with those pretraining heads that are there; None: there are none."""
        if not any(heads.values()):
            return None
        shared = ("activation", "norm_epsilon", "initializer_range")
        numbers = self._of_heads(config)
        own = {name: there for name, there in heads.items() if name != UNTIED}
        return self.pretrainer(
            encoder,
            **{name: numbers[name] for name in shared if name in numbers},
            # A head that is the only one is always there, and no argument.
            **(own if len(own) > 1 else {}),
            max_predictions=max_predictions,
            tied=not heads[UNTIED],
        )

    def _of_heads(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an encoder with the activation of its masked-LM head."""
        return {**config, "activation": self.head_activation or config["activation"]}

    def save(
        self,
        model: keras.Model,
        directory: str | os.PathLike,
        tokenizer: Any = None,
        overwrite: bool = False,
        max_length: int | None = None,
    ) -> None:
        """Write the folder that `from_pretrained` and `load` read.

        It holds `model.safetensors`, `config.json` and, with a tokenizer, its files.

        Args:
            model: an encoder, or a model with pretraining heads.
            directory: a folder that does not exist yet, or is empty.
            tokenizer: the tokenizer, or None.
            overwrite: replace a folder that holds such files and nothing else.
            max_length: longest text that the tokenizer's files state; None: the model's positions.

        Raises:
            ValueError: if `model` is not of the family, Hugging Face has no class for its heads, or
                the vocabulary is longer than its table.
            FileExistsError: if `directory` exists and may not be replaced.
            OSError: if it can't be written; what was there before is unchanged.
        """
        config, heads = self.config_of(model), self._heads(model)
        if tokenizer is not None and tokenizer.vocab_size > config["vocab_size"]:
            raise ValueError(
                f"tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is "
                f"{config['vocab_size']}"
            )
        if heads not in self.classes:
            raise ValueError(
                f"Hugging Face has no {self.title} with the heads {', '.join(heads)}; give one of: "
                f"{'; '.join(', '.join(each) or 'none' for each in self.classes)}"
            )
        tensors = self.tensors(self.huggingface, model)
        stated = self.written_config(config, self.classes[heads], tokenizer)
        if any(layer.name.endswith("_table") for layer in model.layers):
            stated["tie_word_embeddings"] = False
        with new_folder(directory, self.files, overwrite) as folder:
            write_model(folder, stated, tensors)
            if tokenizer is not None:
                self.tokenizer.write(folder, tokenizer, max_length or config["max_positions"])

    def config_of(self, model: keras.Model) -> dict[str, Any]:
        """Return the arguments that made `model` (an encoder, or one with pretraining heads)."""
        found = layer_arguments(model)
        config = found and {name: found[name] for name in self.config.arguments}
        if config is None or None in config.values() or "encoder_outputs" not in model.output:
            name = self.encoder.__name__
            raise ValueError(
                f"model {model.name!r} is not a {self.title}; give an encoder made by `{name}` or "
                f"a model made by `{name}_pretrainer`"
            )
        self.config.check_unstated(self.encoder, found)
        if self.huggingface.pooler is not None:
            config["pooler"] = "pooler" in {layer.name for layer in model.layers}
        return config

    def _heads(self, model: keras.Model) -> tuple[str, ...]:
        """Return the heads that a model has: the layers of a head begin with its name."""
        names = [layer.name for layer in model.layers]
        heads = self.huggingface.heads
        return tuple(head for head in heads if any(n.startswith(head + "_") for n in names))

    def written_config(
        self, config: Mapping[str, Any], architecture: str, tokenizer: Any
    ) -> dict[str, Any]:
        """Return the contents of `config.json`."""
        return self.config.write(config, architecture)

    def tensors(self, form: TensorNames, model: keras.Model) -> dict[str, np.ndarray]:
        """Return a dict of published names to float32 arrays.

        With heads the encoder's names begin with the format's `base`, as in the classes with heads.
        """
        config, paths = self.config_of(model), [weight.path for weight in model.weights]
        rows = form.rows(config, paths)
        for path in paths:
            if path not in rows:
                raise ValueError(
                    f"model {model.name!r} is not a {self.title} of that format, which has no "
                    f"place for {path}"
                )
        for head in (layer for layer in model.layers if layer.name == "masked_lm_head"):
            for name in ("activation", "norm_epsilon"):
                ours, theirs = getattr(head, name), self._of_heads(config).get(name)
                if theirs is not None and ours != theirs:
                    raise ValueError(
                        f"the masked-LM head has {name}={ours!r}; that of a published {self.title} "
                        f"whose blocks have {config['activation']!r} has {theirs!r}"
                    )
        tensors = tensors_from_weights(rows, model)
        if not self._heads(model):
            return tensors
        if any(path.endswith("_table/embeddings") for path in rows):
            tensors |= {name: tensors[form.copies[name]] for name in form.biases}
        return {
            name if name.startswith(form.outside) else form.base + name: array
            for name, array in tensors.items()
        }

    def write_tokenizer(self, folder: str, reader: Any, arguments: Mapping[str, Any]) -> None:
        """Write `tokenizer.json` and the like, of the reader and the encoder's arguments."""
        self.tokenizer.write(folder, reader.tokenizer, arguments.get("max_positions", 512))

    def read_task(self, path: str | os.PathLike, architecture: str) -> FineTuned:
        """Return the fine-tuned checkpoint in a folder, which is of a class of transformers."""
        backbone, weights_path = self.load(path), find_weights(path)
        config_path = find_one(weights_path.parent, self.configurations, "configuration")
        tensors = open_tensors(weights_path)
        return read_task(backbone, tensors, config_path, architecture, self.tasks, self.canonical)

    def write_task(
        self,
        directory: str | os.PathLike,
        task_model: Any,
        arguments: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        """Write the folder of a `TaskModel` that the Auto classes of transformers and tfnlp read.

        `arguments` are those that made the encoder, without the tokens of the task.
        """
        parts = self.class_parts(task_model, arguments)
        # A run that was pretrained here keeps only the arguments that it was given.
        arguments = {**defaults_of(self.encoder), **arguments}
        tensors = {**tensors_from_weights(parts.rows, task_model.model), **parts.heads}
        tokenizer = task_model.reader.tokenizer
        stated = self.written_config(arguments, parts.architecture, tokenizer)
        stated |= task_config(task_model.task)
        with new_folder(directory, self.files, overwrite) as folder:
            write_model(folder, stated, tensors)
            self.tokenizer.write(folder, tokenizer, arguments["max_positions"])

    def class_parts(self, task_model: Any, arguments: Mapping[str, Any]) -> ClassParts:
        """Return a fine-tuned model in the names of its class of transformers."""
        self.config.check_unstated(self.encoder, arguments)
        head = self.tasks[task_model.task.output]
        return class_parts(task_model, head, self.huggingface, arguments)

"""The record of a family: one model with all its pieces."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfnlp.cards import card_of_export
from tfnlp.configs import Config
from tfnlp.families.cards import card_of
from tfnlp.families.sentence_measures import measured_on_pairs
from tfnlp.families.sentences import embedded, pooled_of
from tfnlp.families.use_config import EvaluateConfig, ExportConfig


@dataclasses.dataclass(frozen=True)
class Fitting:
    """How a family is fine-tuned: what it reads and how a task's model is put on it.

    Attributes:
        reader: Function of a backbone to the reader of its texts, see `tfnlp.text`.
        fine_tuned: Function of (backbone, `TaskSpec`, head arguments, output arguments, dtype,
            `tfnlp.families.adaptation.Adaptation`) to the task's model; None of a family that is
            only used for features.
        packs: Whether `fine_tuned` takes `packed`, which makes a model of packed rows.
        features: Function of (backbone, names of layers) to `(features, number of layers, width,
            mix)` of a network on frozen layers.
        learning_rates: Default learning rates, the highest one and that of 12 layers x 768; see
            `tfnlp.families.defaults.learning_rate`.
        warmup: Default share of warm-up steps.
        keep_vocabulary: Function of (tokenizer, folder) that writes what `restore_tokenizer` reads.
        restore_tokenizer: Function of (folder, lowercase) to the tokenizer of a fine-tuned run.
        language_model: Whether the pretraining loss can be added to the task's (Radford et al.
            2018, equation 5).
        both_orders: Whether similarity reads both orders of the two texts.
        word_embeddings: Whether a task has embeddings of its own for whole words.
        sentence_reader: Function of a model to the reader of texts whose vectors are pooled; None:
            `reader`.
        task_files: Function without arguments to the `tfnlp.convert.heads.files.TaskFiles` of
            Hugging Face's fine-tuned checkpoints, or None.
        write_tokenizer: Function of (folder, reader, arguments of the encoder) that writes
            `tokenizer.json` and the other files of the reader's vocabulary, or None.
    """

    reader: Callable[..., Any]
    features: Callable[..., Any]
    fine_tuned: Callable[..., Any] | None = None
    packs: bool = False
    learning_rates: tuple[float, float] = (3e-4, 3e-5)
    warmup: float = 0.1
    keep_vocabulary: Callable[..., None] | None = None
    restore_tokenizer: Callable[..., Any] | None = None
    language_model: bool = False
    both_orders: bool = False
    word_embeddings: bool = False
    sentence_reader: Callable[..., Any] | None = None
    task_files: Callable[[], Any] | None = None
    write_tokenizer: Callable[..., None] | None = None


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What `predict` does with a model.

    Attributes:
        name: The sub-command of `tfnlp predict`.
        summary: One line for `--help`.
        config: The dataclass of its arguments.
        predict: Function of (pretrained, config) to a list of results.
        lines: Function of (pretrained, config) to an iterator of pieces of text to print.
        check: Function of the config that raises ValueError before anything is loaded.
        reads_stdin: Whether it needs texts, which come from standard input if none is given.
        blank_lines: Whether a blank line of standard input is a text.
    """

    name: str
    summary: str
    config: type[Config]
    predict: Callable[..., list[Any]]
    lines: Callable[..., Iterator[str]]
    check: Callable[..., None] = lambda config: None
    reads_stdin: bool = True
    blank_lines: bool = True

    def check_given(self, config: Any) -> None:
        """Raise ValueError, before anything is loaded, for arguments that can't be."""
        if self.reads_stdin and not any(config.text):
            raise ValueError("no text: give texts as arguments or on standard input")
        self.check(config)

    def stdin_texts(self, lines: Iterator[str]) -> list[str]:
        """Return the texts of standard input, a line each."""
        texts = [line.rstrip("\n") for line in lines]
        return texts if self.blank_lines else [text for text in texts if text.strip()]


@dataclasses.dataclass(frozen=True)
class Examples:
    """How prepared examples are made.

    `make` is a function of the config to `(Vocabulary, settings that decide the examples, recipe)`,
    see `tfnlp.data.shards.examples`.
    """

    summary: str  # for `--help`
    config: type[Config]
    make: Callable[..., tuple[Any, dict[str, Any], Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How `tfnlp plan` builds a training step, for the compiler alone.

    Attributes:
        lengths: Size of the family to the length of its rows in the paper.
        prefix: Of the sizes' names in `tfnlp plan`, such as "bert-".
        vocab_size: The published one.
        task: Function of (sizes, `tfnlp.plan.presets.Preset`) to the task, its model without
            values.
        batch: Function of the same to a dict of names to (shape, dtype).
        options: Arguments of `tfnlp plan` that only this family takes.
        loss_scale: Function of the preset to the trainer's `loss_scale`.
        in_encoder: Whether the vocabulary's size is an argument of the encoder.
        pretrain: Arguments of `tfnlp plan` to the options of `tfnlp pretrain` that say the same.
    """

    lengths: Mapping[str, int]
    prefix: str
    vocab_size: int
    task: Callable[..., Any]
    batch: Callable[..., dict[str, tuple]]
    options: tuple[str, ...] = ()
    loss_scale: Callable[..., float] = lambda arguments: 1.0
    in_encoder: bool = True
    pretrain: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"length": "--seq-length"}
    )


@dataclasses.dataclass(frozen=True)
class Family:
    """One model of the library, from its text to its SavedModel.

    Attributes:
        name: In commands and in `config.json`.
        title: In sentences, with an article.
        summary: One line for `tfnlp pretrain --help`.
        config: The config dataclass of pretraining; its defaults are the recipe.
        sizes: Name of each published size to the name of its constant in `tfnlp.models`.
        sections: Sections of a run's `config.json` that become arguments: the section's name to
            (name of the function in `tfnlp.models` which takes them, names left out).
        pretrainer: Name of the function in `tfnlp.models` that puts the heads on the encoder; None:
            the encoder is what a run trains and saves.
        row: Arguments whose product is how many numbers a training step keeps of a row, at least.
        prepare: Function of (config, model to go on from, strategy) to a `Preparation`.
        restore: Function of (folder, run config, dtype) to a `Pretrained` with the run's weights.
        evaluate: Function of (pretrained, evaluation config) to a `Measured`.
        evaluation: Arguments of `tfnlp evaluate` that the family takes, with their defaults.
        needs: Arguments of `tfnlp evaluate` without which nothing can be measured, "a|b" for one
            of two.
        export: Function of (pretrained, export config) to a dict of what was written to its path.
        exports: Arguments of `tfnlp export` that the family takes.
        vectors: Function of a pretrained model to the function of strings that its exported
            module would be.
        sentences: Function of (pretrained, `tfnlp.families.sentences.Pooled`) to a function of
            strings to float32 `[N, D]`.
        recognise: Function of (folder, file names, Hugging Face's `model_type` or None) to whether
            a checkpoint there is this family's; None if it reads nobody's checkpoints.
        read: Function of (path, dtype) to the `Pretrained` of somebody's checkpoint.
        checkpoints: What `recognise` looks for, in words.
        recognise_file: Function of a path to whether it is a file that `read` takes.
        finish: Function of (pretrained, folder) called when a run's weights are loaded.
        start: Function of the config to the model to go on from, or None.
        settle: Function of (config, model to go on from) to the config with defaults that depend
            on that model.
        saved: Function of (path) to a `Pretrained` around a module that was exported.
        saved_layout: What `tfnlp.hub.saved_kind` says of such modules.
        fitting: How it is fine-tuned, or None.
        prediction: What `tfnlp predict` does with it.
        examples: How `tfnlp examples` writes its batches, or None.
        plan: How `tfnlp plan` builds its training step, or None.
    """

    name: str
    title: str
    summary: str
    config: type[Config]
    sizes: Mapping[str, str]
    sections: Mapping[str, tuple[Callable[[], Callable[..., Any]], frozenset[str]]]
    row: tuple[str, ...]
    prepare: Callable[..., Any]
    restore: Callable[..., Any]
    evaluate: Callable[..., Any]
    evaluation: Mapping[str, Any]
    export: Callable[..., dict[str, str]]
    exports: tuple[str, ...]
    vectors: Callable[..., Any]
    sentences: Callable[..., Any]
    prediction: Prediction
    pretrainer: str | None = None
    recognise: Callable[..., bool] | None = None
    read: Callable[..., Any] | None = None
    checkpoints: str = ""
    recognise_file: Callable[[str], bool] | None = None
    finish: Callable[..., None] | None = None
    needs: tuple[str, ...] = ("text",)
    start: Callable[..., Any] = lambda config: None
    settle: Callable[..., Any] | None = None
    saved: Callable[..., Any] | None = None
    saved_layout: str = ""
    fitting: Fitting | None = None
    examples: Examples | None = None
    plan: Plan | None = None

    def encoder_function(self) -> Callable[..., Any]:
        """Return the function of keywords that makes the encoder."""
        from tfnlp import models

        return getattr(models, self.sections["arguments"][0])

    def build(
        self, arguments: dict[str, Any], heads: dict[str, Any], dtype: str | None
    ) -> tuple[Any, Any]:
        """Return encoder and pretrainer with new weights; None for a pretrainer that is none."""
        from tfnlp import models

        encoder = self.encoder_function()(**{**arguments, "dtype": dtype})
        if self.pretrainer is None:
            return encoder, None
        return encoder, getattr(models, self.pretrainer)(encoder, **heads)

    def exported(self, loaded: Any, directory: str, settings: dict[str, Any]) -> dict[str, str]:
        """Write a model of this family with the settings that it takes."""
        config = ExportConfig.make(output=str(directory), **settings)
        self.check_takes(config, (*self.exports, "output", "overwrite"), "exports", loaded.path)
        self.check_weights(loaded)
        with card_of_export(card_of(loaded)):
            return self.export(loaded, config)

    def measured(self, loaded: Any, text: Any, settings: dict[str, Any]) -> Any:
        """Measure a model of this family with the settings that it takes, filled with defaults."""
        self.check_weights(loaded)
        given = settings if text is None else {**settings, "text": text}
        config = EvaluateConfig.make(**given)
        if config.pairs is not None:
            return measured_on_pairs(loaded, config)
        self.check_takes(config, (*self.evaluation, "layout"), "evaluation", loaded.path)
        defaults = {
            name: value
            for name, value in self.evaluation.items()
            if getattr(config, name) is None and value is not None
        }
        for name in self.needs:
            if not any(getattr(config, one) for one in name.split("|")):
                asked = f"`{name.replace('|', '` or `')}`"
                raise ValueError(f"{loaded.path} is {self.title}; give {asked} to measure it on")
        return self.evaluate(loaded, config.replace(**defaults))

    def predicted(self, loaded: Any, texts: list[str], settings: dict[str, Any]) -> list[Any]:
        """Return the predictions of a model of this family."""
        self.check_weights(loaded)
        prediction = self.prediction
        config = prediction.config.make(model=loaded, text=list(texts), **settings)
        prediction.check_given(config)
        return prediction.predict(loaded, config)

    def embedded(self, loaded: Any, texts: list[str], settings: dict[str, Any]) -> Any:
        """Return the vectors `[N, D]` of N texts, see `Pretrained.embed`."""
        settings = dict(settings)
        progress = settings.pop("progress", False)
        return embedded(self.sentence_function(loaded, settings), texts, progress)

    def sentence_function(self, loaded: Any, settings: dict[str, Any]) -> Callable[..., Any]:
        """Return the function of strings to vectors `[N, D]`, traced once for the same settings."""
        pooled = pooled_of(loaded, **settings)
        if pooled not in loaded.sentence_functions:
            loaded.sentence_functions[pooled] = self.sentences(loaded, pooled)
        return loaded.sentence_functions[pooled]

    def check_weights(self, loaded: Any) -> None:
        """Refuse an exported module where the model itself is needed."""
        if loaded.saved:
            raise ValueError(
                f"{loaded.path} is an exported module: it can be called and fine-tuned; give the "
                "run or checkpoint that it was made from"
            )

    def check_takes(
        self, config: Config, names: tuple[str, ...], kind: str, path: str | None
    ) -> None:
        """Refuse arguments that only other families take."""
        from tfnlp.families import FAMILIES

        for name in sorted(config.given):
            value = getattr(config, name)
            if name not in names and value is not None and value is not False:
                families = reversed(FAMILIES.values())
                others = dict.fromkeys(f.title for f in families if name in getattr(f, kind))
                whose = " or ".join(others) or "a fine-tuned model"
                raise ValueError(f"`{name}` is for {whose}; {path or 'the model'} is {self.title}")


@dataclasses.dataclass(frozen=True)
class Measured:
    """What an evaluation found."""

    results: dict[str, Any]  # floats and counts by name
    text: str  # the same for people to read

"""The record of a family: one model with all its pieces.

Comments on functions say what they take, in parentheses, and what they return.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfnlp.cards import card_of_export
from tfnlp.families.cards import card_of
from tfnlp.families.sentence_measures import measured_on_pairs
from tfnlp.families.sentences import embedded, pooled_of
from tfnlp.settings.options import Settings
from tfnlp.settings.use import EvaluateSettings, ExportSettings


@dataclasses.dataclass(frozen=True)
class Fitting:
    """How a family is fine-tuned: what it reads and how a task's model is put on it."""

    reader: Callable[..., Any]  # backbone to the reader of its texts, see `tfnlp.text`
    # (backbone, names of layers) to `(features, number of layers, width, mix)` of a network on
    # frozen layers.
    features: Callable[..., Any]
    # (backbone, `TaskSpec`, head arguments, output arguments, dtype,
    # `tfnlp.families.adaptation.Adaptation`) to the task's model; None of a family that is only
    # used for features.
    fine_tuned: Callable[..., Any] | None = None
    packs: bool = False  # whether `fine_tuned` takes `packed`, for a model of packed rows
    # The highest, and that of 12 layers x 768: see `tfnlp.families.defaults.learning_rate`.
    learning_rates: tuple[float, float] = (3e-4, 3e-5)
    warmup: float = 0.1  # share of the steps
    keep_vocabulary: Callable[..., None] | None = None  # (tokenizer, folder)
    restore_tokenizer: Callable[..., Any] | None = None  # (folder, lowercase)
    # Whether the pretraining loss can be added to the task's (Radford et al. 2018, equation 5).
    language_model: bool = False
    both_orders: bool = False  # similarity reads both orders of the two texts
    word_embeddings: bool = False  # a task has embeddings of its own for whole words
    sentence_reader: Callable[..., Any] | None = None  # of texts for their vectors; None: `reader`
    # The `tfnlp.checkpoints.heads.TaskFiles` of Hugging Face's fine-tuned checkpoints.
    task_files: Callable[[], Any] | None = None
    # (folder, reader, arguments of the encoder): writes `tokenizer.json` and the like.
    write_tokenizer: Callable[..., None] | None = None


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What `predict` does with a model."""

    name: str  # the sub-command of `tfnlp predict`
    summary: str  # for `--help`
    config: type[Settings]
    predict: Callable[..., list[Any]]  # of (pretrained, config)
    lines: Callable[..., Iterator[str]]  # the same, to pieces of text to print
    check: Callable[..., None] = lambda config: None  # before anything is loaded
    reads_stdin: bool = True  # it needs texts, from standard input if none is given
    blank_lines: bool = True  # a blank line of standard input is a text

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
    config: type[Settings]
    make: Callable[..., tuple[Any, dict[str, Any], Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How `tfnlp plan` builds a training step, for the compiler alone."""

    lengths: Mapping[str, int]  # size of the family to the length of its rows in the paper
    prefix: str  # of the sizes' names in `tfnlp plan`, such as "bert-"
    vocab_size: int  # the published one
    # (sizes, `tfnlp.plan.presets.Preset`) to the task, its model without values.
    task: Callable[..., Any]
    batch: Callable[..., dict[str, tuple]]  # the same to names to (shape, dtype)
    options: tuple[str, ...] = ()  # arguments of `tfnlp plan` that only this family takes
    loss_scale: Callable[..., float] = lambda arguments: 1.0  # of the preset
    in_encoder: bool = True  # the vocabulary's size is an argument of the encoder
    # Arguments of `tfnlp plan` to the options of `tfnlp pretrain` that say the same.
    pretrain: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"length": "--seq-length"}
    )


@dataclasses.dataclass(frozen=True)
class Family:
    """One model of the library, from its text to its SavedModel."""

    name: str  # in commands and in `config.json`
    title: str  # in sentences, with an article
    config: type[Settings]  # of pretraining; its defaults are the recipe
    sizes: Mapping[str, str]  # published ones to the names of their constants in `tfnlp.models`
    # Sections of a run's `config.json` that become arguments, to the name of the function in
    # `tfnlp.models` which takes them and the names left out.
    sections: Mapping[str, tuple[str, frozenset[str]]]
    # Arguments whose product is how many numbers a training step keeps of a row, at least.
    row: tuple[str, ...]
    prepare: Callable[..., Any]  # (config, model to go on from, strategy) to a `Preparation`
    restore: Callable[..., Any]  # (folder, run config, dtype) to a `Pretrained`
    evaluate: Callable[..., Any]  # (pretrained, evaluation config) to a `Measured`
    evaluation: Mapping[str, Any]  # arguments of `tfnlp evaluate`, with their defaults
    export: Callable[..., dict[str, str]]  # (pretrained, export config) to what it wrote, and where
    exports: tuple[str, ...]  # arguments of `tfnlp export`
    vectors: Callable[..., Any]  # pretrained to the function that its module would be
    # (pretrained, `tfnlp.families.sentences.Pooled`) to a function of strings to float32 `[N, D]`.
    sentences: Callable[..., Any]
    prediction: Prediction
    # Name of the function in `tfnlp.models` that puts the heads on the encoder; None: the encoder
    # is what a run trains and saves.
    pretrainer: str | None = None
    # (folder, file names, Hugging Face's `model_type` or None) to whether a checkpoint there is
    # this family's; None if it reads nobody's checkpoints.
    recognise: Callable[..., bool] | None = None
    read: Callable[..., Any] | None = None  # (path, dtype) to somebody's checkpoint
    checkpoints: str = ""  # what `recognise` looks for, in words
    recognise_file: Callable[[str], bool] | None = None  # whether `read` takes a file
    finish: Callable[..., None] | None = None  # (pretrained, folder), when a run is loaded
    needs: tuple[str, ...] = ("text",)  # arguments of an evaluation, "a|b" for one of two
    start: Callable[..., Any] = lambda config: None  # the model to go on from
    # (config, model to go on from) to the config with defaults that depend on that model.
    settle: Callable[..., Any] | None = None
    saved: Callable[..., Any] | None = None  # path to a `Pretrained` around exported modules
    saved_layout: str = ""  # what `tfnlp.hub.saved_kind` says of these
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
        config = ExportSettings.make(output=str(directory), **settings)
        self.check_takes(config, (*self.exports, "output", "overwrite"), "exports", loaded.path)
        self.check_weights(loaded)
        with card_of_export(card_of(loaded)):
            return self.export(loaded, config)

    def measured(self, loaded: Any, text: Any, settings: dict[str, Any]) -> Any:
        """Measure a model of this family with the settings that it takes, filled with defaults."""
        self.check_weights(loaded)
        given = settings if text is None else {**settings, "text": text}
        config = EvaluateSettings.make(**given)
        if config.pairs is not None:
            return measured_on_pairs(loaded, config)
        self.check_takes(config, (*self.evaluation, "layout"), "evaluation", loaded.path)
        defaults = {
            name: value
            for name, value in self.evaluation.items()
            if getattr(config, name) is None and value is not None
        }
        for name in self.needs:
            if all(getattr(config, one) is None for one in name.split("|")):
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
        self, config: Settings, names: tuple[str, ...], kind: str, path: str | None
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

"""A family: one model with all its pieces."""

from __future__ import annotations

import abc
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from keras import Model

from tfnlp.cards import card_of
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.gpt_tasks import GPTFiles
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.families.preparation import Preparation
from tfnlp.families.sentences import Embedding, embedded, measured_on_pairs, sentence_settings
from tfnlp.files import same_folder
from tfnlp.formats import export
from tfnlp.published import push
from tfnlp.settings.options import Settings
from tfnlp.settings.tables import FAMILIES as SETTINGS
from tfnlp.settings.use import EvaluationSettings, PairsEvaluation, PredictionSettings

Loader = Callable[..., Pretrained]  # see `tfnlp.families.recognition.load_pretrained`
# Arguments of models that a run does not record: they change no weight.
_UNRECORDED = frozenset({"name", "dtype", "packed", "encoder", "model"})


class Family(abc.ABC):
    """One model of the library, from its text to its SavedModel.

    Attributes:
        name: In commands and in `config.json`.
        title: In sentences, with an article.
        sizes: Published sizes to the arguments of the encoder.
        row: Settings whose product is how many numbers a training step keeps of a row, at least.
        encoder: The function of `tfnlp.models` that makes the encoder.
        pretrainer: The one that puts the heads on it; None: a run trains and saves the encoder.
        unrecorded_heads: Arguments of the pretrainer that follow from other settings of a run.
        evaluation: What `evaluate` takes.
        prediction: What `predict` takes.
        files: How its models are read and written in Hugging Face's format; None: they are not.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sizes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    row: ClassVar[tuple[str, ...]]
    encoder: ClassVar[Callable[..., Model]]
    pretrainer: ClassVar[Callable[..., Model] | None] = None
    unrecorded_heads: ClassVar[frozenset[str]] = frozenset()
    evaluation: ClassVar[type[EvaluationSettings]]
    prediction: ClassVar[type[PredictionSettings]]
    files: ClassVar[EncoderFiles | GPTFiles | None] = None

    # Training.

    @property
    def settings(self) -> type[Settings]:
        """The settings of pretraining; their defaults are the recipe."""
        return SETTINGS[self.name][0]

    def sections(self) -> dict[str, tuple[Callable[..., Any], frozenset[str]]]:
        """Return the sections of a run's `config.json` that become arguments.

        Each with the function that takes them and the names that are left out.
        """
        found = {"arguments": (self.encoder, _UNRECORDED)}
        if self.pretrainer is not None:
            left_out = _UNRECORDED | self.unrecorded_heads
            if set(inspect.signature(self.pretrainer).parameters) - left_out:
                found["heads"] = (self.pretrainer, left_out)
        return found

    def build(
        self, arguments: dict[str, Any], heads: dict[str, Any], dtype: str | None
    ) -> tuple[Model, Model | None]:
        """Return encoder and pretrainer with new weights; None for a pretrainer that is none."""
        encoder = self.encoder(**{**arguments, "dtype": dtype})
        if self.pretrainer is None:
            return encoder, None
        return encoder, self.pretrainer(encoder, **heads)

    def start(self, settings: Any, load: Loader) -> Pretrained | None:
        """Return the model that training begins with, None for new weights."""
        return None

    def begin(self, settings: Any, load: Loader) -> tuple[Any, Pretrained | None]:
        """Return the settings with all defaults, and the model that training begins with."""
        before = self.start(settings, load)
        return self.settle(settings, before), before

    def loaded_start(
        self,
        settings: Any,
        load: Loader,
        fixed: tuple[str, ...],
        vocabulary: tuple[str, ...] = (),
    ) -> Pretrained | None:
        """Return the model of this family that `settings.start` names, or None.

        The settings `fixed` follow from that model, and those of `vocabulary` from its vocabulary.
        """
        if settings.start is None:
            return None
        if same_folder(settings.start, settings.output):
            raise ValueError(
                f"`start` and `output` are the same folder, {settings.output}; give a new "
                "`output`, or leave `start` out to resume the run"
            )
        settings.refuse(fixed, "can't be changed with `start`")
        settings.refuse(vocabulary, "can't be given with `start`, which has a vocabulary")
        return load(settings.start, family=self)

    def settle(self, settings: Any, before: Pretrained | None) -> Any:
        """Return the settings with defaults that depend on the model to go on from."""
        return settings

    @abc.abstractmethod
    def prepare(self, settings: Any, before: Pretrained | None, strategy: Any) -> Preparation:
        """Return what a run makes of its text.

        `before` is what `start` returned, `strategy` a `tf.distribute` strategy or `JaxDevices`.
        """

    def was_packed(self, loaded: Pretrained) -> bool:
        """Return whether a model is of a run with the setting `pack`."""
        return bool(loaded.run) and bool(loaded.run["training"].get("pack"))

    def packed_pretrainer(self, loaded: Pretrained) -> Model:
        """Return the pretrainer of a run that reads such rows, with copies of the weights."""
        arguments = {**loaded.run["arguments"], "packed": True}
        _, pretrainer = self.build(arguments, loaded.run.get("heads") or {}, None)
        pretrainer.set_weights(loaded.pretrainer.get_weights())
        return pretrainer

    # Loading.

    @abc.abstractmethod
    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        """Return the model of a run with new weights, from its folder and its `config.json`."""

    def finish(self, loaded: Pretrained, path: str) -> None:  # noqa: B027
        """Make what is computed from a run's weights, when they are restored."""

    # Use.

    @abc.abstractmethod
    def evaluate(self, loaded: Pretrained, settings: Any) -> Measured:
        """Measure a model; the settings are an instance of `self.evaluation`."""

    @abc.abstractmethod
    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], Any]:
        """Return the function of strings that the exported module would be."""

    @abc.abstractmethod
    def sentences(self, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
        """Return the function of strings to one vector each, float32 `[N, D]`."""

    @abc.abstractmethod
    def predict(self, loaded: Pretrained, settings: Any) -> list[Any]:
        """Return the predictions for `settings.text`, settings of `self.prediction`."""

    @abc.abstractmethod
    def lines(self, loaded: Pretrained, settings: Any) -> Iterator[str]:
        """Yield what `predict` returns as pieces of text to print."""

    def check_prediction(self, settings: Any) -> None:
        """Check the settings of a prediction."""
        settings.check_texts()

    # What is the same for all.

    @property
    def short_title(self) -> str:
        """The title without its article."""
        return self.title.split(" ", 1)[1]

    def exported(
        self, loaded: Pretrained, directory: str, settings: dict[str, Any]
    ) -> dict[str, str]:
        """Write a model of this family: see `tfnlp.formats.export`."""
        self.check_weights(loaded)
        return export(loaded, directory, settings, card_of(loaded))

    def pushed(self, loaded: Pretrained, name: str, private: bool, settings: dict[str, Any]) -> str:
        """Upload a model of this family: see `tfnlp.published.push`."""
        return push(loaded, name, private, settings)

    def measured(self, loaded: Pretrained, text: Any, settings: dict[str, Any]) -> Measured:
        """Measure a model of this family with the settings that it takes."""
        self.check_weights(loaded)
        given = settings if text is None else {**settings, "text": text}
        if given.get("pairs") is not None:
            results = measured_on_pairs(loaded, PairsEvaluation.make(**given))
            shown = [f"{n:28s}{value:.4f}" for n, value in results.items() if n != "pairs"]
            return Measured(results, "\n".join(shown))
        return self.evaluate(loaded, self.evaluation.make(**given))

    def predicted(
        self, loaded: Pretrained, texts: list[str] | None, settings: dict[str, Any]
    ) -> list[Any]:
        """Return the predictions of a model of this family; of no texts there are none."""
        self.check_weights(loaded)
        made = self.prediction.make(model=loaded, text=texts or [], **settings)
        if made.reads_stdin and texts == []:
            return []
        self.check_prediction(made)
        return self.predict(loaded, made)

    def embedded(
        self, loaded: Pretrained, texts: list[str], settings: dict[str, Any]
    ) -> np.ndarray:
        """Return the vectors `[N, D]` of N texts, see `Pretrained.embed`."""
        settings = dict(settings)
        progress = settings.pop("progress", False)
        return embedded(self.sentence_function(loaded, settings), texts, progress)

    def sentence_function(self, loaded: Pretrained, settings: dict[str, Any]) -> Embedding:
        """Return the function of strings to vectors `[N, D]`, traced once for the same settings."""
        found = sentence_settings(loaded, **settings)
        if found not in loaded.sentence_functions:
            loaded.sentence_functions[found] = self.sentences(loaded, found)
        return loaded.sentence_functions[found]

    def check_weights(self, loaded: Pretrained) -> None:
        """Refuse an exported module where the model itself is needed."""
        if loaded.saved:
            raise ValueError(
                f"{loaded.path} is an exported module: it can be called and fine-tuned; give the "
                "run or checkpoint that it was made from"
            )


@dataclasses.dataclass(frozen=True)
class Measured:
    """What an evaluation found."""

    results: dict[str, Any]  # floats and counts by name
    text: str  # the same for people to read


class Planned(abc.ABC):
    """A family whose training step `tfnlp plan` builds for the compiler alone.

    Attributes:
        plan_lengths: Sizes to the length of rows in the paper.
        plan_vocab_size: The published one.
        plan_options: Settings of `tfnlp plan` that only some families take.
        plan_flags: Settings of `tfnlp plan` to the options of `tfnlp pretrain` that say the same.
        plan_in_encoder: Whether the size of the vocabulary is an argument of the encoder.
    """

    plan_lengths: Mapping[str, int]
    plan_vocab_size: ClassVar[int]
    plan_options: ClassVar[tuple[str, ...]] = ()
    plan_flags: ClassVar[Mapping[str, str]] = {"length": "--seq-length"}
    plan_in_encoder: ClassVar[bool] = True

    @abc.abstractmethod
    def planned(self, sizes: dict[str, Any], preset: Any) -> Any:
        """Return what is learnt, its model without values.

        `sizes` are arguments of the encoder, `preset` is a `tfnlp.plan.presets.Preset`.
        """

    @abc.abstractmethod
    def planned_batch(self, preset: Any) -> dict[str, tuple]:
        """Return the shapes and dtypes of a batch by name."""

    def planned_loss_scale(self, preset: Any) -> float:
        """Return by what the loss is multiplied, see `tfnlp.training.Trainer`."""
        return 1.0

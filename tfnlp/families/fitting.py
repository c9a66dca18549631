"""Families that tasks are put on: BERT and the encoders after it, GPT and ELMo."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.families.adaptation import Adaptation
from tfnlp.families.family import Family
from tfnlp.families.sentences import network_of_texts, settings_to_save
from tfnlp.families.sizes import width
from tfnlp.families.vocabularies import Subwords
from tfnlp.hub.modules.frozen_features import EncoderFeatures

WHOLE = Adaptation()  # all weights are trained
Features = tuple[Any, int, int, bool]  # features, number of layers, width, whether they are mixed


class Tunable(Family):
    """A family that is fine-tuned, or whose layers tasks read.

    Attributes:
        trains: Whether a task trains the model itself, too.
        packs: Whether it can be trained on packed rows.
        learning_rates: The highest, and that of 12 layers x 768: see `learning_rate`.
        warmup: Share of the steps.
        language_model: Whether the pretraining loss can be added to the task's (Radford et al.
            2018, equation 5).
        both_orders: Whether similarity reads both orders of the two texts.
        word_embeddings: Whether a task has embeddings of its own for whole words.
        subwords: Its vocabulary, of a model that reads pieces of words.
    """

    trains: ClassVar[bool] = True
    packs: ClassVar[bool] = False
    learning_rates: ClassVar[tuple[float, float]] = (3e-4, 3e-5)
    warmup: ClassVar[float] = 0.1
    language_model: ClassVar[bool] = False
    both_orders: ClassVar[bool] = False
    word_embeddings: ClassVar[bool] = False
    subwords: ClassVar[Subwords | None] = None

    @abc.abstractmethod
    def reader(self, loaded: Pretrained) -> Any:
        """Return what reads the texts of tasks, see `tfnlp.text.task_readers`."""

    def sentence_reader(self, loaded: Pretrained) -> Any:
        """Return what reads texts for their vectors."""
        return self.reader(loaded)

    def sentence_network(
        self, loaded: Pretrained, settings: dict[str, Any]
    ) -> tuple[Model, Any, int]:
        """Return the model of tokens to one vector, the reader, and the largest length of a text.

        `settings` are those of `Pretrained.embed`.
        """
        return network_of_texts(loaded, self.sentence_reader(loaded), settings)

    def sentence_settings(self, loaded: Pretrained) -> SentenceSettings:
        """Return what a folder of sentence-transformers says of a model: what `embed` does."""
        return settings_to_save(loaded)

    @abc.abstractmethod
    def features(self, loaded: Pretrained, choice: str) -> Features:
        """Return layers of the frozen model, one of `tfnlp.models.FEATURES`."""

    def fine_tuned(
        self,
        loaded: Pretrained,
        spec: Any,
        head: dict[str, Any],
        outputs: dict[str, Any],
        dtype: str | None,
        adaptation: Adaptation = WHOLE,
        packed: bool = False,
    ) -> Model:
        """Return the model of a task on a whole model.

        Args:
            loaded: The model.
            spec: A `TaskSpec`.
            head: Arguments of the head, such as "dropout".
            outputs: Arguments of its outputs, such as "num_classes".
            dtype: A Keras dtype policy.
            adaptation: Which weights are trained.
            packed: Whether rows hold several examples.
        """
        raise NotImplementedError(f"{self.title} is not trained, see `trains`")

    def keep_vocabulary(self, tokenizer: Any, folder: str) -> None:
        """Write the tokens of a tokenizer into a run's folder."""

    def restore_tokenizer(self, folder: str, lowercase: bool | None) -> Any:
        """Return the tokenizer of a run's folder; None of a family that has none."""
        return None


def layers_of(loaded: Pretrained, encoder: Model, choice: str) -> Features:
    """Return layers of an encoder of tokens, see `Tunable.features`."""
    if choice == models.WORDS_ALONE:
        raise ValueError(
            f"`features` {choice} is of a model that reads whole words, an ELMo; {loaded.path} "
            "reads pieces of words"
        )
    if "embedding_output" not in encoder.output or "encoder_outputs" not in encoder.output:
        raise ValueError(f"{loaded.path} does not give its layers, which `features` takes")
    count = len(encoder.output["encoder_outputs"])
    layers, mix = models.select_layers(choice, count, embeddings=False)
    return EncoderFeatures(encoder, layers), len(layers), width(loaded), mix

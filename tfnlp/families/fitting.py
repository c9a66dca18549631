"""Families that tasks are put on, and which weights of a model a fine-tuning run trains."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.families.family import Family
from tfnlp.families.sentences import network, read_length, sentence_settings, text_reader
from tfnlp.families.sizes import width
from tfnlp.families.vocabularies import Subwords
from tfnlp.hub.modules.frozen_features import EncoderFeatures
from tfnlp.layers import LowRank
from tfnlp.models import add_low_rank, merge_low_rank, train_weights
from tfnlp.models.low_rank import train_everything

SECTION = "adaptation"  # of a run's config.json; runs that train all weights have none


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """What is trained of a pretrained model; the layers of the task always are."""

    low_rank: Mapping[str, Any] | None = None  # the arguments of `tfnlp.layers.LowRank`
    trained: str | None = None  # a pattern, see `tfnlp.models.train_weights`

    def __bool__(self) -> bool:
        return self.low_rank is not None or self.trained is not None

    def config(self) -> dict[str, Any]:
        """Return the section of `config.json`."""
        return {
            "low_rank": None if self.low_rank is None else dict(self.low_rank),
            "trained": self.trained,
        }

    def apply(self, encoder: keras.Model) -> None:
        """Change an encoder in place."""
        if self.low_rank is not None:
            add_low_rank(encoder, LowRank(**self.low_rank))
        if self.trained is not None:
            try:
                train_weights(encoder, self.trained)
            except ValueError as error:
                raise ValueError(f"`train_weights`: {error}") from error

    def finish(self, model: keras.Model) -> None:
        """Make a trained model an ordinary one: updates are merged, all weights trained again."""
        merge_low_rank(model)
        if self:
            train_everything(model)


def adaptation_of(run: Mapping[str, Any]) -> Adaptation:
    """Return what a run's `config.json` says."""
    section = run.get(SECTION)
    if section is None:
        return Adaptation()
    try:
        found = Adaptation(section["low_rank"], section["trained"])
        if not isinstance(found.trained, str | None):
            raise TypeError(f"trained is {found.trained!r:.60}, not a string")
        if found.low_rank is not None:
            LowRank(**found.low_rank)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the section {SECTION!r} of config.json makes no sense: {error}"
        ) from error
    return found


def adaptation_asked(config: Any) -> Adaptation:
    """Return what a `FinetuneSettings` asks for."""
    if config.lora is None:
        why = "is for low-rank updates; give `lora`, their rank, too"
        config.refuse(("lora_matrices", "lora_alpha", "lora_dropout"), why)
        return Adaptation(None, config.train_weights)
    low_rank = LowRank(
        config.lora, tuple(config.lora_matrices), config.lora_alpha, config.lora_dropout
    )
    return Adaptation(low_rank.config(), config.train_weights)


def check_adaptation(adaptation: Adaptation, loaded: Any, features: str | None) -> None:
    """Check that a model can be trained in part."""
    if not adaptation:
        return
    given = "train_weights" if adaptation.low_rank is None else "lora"
    if features is not None:
        raise ValueError(
            f"`{given}` is for models that are trained themselves; with `features` all of their "
            "weights are frozen; leave one of them out"
        )
    if loaded.saved:
        raise ValueError(
            f"`{given}` needs a run or a checkpoint; {loaded.path} is an exported module, whose "
            "layers are not known"
        )
    rank, size = (adaptation.low_rank or {}).get("rank", 1), width(loaded)
    if size is not None and rank > size:
        raise ValueError(
            f"`lora` {rank:,} is no low rank: the matrices of {loaded.path} have {size} rows or "
            "columns"
        )


WHOLE = Adaptation()  # all weights are trained
Features = tuple[Any, int, int, bool]  # features, number of layers, width, whether they are mixed


class Tunable(Family):
    """A family that is fine-tuned, or whose layers tasks read: BERT and later encoders, GPT, ELMo.

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
    ) -> tuple[keras.Model, Any, int]:
        """Return the model of tokens to one vector, the reader, and the largest length of a text.

        `settings` are those of `Pretrained.embed`.
        """
        how, reader = sentence_settings(loaded, **settings), self.sentence_reader(loaded)
        length = read_length(loaded, how)
        return (
            network(loaded.encoder, loaded, reader, how, length),
            text_reader(reader, how),
            length,
        )

    def sentence_settings(self, loaded: Pretrained) -> SentenceSettings:
        """Return what a folder of sentence-transformers says of a model: what `embed` does."""
        how = sentence_settings(loaded)
        return dataclasses.replace(how, max_length=read_length(loaded, how))

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
    ) -> keras.Model:
        """Return the model of a task, a `tfnlp.tasks.HeadTask`, on a whole model.

        `head` are arguments of the head, such as "dropout", `outputs` those of its outputs, such as
        "num_classes"; with `packed` rows hold several examples.
        """
        raise NotImplementedError(f"{self.title} is not trained, see `trains`")

    def keep_vocabulary(self, tokenizer: Any, folder: str) -> None:
        """Write the tokens of a tokenizer into a run's folder."""
        if self.subwords is not None:
            self.subwords.keep(tokenizer, folder)

    def restore_tokenizer(self, folder: str, lowercase: bool | None) -> Any:
        """Return the tokenizer of a run's folder; None of a family that has none."""
        return None if self.subwords is None else self.subwords.restore(folder, lowercase)


def layers_of(loaded: Pretrained, encoder: keras.Model, choice: str) -> Features:
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

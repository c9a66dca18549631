"""DistilBERT (Sanh et al. 2019) as a family, and what it learns from its teacher."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from typing import Any

import keras
from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.encoders import DISTILBERT_FILES
from tfnlp.checkpoints.tokenizers.tokenizer_json import plain_tokenizer
from tfnlp.families.encoder import Encoder
from tfnlp.families.family import Loader
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.preparation import Preparation
from tfnlp.families.sizes import (
    check_length,
    sizes_of_settings,
    transformer_sizes,
    with_initializer_range,
)
from tfnlp.files import same_folder
from tfnlp.objectives import Distillation
from tfnlp.settings.encoders import DistilBertSettings
from tfnlp.settings.training import CHANGED_SIZES
from tfnlp.text import WordPieceTokenizer

# Settings that only say what is learnt from a teacher.
_OF_TEACHER = (
    "distillation_weight", "masked_lm_weight", "cosine_weight", "temperature", "soft_targets",
    "new_weights",
)  # fmt: skip


class DistilBert(Encoder):
    """Masked LM, with or without a teacher."""

    name, title = "distilbert", "a DistilBERT"
    sizes = {
        "tiny": models.DISTILBERT_TINY,
        "mini": models.DISTILBERT_MINI,
        "small": models.DISTILBERT_SMALL,
        "medium": models.DISTILBERT_MEDIUM,
        "base": models.DISTILBERT_BASE,
    }
    encoder = staticmethod(models.distilbert)
    pretrainer = staticmethod(models.distilbert_pretrainer)
    files = DISTILBERT_FILES
    task_hidden, task_drop_first = "relu", False
    plan_vocab_size = 30522

    def begin(
        self, settings: DistilBertSettings, load: Loader
    ) -> tuple[DistilBertSettings, Pretrained | None]:
        """Return the settings with the loaded teacher, and the model that training begins with.

        That is the DistilBERT to go on from, or the teacher.
        """
        _check_teacher(settings)
        if settings.teacher is None:
            return super().begin(settings, load)
        teacher = _load_teacher(settings, load)
        before = teacher if settings.start is None else self.start(settings, load)
        return self.settle(settings.replace(teacher=teacher), before), before

    def settle(self, settings: DistilBertSettings, before: Pretrained | None) -> DistilBertSettings:
        """Return the settings with the sizes of the student, unless training goes on from one."""
        if settings.start is not None:
            return super().settle(settings, before)
        published = self.sizes[settings.size]
        if settings.teacher is None:
            settings = super().settle(settings, before)
            sizes = transformer_sizes(settings, published)
        else:
            given = published if "size" in settings.given else {}
            sizes = _student_sizes(settings, given, before)
            settings = with_initializer_range(settings, sizes["hidden_size"])
        return settings.replace(**{name: sizes[name] for name in CHANGED_SIZES})

    def encoder_sizes(self, settings: Any, before: Pretrained | None) -> dict[str, Any]:
        sizes = {name: getattr(settings, name) for name in CHANGED_SIZES}  # see `settle`
        if settings.start is not None:
            return sizes_of_settings(settings, sizes, before.config)
        if settings.teacher is None:
            return sizes_of_settings(settings, sizes, None)
        theirs, most = before.config, before.config["max_positions"]
        settings = settings.replace(max_positions=settings.max_positions or most)
        found = sizes_of_settings(settings, sizes, None)
        same = ("vocab_size", "activation", "norm_epsilon")
        return {**found, **{name: theirs[name] for name in same if name in theirs}}

    def heads(self, settings: Any, before: Pretrained | None, batches: Any) -> dict[str, Any]:
        # A student's new weights are its own, whatever its teacher began with.
        own = {"initializer_range": settings.initializer_range}
        return {**self.head_arguments(settings, before), **own}

    def prepare(self, settings: Any, before: Pretrained | None, strategy: Any) -> Preparation:
        made = MaskedText if settings.teacher is None else _TaughtText
        return made(self, settings, before)


class _TaughtText(MaskedText):
    """Masked windows, and the losses against a teacher."""

    def __init__(self, family: Encoder, settings: DistilBertSettings, before: Pretrained) -> None:
        self.teacher = teacher = settings.teacher
        if settings.pack:
            raise ValueError(
                "`pack` can't be given with `teacher`, which reads rows of one document"
            )
        if settings.start is not None:
            mine, theirs = before.tokenizer, teacher.tokenizer
            if (mine.vocabulary, mine.lowercase) != (theirs.vocabulary, theirs.lowercase):
                raise ValueError(
                    f"`teacher` {teacher.path} has another vocabulary than `start` {settings.start}"
                )
        check_length(settings, teacher.config["max_positions"])
        super().__init__(family, settings, before)
        self.training["teacher_crc32"] = weights_checksum(teacher.pretrainer)

    def objective(self, model: Model) -> Distillation:
        """Return the losses; called in the strategy's scope, which the teacher's weights need."""
        settings = self.settings
        copy = keras.models.clone_model(self.teacher.pretrainer)
        copy.set_weights(self.teacher.pretrainer.get_weights())
        return Distillation(
            model,
            copy,
            distillation=settings.distillation_weight,
            masked_lm=settings.masked_lm_weight,
            cosine=settings.cosine_weight,
            temperature=settings.temperature,
            soft_targets=settings.soft_targets,
        )

    def fill(self, encoder: Model, trained: Model) -> None:
        """Copy the weights of the model to go on from, or the teacher's layers, if they fit."""
        if self.settings.start is not None:
            super().fill(encoder, trained)
        elif not self.settings.new_weights:
            try:
                models.copy_teacher(trained, self.teacher.pretrainer)
            except ValueError as error:
                said = f"the student does not start from its teacher's layers: {error}"
                print(said, file=sys.stderr)

    def describe(self, encoder: Model, trained: Model, steps: int) -> str:
        size = self.teacher.pretrainer.count_params() / 1e6
        return f"{super().describe(encoder, trained, steps)}; its teacher has {size:.2f} M"


def _check_teacher(settings: DistilBertSettings) -> None:
    """Check the settings about the teacher."""
    check_without_teacher(settings, _OF_TEACHER)
    if settings.teacher is None:
        return
    if not settings.distillation_weight + settings.cosine_weight:
        raise ValueError(
            "`distillation_weight` and `cosine_weight` are 0: leave `teacher` out to learn "
            "without one"
        )
    if same_folder(settings.teacher, settings.output):
        raise ValueError(f"`output` {settings.output} is the teacher; give a new folder")
    why = "can't be given with `teacher`, which has a vocabulary"
    settings.refuse(("vocab", "vocab_size", "cased"), why)


def check_without_teacher(settings: Any, names: Sequence[str]) -> None:
    """Check that without a teacher nothing is given that says what is learnt from one."""
    if settings.teacher is None:
        settings.refuse(names, "is about what is learnt from a `teacher`; give one")


def _load_teacher(settings: DistilBertSettings, load: Loader) -> Pretrained:
    teacher = load(settings.teacher, dtype=settings.dtype_policy())
    if teacher.pretrainer is None or "mlm_logits" not in teacher.pretrainer.output:
        raise ValueError(f"`teacher` {teacher.path} has no masked-LM head; give one that has")
    teacher.tokenizer = plain_tokenizer(teacher.tokenizer)
    if not isinstance(teacher.tokenizer, WordPieceTokenizer):
        raise ValueError(
            f"`teacher` {teacher.path} is {teacher.family.title} without a vocabulary of word "
            "pieces, which a DistilBERT reads; give a BERT"
        )
    return teacher


def _student_sizes(
    settings: DistilBertSettings, published: dict[str, Any], teacher: Pretrained
) -> dict[str, Any]:
    """Return the sizes of a student: those given, or its teacher's with half the layers.

    `published` are the sizes that `settings.size` names, {} if it names none.
    """
    sizes = published
    if not sizes:
        sizes = {name: teacher.config[name] for name in CHANGED_SIZES}
        sizes["num_layers"] = max(1, sizes["num_layers"] // 2)
    sizes = transformer_sizes(settings, sizes)
    width = teacher.pretrainer.output["sequence_output"].shape[-1]
    if settings.cosine_weight and sizes["hidden_size"] != width:
        raise ValueError(
            f"`hidden_size` {sizes['hidden_size']} is not the teacher's, {width}: their vectors "
            "can't be compared; give `cosine_weight` 0 to leave that out"
        )
    return sizes


def weights_checksum(model: Model) -> int:
    """Return a checksum of the weights: a run that goes on must have the same teacher."""
    found = 0
    for weight in model.weights:
        found = zlib.crc32(weight.numpy().tobytes(), found)
    return found

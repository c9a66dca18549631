"""DistilBERT's pretraining: text of masked windows, and the teacher."""

import dataclasses
import functools
import sys
import zlib
from collections.abc import Iterable
from typing import Any

from tfnlp.families.masked_text import MaskedText, head_arguments, sizes_of_config
from tfnlp.families.preparation import Preparation, same_folder
from tfnlp.families.starts import check_length, transformer_sizes
from tfnlp.families.subwords import WORDPIECE
from tfnlp.settings.sizes import CHANGED_SIZES

# Arguments that only say what is learnt from a teacher.
OF_TEACHER = (
    "distillation_weight", "masked_lm_weight", "cosine_weight", "temperature", "soft_targets",
    "new_weights",
)  # fmt: skip


def check_teacher(config: Any) -> None:
    """Check the arguments about the teacher."""
    check_without_teacher(config, OF_TEACHER)
    if config.teacher is None:
        return
    if not config.distillation_weight + config.cosine_weight:
        raise ValueError(
            "`distillation_weight` and `cosine_weight` are 0: leave `teacher` out to learn "
            "without one"
        )
    if same_folder(config.teacher, config.output):
        raise ValueError(f"`output` {config.output} is the teacher; give a new folder")
    for name in ("vocab", "cased"):
        if name in config.given and getattr(config, name):
            raise ValueError(f"`{name}` can't be given with `teacher`, which has a vocabulary")


def check_without_teacher(config: Any, names: Iterable[str]) -> None:
    """Check that without a teacher no argument is given that says what is learnt from one."""
    for name in names:
        if config.teacher is None and name in config.given and getattr(config, name) is not False:
            raise ValueError(f"`{name}` is about what is learnt from a `teacher`; give one")


def load_teacher(config: Any) -> Any:
    """Return the `Pretrained` that `config.teacher` names."""
    from tfnlp.families.recognition import load_pretrained
    from tfnlp.text import WordPieceTokenizer

    teacher = load_pretrained(config.teacher, dtype=config.dtype_policy())
    if teacher.pretrainer is None or "mlm_logits" not in teacher.pretrainer.output:
        raise ValueError(f"`teacher` {teacher.path} has no masked-LM head; give one that has")
    if not isinstance(teacher.tokenizer, WordPieceTokenizer):
        raise ValueError(
            f"`teacher` {teacher.path} is {teacher.family.title} without a vocabulary of word "
            "pieces, which a DistilBERT reads; give a BERT"
        )
    return teacher


def student_sizes(config: Any, published: dict[str, Any], teacher: Any) -> dict[str, Any]:
    """Return the sizes of a student: those given, or its teacher's with half the layers.

    `published` are the sizes that `config.size` names, {} if it names none.
    """
    sizes = published
    if not sizes:
        sizes = {name: teacher.config[name] for name in CHANGED_SIZES}
        sizes["num_layers"] = max(1, sizes["num_layers"] // 2)
    sizes = transformer_sizes(config, sizes)
    width = teacher.pretrainer.output["sequence_output"].shape[-1]
    if config.cosine_weight and sizes["hidden_size"] != width:
        raise ValueError(
            f"`hidden_size` {sizes['hidden_size']} is not the teacher's, {width}: their vectors "
            "can't be compared; give `cosine_weight` 0 to leave that out"
        )
    return sizes


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what pretraining needs: masked windows and, with a teacher, its losses."""
    if config.teacher is None:
        return DISTILBERT_TEXT.prepare(config, before, strategy)
    if config.pack:
        raise ValueError("`pack` can't be given with `teacher`, which reads rows of one document")
    teacher = before if config.start is None else load_teacher(config)
    if config.start is not None:
        mine, theirs = before.tokenizer, teacher.tokenizer
        if (mine.vocabulary, mine.lowercase) != (theirs.vocabulary, theirs.lowercase):
            raise ValueError(
                f"`teacher` {config.teacher} has another vocabulary than `start` {config.start}"
            )
    check_length(config, teacher.config["max_positions"])
    text = dataclasses.replace(
        DISTILBERT_TEXT,
        objective=functools.partial(_objective, config, teacher.pretrainer),
        copy_weights=functools.partial(_start, config) if config.start is None else None,
    )
    prepared = text.prepare(config, before, strategy)
    size, describe = teacher.pretrainer.count_params() / 1e6, prepared.describe
    return dataclasses.replace(
        prepared,
        training={**prepared.training, "teacher_crc32": weights_checksum(teacher.pretrainer)},
        describe=lambda *made: f"{describe(*made)}; its teacher has {size:.2f} M",
    )


def _objective(config: Any, teacher: Any, pretrainer: Any) -> Any:
    """Return the task; it is called in the strategy's scope, which the teacher's weights need."""
    import keras

    from tfnlp.objectives import Distillation

    copy = keras.models.clone_model(teacher)
    copy.set_weights(teacher.get_weights())
    return Distillation(
        pretrainer,
        copy,
        distillation=config.distillation_weight,
        masked_lm=config.masked_lm_weight,
        cosine=config.cosine_weight,
        temperature=config.temperature,
        soft_targets=config.soft_targets,
    )


def _start(config: Any, teacher: Any, encoder: Any, pretrainer: Any) -> None:
    """Give the student its teacher's layers, if they fit."""
    from tfnlp import models

    if config.new_weights:
        return
    try:
        models.copy_teacher(pretrainer, teacher.pretrainer)
    except ValueError as error:
        print(f"the student does not start from its teacher's layers: {error}", file=sys.stderr)


def weights_checksum(model: Any) -> int:
    """Return a checksum of the weights: a run that goes on must have the same teacher."""
    found = 0
    for weight in model.weights:
        found = zlib.crc32(weight.numpy().tobytes(), found)
    return found


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    """Return the arguments of `distilbert`, checked before any work is done."""
    sizes = {name: getattr(config, name) for name in CHANGED_SIZES}  # see `settle`
    if config.start is not None:
        return sizes_of_config(config, sizes, before.config)
    if config.teacher is None:
        return sizes_of_config(config, sizes, None)
    theirs, most = before.config, before.config["max_positions"]
    found = sizes_of_config(config.replace(max_positions=config.max_positions or most), sizes, None)
    same = ("vocab_size", "activation", "norm_epsilon")
    return {**found, **{name: theirs[name] for name in same if name in theirs}}


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `distilbert_pretrainer`."""
    # A student's new weights are its own, whatever its teacher began with.
    own = {"initializer_range": config.initializer_range}
    return {**head_arguments(config, before, batches), **own}


DISTILBERT_TEXT = MaskedText(
    title="DistilBERT", subwords=WORDPIECE, second=None, sizes=_sizes, heads=_heads
)

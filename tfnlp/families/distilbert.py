"""DistilBERT (Sanh et al. 2019) as a family."""

import dataclasses
import functools
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import defaults, distillation, encoders, fitting
from tfnlp.families.config import CHANGED_SIZES, CasedEncoderConfig, transformer_sizes
from tfnlp.families.distillation import DISTILBERT_TEXT
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan

SIZES = {name: f"DISTILBERT_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base")}


@dataclasses.dataclass(kw_only=True)
@redefine(
    optimizer="adamw", warmup=0.05, weight_decay=0.0, clip_norm=5.0,
)  # fmt: skip
class DistilBertConfig(CasedEncoderConfig):
    """Masked LM on windows of sentences and, with a teacher, what that says of the same tokens.

    Rate, warm-up, decay and clipping are those of the released code; its batches have 250 rows.
    """

    size: str = option(
        "tiny", "published size base, or smaller; a teacher gives its widths and half its layers, "
        "unless this is given",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip
    teacher: Any = option(
        None, "run, checkpoint or hf:// name to learn from: an encoder with a masked-LM head, "
        "such as a BERT; the student gets its vocabulary and starts from some of its layers",
        metavar="DIR", group="teacher",
    )  # fmt: skip
    new_weights: bool = option(
        False, "do not start from the teacher's layers", group="teacher", record="training"
    )
    distillation_weight: float = option(
        5.0, "of the loss against the teacher's guesses", at_least=0, group="teacher",
        record="training",
    )  # fmt: skip
    masked_lm_weight: float = option(
        2.0, "of the masked-LM loss beside it", above=0, group="teacher", record="training"
    )
    cosine_weight: float = option(
        1.0, "of the loss of angles to the teacher's last vectors", at_least=0, group="teacher",
        record="training",
    )  # fmt: skip
    temperature: float = option(
        2.0, "that smooths the guesses of both", above=0, group="teacher", record="training"
    )
    soft_targets: str = option(
        "masked", "where the teacher's guesses are learnt: at masked tokens, or at all real ones",
        choices=("masked", "real"), group="teacher", record="training",
    )  # fmt: skip


def start(config: DistilBertConfig) -> Any:
    """Return the DistilBERT to go on from; without one the teacher; or None."""
    distillation.check_teacher(config)
    if config.start is None and config.teacher is not None:
        return distillation.load_teacher(config)
    return encoders.start("distilbert", config)


def settle(config: DistilBertConfig, before: Any) -> DistilBertConfig:
    """Return the config with the sizes of the student, if it is not what training goes on from."""
    from tfnlp import models

    if config.start is not None:
        return config
    published = getattr(models, SIZES[config.size])
    if config.teacher is None:
        sizes = transformer_sizes(config, published)
    else:
        given = published if "size" in config.given else {}
        sizes = distillation.student_sizes(config, given, before)
        if "initializer_range" not in config.given:
            before_stop = defaults.recorded(config, config.output, "arguments", "initializer_range")
            found = before_stop or defaults.initializer_range(sizes["hidden_size"])
            config = config.replace(initializer_range=found)
    return config.replace(**{name: sizes[name] for name in CHANGED_SIZES})


DISTILBERT = encoders.encoder_family(
    "distilbert",
    DISTILBERT_TEXT,
    title="a DistilBERT",
    summary="Pretrain a DistilBERT: masked LM, with or without a teacher.",
    config=DistilBertConfig,
    sizes=SIZES,
    start=start,
    settle=settle,
    prepare=distillation.prepare,
    fitting=encoders.encoder_fitting(
        "distilbert",
        fine_tuned=functools.partial(fitting.fine_tuned_encoder, hidden="relu", drop_first=False),
    ),
    plan=masked_plan("distilbert", SIZES, vocab_size=30522),
    prediction=mask_prediction("distilbert", "a DistilBERT", "[MASK]", pairs=False),
)  # fmt: skip

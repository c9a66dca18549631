"""Settings of a DistilBERT."""

import dataclasses
from typing import Any

from tfnlp.settings.encoders import CasedEncoderSettings
from tfnlp.settings.options import option, redefine

SIZES = ("tiny", "mini", "small", "medium", "base")


@dataclasses.dataclass(kw_only=True)
@redefine(
    optimizer="adamw", warmup=0.05, weight_decay=0.0, clip_norm=5.0,
)  # fmt: skip
class DistilBertSettings(CasedEncoderSettings):
    """Masked LM on windows of sentences and, with a teacher, what that says of the same tokens.

    Rate, warm-up, decay and clipping are those of the released code; its batches have 250 rows.
    """

    size: str = option(
        "tiny", "published size base, or smaller; a teacher gives its widths and half its layers, "
        "unless this is given",
        choices=SIZES, group="model",
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

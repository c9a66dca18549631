"""Settings of an ELECTRA."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.encoders import CasedEncoderSettings
from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import PACK_PAIRS
from tfnlp.settings.use import PredictionSettings

SIZES = ("tiny", "mini", "small", "base", "large")


@dataclasses.dataclass(kw_only=True)
@redefine(
    pack={"help": PACK_PAIRS}, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
)  # fmt: skip
class ElectraSettings(CasedEncoderSettings):
    """A generator that fills masks and a discriminator that tells its tokens from the text's.

    Rate, decay and clipping are those of the released code for the small size, which has batches
    of 128 and 10,000 of 1,000,000 steps of warm-up.
    """

    size: str = option(
        "tiny", "size (small, base and large: the published ones)", choices=SIZES,
        group="model",
    )  # fmt: skip
    generator_size: float | None = option(
        None, "the generator's width as a share of the discriminator's (default: 1/4, base 1/3)",
        above=0, at_most=1, group="model",
    )  # fmt: skip
    discriminator_weight: float = option(
        50.0, "of the discriminator's loss beside the generator's", above=0, group="training",
        record="training",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class ElectraPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of an ELECTRA, which marks tokens that look replaced."""

    of: ClassVar[str] = "an ELECTRA"
    blank_lines: ClassVar[bool] = False
    threshold: float = option(
        0.5, "probability from which a token is marked", at_least=0, at_most=1
    )

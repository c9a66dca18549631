"""Settings of a BERT."""

import dataclasses

from tfnlp.settings.encoders import CasedEncoderSettings
from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import PACK_PAIRS

SIZES = ("tiny", "mini", "small", "medium", "base", "large")


@dataclasses.dataclass(kw_only=True)
@redefine(
    pack={"help": PACK_PAIRS}, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
)  # fmt: skip
class BertSettings(CasedEncoderSettings):
    """Masked LM and next sentence.

    The paper: batches of 256, 1e-4 at its peak, 10,000 of 1,000,000 steps of warm-up (A.2).
    """

    size: str = option("tiny", "published size", choices=SIZES, group="model")

"""Settings of an ALBERT."""

import dataclasses

from tfnlp.settings.encoders import CasedEncoderSettings
from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import PACK_PAIRS

SIZES = ("tiny", "mini", "small", "medium", "base", "large", "xlarge", "xxlarge")


@dataclasses.dataclass(kw_only=True)
@redefine(
    pack={"help": PACK_PAIRS}, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
    dropout=0.0,
    vocab={"help": "spiece.model; built from the text if absent"},
)  # fmt: skip
class AlbertSettings(CasedEncoderSettings):
    """Masked LM and sentence order.

    The paper (section 4.1): LAMB, 1.76e-3 at its peak, batches of 4,096 rows of 512 tokens,
    125,000 steps, spans of up to three words masked together (here single tokens, or whole words
    with `whole_word`).
    """

    size: str = option(
        "tiny", "size; base, large, xlarge and xxlarge are the paper's",
        choices=SIZES, group="model",
    )  # fmt: skip

"""Settings of a RoBERTa and of an XLM-RoBERTa."""

import dataclasses

from tfnlp.settings.encoders import EncoderSettings
from tfnlp.settings.options import option, redefine

SIZES = ("tiny", "mini", "small", "medium", "base", "large")


@dataclasses.dataclass(kw_only=True)
@redefine(
    optimizer="roberta_adamw", warmup=0.06, weight_decay=0.01, clip_norm=0.0,
    vocab={"help": "folder of vocab.json and merges.txt; built from the text if absent"},
)  # fmt: skip
class RobertaSettings(EncoderSettings):
    """Masked LM on windows of whole sentences.

    The paper (sections 3.1 and 5, table 9): batches of 8,192 rows of 512 tokens, 500,000 steps,
    6e-4 (base) or 4e-4 (large) at its peak, 24,000 or 30,000 of them of warm-up, b2 = 0.98,
    epsilon = 1e-6, no clipping.
    """

    size: str = option("tiny", "size; base and large are the paper's", choices=SIZES, group="model")


@dataclasses.dataclass(kw_only=True)
@redefine(vocab={"help": "folder of tokenizer.json; none is learnt"})
class XlmRobertaSettings(RobertaSettings):
    """A RoBERTa of many languages: goes on from a published one, or reads a given vocabulary.

    The paper (section 3): RoBERTa's masked LM on 100 languages, batches of 8,192 rows.
    """

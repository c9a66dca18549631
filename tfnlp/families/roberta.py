"""RoBERTa (Liu et al. 2019) as a family."""

import dataclasses
import functools

from tfnlp.configs import option, redefine
from tfnlp.families import encoders, fitting
from tfnlp.families.config import EncoderConfig
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.preparation import BPE_VOCABULARY, write_bpe_folder
from tfnlp.families.subwords import Subwords

SIZES = {
    name: f"ROBERTA_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base", "large")
}
BYTE_PAIRS = Subwords(
    kind="roberta byte pairs",
    tokenizer="RobertaTokenizer",
    train="train_roberta_bpe",
    read_file="read_bpe",
    write=write_bpe_folder,
    cased=False,
    tokens=lambda tokenizer: (tokenizer.vocabulary, tokenizer.merges),
    name=BPE_VOCABULARY,
)
# Masked windows of whole sentences.
ROBERTA_TEXT = MaskedText(
    title="RoBERTa",
    subwords=BYTE_PAIRS,
    second=None,
    sizes=functools.partial(encoders.encoder_sizes, "roberta"),
)


@dataclasses.dataclass(kw_only=True)
@redefine(
    optimizer="roberta_adamw", warmup=0.06, weight_decay=0.01, clip_norm=0.0,
    vocab={"help": "folder of vocab.json and merges.txt; built from the text if absent"},
)  # fmt: skip
class RobertaConfig(EncoderConfig):
    """Masked LM on windows of whole sentences.

    The paper (sections 3.1 and 5, table 9): batches of 8,192 rows of 512 tokens, 500,000 steps,
    6e-4 (base) or 4e-4 (large) at its peak, 24,000 or 30,000 of them of warm-up, b2 = 0.98,
    epsilon = 1e-6, no clipping.
    """

    size: str = option(
        "tiny", "size; base and large are the paper's", choices=tuple(SIZES), group="model"
    )


_PLAN = masked_plan("roberta", SIZES, vocab_size=50265)
ROBERTA = encoders.encoder_family(
    "roberta",
    ROBERTA_TEXT,
    title="a RoBERTa",
    summary="Pretrain a RoBERTa: masked LM on windows of whole sentences.",
    config=RobertaConfig,
    sizes=SIZES,
    fitting=encoders.encoder_fitting(
        "roberta",
        BYTE_PAIRS,
        fine_tuned=functools.partial(fitting.fine_tuned_encoder, hidden="tanh"),
    ),
    # The paper's rows; all of its training has this length.
    plan=dataclasses.replace(_PLAN, lengths=dict.fromkeys(SIZES, 512)),
    prediction=mask_prediction("roberta", "a RoBERTa", "<mask>", pairs=False),
)

"""ALBERT (Lan et al. 2020) as a family."""

import dataclasses
import functools
import hashlib

from tfnlp.configs import option, redefine
from tfnlp.families import encoders
from tfnlp.families.config import PACK_PAIRS, CasedEncoderConfig
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.preparation import SENTENCEPIECE_MODEL
from tfnlp.families.subwords import Subwords

SIZES = {
    name: f"ALBERT_{name.upper()}"
    for name in ("tiny", "mini", "small", "medium", "base", "large", "xlarge", "xxlarge")
}


def _write(path: str, model: bytes) -> None:
    from tfnlp.text import write_model

    write_model(path, model)


SENTENCEPIECE = Subwords(
    kind="sentencepiece",
    tokenizer="SentencePieceTokenizer",
    train="train_sentencepiece",
    read_file="read_model",
    write=_write,
    tokens=lambda tokenizer: tokenizer.model,
    key=lambda model: hashlib.sha256(model).hexdigest(),
    name=SENTENCEPIECE_MODEL,
)
# Masked pairs of segments, half of them in the wrong order.
ALBERT_TEXT = MaskedText(
    title="ALBERT",
    subwords=SENTENCEPIECE,
    second="swapped",
    sizes=functools.partial(encoders.encoder_sizes, "albert"),
    heads=functools.partial(head_arguments, second="sentence_order"),
    copied=("masked_lm_head", "masked_lm_bias", "sentence_order_head"),
)


@dataclasses.dataclass(kw_only=True)
@redefine(
    pack={"help": PACK_PAIRS}, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
    dropout=0.0,
    vocab={"help": "spiece.model; built from the text if absent"},
)  # fmt: skip
class AlbertConfig(CasedEncoderConfig):
    """Masked LM and sentence order.

    The paper (section 4.1): LAMB, 1.76e-3 at its peak, batches of 4,096 rows of 512 tokens,
    125,000 steps, spans of up to three words masked together (here single tokens, or whole words
    with `whole_word`).
    """

    size: str = option(
        "tiny", "size; base, large, xlarge and xxlarge are the paper's",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip


ALBERT = encoders.encoder_family(
    "albert",
    ALBERT_TEXT,
    title="an ALBERT",
    summary="Pretrain an ALBERT: masked LM and sentence order.",
    config=AlbertConfig,
    sizes=SIZES,
    fitting=encoders.encoder_fitting("albert", SENTENCEPIECE),
    plan=masked_plan("albert", SIZES, vocab_size=30000, label="sentence_order_labels"),
    prediction=mask_prediction("albert", "an ALBERT", "[MASK]", pairs=True),
)

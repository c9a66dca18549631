"""ALBERT (Lan et al. 2020) as a family."""

import functools
import hashlib

from tfnlp.families import encoders
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.preparation import SENTENCEPIECE_MODEL
from tfnlp.families.subwords import Subwords
from tfnlp.settings.albert import SIZES, AlbertSettings


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


ALBERT = encoders.encoder_family(
    "albert",
    ALBERT_TEXT,
    title="an ALBERT",
    config=AlbertSettings,
    sizes=SIZES,
    fitting=encoders.encoder_fitting("albert", SENTENCEPIECE),
    plan=masked_plan("albert", SIZES, vocab_size=30000, label="sentence_order_labels"),
    prediction=mask_prediction("albert", "an ALBERT", "[MASK]", pairs=True),
)

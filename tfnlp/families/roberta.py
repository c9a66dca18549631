"""RoBERTa (Liu et al. 2019) as a family."""

import dataclasses
import functools

from tfnlp.families import encoders, fitting
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.preparation import BPE_VOCABULARY, write_bpe_folder
from tfnlp.families.subwords import Subwords
from tfnlp.settings.roberta import SIZES, RobertaSettings

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


_PLAN = masked_plan("roberta", SIZES, vocab_size=50265)
ROBERTA = encoders.encoder_family(
    "roberta",
    ROBERTA_TEXT,
    title="a RoBERTa",
    config=RobertaSettings,
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

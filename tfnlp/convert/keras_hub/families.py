"""The families that keras-hub and tfnlp share."""

from __future__ import annotations

from tfnlp.convert.keras_hub.albert import ALBERT
from tfnlp.convert.keras_hub.bert import BERT
from tfnlp.convert.keras_hub.counterpart import Counterpart
from tfnlp.convert.keras_hub.distilbert import DISTILBERT
from tfnlp.convert.keras_hub.gpt2 import GPT2
from tfnlp.convert.keras_hub.roberta import ROBERTA

# RoBERTa before BERT, whose layers have the same names.
COUNTERPARTS = {part.backbone: part for part in (ROBERTA, BERT, DISTILBERT, ALBERT, GPT2)}


def counterpart(backbone: str, what: str) -> Counterpart:
    """Return the description of a class of keras-hub.

    Args:
        backbone: name of the class, such as "BertBackbone".
        what: the object or folder, for the message.

    Raises:
        ValueError: if tfnlp has no such model.
    """
    if backbone not in COUNTERPARTS:
        raise ValueError(f"{what} is a {backbone[:80]}; tfnlp reads {', '.join(COUNTERPARTS)}")
    return COUNTERPARTS[backbone]

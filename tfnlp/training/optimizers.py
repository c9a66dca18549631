"""Optimizers on `tf.distribute`'s public API, by name."""

from tfnlp.training.adagrad import Adagrad, RowwiseAdagrad
from tfnlp.training.adam import LAMB, AdamW, adam, bert_adamw, roberta_adamw
from tfnlp.training.optimizer_base import Optimizer

OPTIMIZERS = {
    "adam": adam,
    "adamw": AdamW,
    "bert_adamw": bert_adamw,
    "roberta_adamw": roberta_adamw,
    "lamb": LAMB,
    "adagrad": Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
}


def optimizer(name: str, weight_decay: float | None = None) -> Optimizer:
    """Return the optimizer called `name` with the settings of its paper.

    Args:
        name: "adam" (the Transformer's), "adamw" (the textbook's), "bert_adamw",
            "roberta_adamw", "lamb", "adagrad" or "rowwise_adagrad".
        weight_decay: lambda; None: the optimizer's default.

    Raises:
        ValueError: for another name.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer={name!r} is unknown; choose one of {sorted(OPTIMIZERS)}")
    make = OPTIMIZERS[name]
    return make() if weight_decay is None else make(weight_decay=weight_decay)

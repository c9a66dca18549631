"""The Transformer (Vaswani et al. 2017) as a family."""

import dataclasses
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import translation
from tfnlp.families.config import TransformerConfig as SizeConfig
from tfnlp.families.config import transformer_sizes
from tfnlp.families.preparation import Preparation

SIZES = {name: f"TRANSFORMER_{name.upper()}" for name in ("mini", "base", "big")}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=20, batch_size=128, learning_rate=1e-3, warmup=0.1, schedule="inverse_sqrt",
    optimizer="adam", weight_decay=0.0, clip_norm=0.0,
)  # fmt: skip
class TransformerConfig(translation.TranslationTraining, SizeConfig, translation.PairConfig):
    """The next token of a translation."""

    size: str = option(
        "mini", "of the paper, or mini: 3 + 3 layers x 256, for a CPU",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip
    norm_first: bool = option(False, "layer norms before the sub-layers, not after", group="model")


def prepare(config: TransformerConfig, before: Any, strategy: Any) -> Preparation:
    """Return what the training of a Transformer needs."""
    from tfnlp import models

    sizes = transformer_sizes(config, getattr(models, SIZES[config.size]))
    sizes.pop("vocab_size", None)
    sizes.update(dropout=config.dropout, norm_first=config.norm_first)
    return translation.prepare(config, sizes, strategy)


TRANSFORMER = translation.translation_family(
    "transformer",
    "TransformerDecoder",
    title="a Transformer",
    summary="Train a Transformer to translate.",
    config=TransformerConfig,
    sizes=SIZES,
    prepare=prepare,
)

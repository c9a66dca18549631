"""The Transformer (Vaswani et al. 2017) as a family."""

from typing import Any

from tfnlp.families import translation
from tfnlp.families.preparation import Preparation
from tfnlp.families.starts import transformer_sizes
from tfnlp.settings.sizes import SizeSettings as SizeSettings
from tfnlp.settings.transformer import SIZES, TransformerSettings


def prepare(config: TransformerSettings, before: Any, strategy: Any) -> Preparation:
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
    config=TransformerSettings,
    sizes=SIZES,
    prepare=prepare,
)

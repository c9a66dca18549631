"""The Transformer (Vaswani et al. 2017) as a family."""

from typing import Any

from tfnlp import models
from tfnlp.families.sizes import transformer_sizes
from tfnlp.families.translator import Translator
from tfnlp.settings.translation import TransformerSettings


class Transformer(Translator):
    """The next token of a translation."""

    name, title = "transformer", "a Transformer"
    sizes = {
        "mini": models.TRANSFORMER_MINI,
        "base": models.TRANSFORMER_BASE,
        "big": models.TRANSFORMER_BIG,
    }
    encoder, decoder = staticmethod(models.transformer), models.TransformerDecoder

    def model_sizes(self, settings: TransformerSettings) -> dict[str, Any]:
        """Return the published sizes with what the settings change."""
        sizes = transformer_sizes(settings, self.sizes[settings.size])
        sizes.pop("vocab_size", None)
        return {**sizes, "dropout": settings.dropout, "norm_first": settings.norm_first}

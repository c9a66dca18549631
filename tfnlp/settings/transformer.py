"""Settings of a Transformer that translates."""

import dataclasses

from tfnlp.settings.options import option, redefine
from tfnlp.settings.sizes import SizeSettings
from tfnlp.settings.translation import PairSettings, TranslationTraining

SIZES = ("mini", "base", "big")


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=20, batch_size=128, learning_rate=1e-3, warmup=0.1, schedule="inverse_sqrt",
    optimizer="adam", weight_decay=0.0, clip_norm=0.0,
)  # fmt: skip
class TransformerSettings(TranslationTraining, SizeSettings, PairSettings):
    """The next token of a translation."""

    size: str = option(
        "mini", "of the paper, or mini: 3 + 3 layers x 256, for a CPU",
        choices=SIZES, group="model",
    )  # fmt: skip
    norm_first: bool = option(False, "layer norms before the sub-layers, not after", group="model")

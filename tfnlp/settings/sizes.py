"""Settings of the sizes of models of Transformer blocks."""

import dataclasses

from tfnlp.settings.options import option
from tfnlp.settings.training import RematSettings

MOST_LAYERS = 1000  # a run's `config.json` with more can't be loaded


CHANGED_SIZES = ("num_layers", "hidden_size", "num_heads", "intermediate_size")


@dataclasses.dataclass(kw_only=True)
class SizeSettings(RematSettings):
    """What can be changed of a published size, and dropout."""

    num_layers: int | None = option(
        None,
        "Transformer blocks, instead of the size's",
        at_least=1,
        at_most=MOST_LAYERS,
        group="model",
    )
    hidden_size: int | None = option(
        None, "width, instead of the size's", at_least=1, group="model"
    )
    num_heads: int | None = option(
        None, "attention heads, instead of the size's", at_least=1, group="model"
    )
    intermediate_size: int | None = option(
        None, "width of the feed-forward nets, instead of the size's", at_least=1, group="model"
    )
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1, group="model")


@dataclasses.dataclass(kw_only=True)
class PositionSettings(SizeSettings):
    """Sizes of Transformers with a table of positions."""

    max_positions: int | None = option(
        None, "longest sequence that the model can ever read, instead of the size's",
        at_least=1, group="model",
    )  # fmt: skip
    initializer_range: float | None = option(
        None,
        "standard deviation of the initial weights (default: 0.02; narrower than 768: "
        "0.02 sqrt(768 / width))",
        above=0, group="model",
    )  # fmt: skip

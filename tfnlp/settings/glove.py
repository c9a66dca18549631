"""Settings of GloVe."""

import dataclasses

from tfnlp.settings.options import option, redefine
from tfnlp.settings.training import TrainingSettings
from tfnlp.settings.word_vectors import CountedTextSettings


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=25, batch_size=4096, learning_rate=0.3, warmup=0.0, schedule="constant",
    optimizer="rowwise_adagrad", weight_decay=0.0, clip_norm=0.0, steps_per_call=100, min_count=5,
)  # fmt: skip
class GloVeSettings(TrainingSettings, CountedTextSettings):
    """One vector a word, from how often it is near each other word."""

    dimension: int = option(100, "numbers in a vector", at_least=1, group="model")
    x_max: float = option(
        100.0, "count from which all pairs of words weigh the same; large texts need more",
        above=0, group="model",
    )  # fmt: skip
    alpha: float = option(
        0.75, "exponent of the weights of pairs that are rarer", at_least=0, group="model"
    )
    window: int = option(
        10, "words on either side; a pair d words apart counts 1/d",
        at_least=1, group="text", record="training",
    )  # fmt: skip
    left_only: bool = option(
        False, "count only words before a word, not those after it",
        group="text", record="training",
    )  # fmt: skip

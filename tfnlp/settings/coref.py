"""Settings of the task coref."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import HeadSettings
from tfnlp.settings.options import option, redefine


@dataclasses.dataclass(kw_only=True)
@redefine(max_length=384, batch_size=1)
class CorefSettings(HeadSettings):
    """Clusters of the mentions of a document that name the same (coreference)."""

    task: ClassVar[str] = "coref"
    lm_weight: ClassVar[float] = 0.0  # a GPT learns the task alone

    width: int | None = option(
        None,
        "words of the longest mention (default: what 99 % of the training examples' fit in, at "
        "most 30)",
        at_least=1, group="model",
    )  # fmt: skip

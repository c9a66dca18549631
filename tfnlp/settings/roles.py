"""Settings of the task roles."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.tag import WordSettings


@dataclasses.dataclass(kw_only=True)
class RolesSettings(WordSettings):
    """The role of each word for a predicate (semantic role labelling)."""

    task: ClassVar[str] = "roles"

    predicate_size: int = option(
        100, "features: size of the embedding that marks the predicate", at_least=1, group="model"
    )

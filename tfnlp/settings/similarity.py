"""Settings of the task similarity."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import HeadSettings, PackSettings, TeacherSettings
from tfnlp.settings.use import ColumnSettings


@dataclasses.dataclass(kw_only=True)
class SimilaritySettings(PackSettings, TeacherSettings, ColumnSettings, HeadSettings):
    """A number for a pair of texts."""

    task: ClassVar[str] = "similarity"

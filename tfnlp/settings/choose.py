"""Settings of the task choose."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import HeadSettings, SmoothingSettings, TeacherSettings
from tfnlp.settings.use import ColumnSettings


@dataclasses.dataclass(kw_only=True)
class ChooseSettings(SmoothingSettings, TeacherSettings, ColumnSettings, HeadSettings):
    """Which of several texts goes on from a text."""

    task: ClassVar[str] = "choose"

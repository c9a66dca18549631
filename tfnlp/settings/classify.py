"""Settings of the task classify."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import (
    ClassWeightSettings,
    HeadSettings,
    PackSettings,
    SmoothingSettings,
    TeacherSettings,
)
from tfnlp.settings.use import ColumnSettings


@dataclasses.dataclass(kw_only=True)
class ClassifySettings(
    ClassWeightSettings,
    SmoothingSettings,
    PackSettings,
    TeacherSettings,
    ColumnSettings,
    HeadSettings,
):
    """A class for a text or a pair of texts."""

    task: ClassVar[str] = "classify"

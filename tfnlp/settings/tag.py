"""Settings of the task tag."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import (
    ClassWeightSettings,
    HeadSettings,
    PackSettings,
    SmoothingSettings,
    TeacherSettings,
)
from tfnlp.settings.options import option
from tfnlp.settings.use import ColumnSettings


@dataclasses.dataclass(kw_only=True)
class WordSettings(ClassWeightSettings, SmoothingSettings, ColumnSettings, HeadSettings):
    """Of tasks with a tag for each word."""

    crf: bool = option(
        False,
        "learn and predict whole sequences of tags with a CRF (Lample et al. 2016), in place of "
        "each tag on its own",
        group="model",
    )  # fmt: skip
    stride: int = option(64, "pieces from one window of a longer text to the next", group="model")


@dataclasses.dataclass(kw_only=True)
class TagSettings(PackSettings, TeacherSettings, WordSettings):
    """A tag for each word: parts of speech, entities."""

    task: ClassVar[str] = "tag"

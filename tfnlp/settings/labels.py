"""Settings of the task labels."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import (
    ClassWeightSettings,
    HeadSettings,
    PackSettings,
    SmoothingSettings,
)
from tfnlp.settings.options import redefine
from tfnlp.settings.use import LabelSetSettings


@dataclasses.dataclass(kw_only=True)
@redefine(
    label={"help": "name or number of a column of lists, or of names with a separator"},
    class_weights={
        "help": "how often an example that has the label counts in the loss; balanced: examples "
        "without it / examples with it. Those that are not named: 1"
    },
)
class LabelsSettings(
    ClassWeightSettings, SmoothingSettings, PackSettings, LabelSetSettings, HeadSettings
):
    """Any number of labels for a text or a pair of texts."""

    task: ClassVar[str] = "labels"

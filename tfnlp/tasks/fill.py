"""Masked words: goes on with a BERT's masked language model on other text."""

from tfnlp.settings.tasks import FillSettings
from tfnlp.tasks.task import Task


class Fill(Task):
    """Masked words: goes on with a masked language model. Its run is a pretraining run."""

    name = "fill"
    Settings = FillSettings
    hint = (
        "fill in masked words with it: tfnlp predict --model {folder} 'A [MASK] ...'\n"
        "one SavedModel of it: tfnlp export --model {folder} --output DIR --fill"
    )

"""Settings of the task answer."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import HeadSettings, TeacherSettings
from tfnlp.settings.options import option, redefine


@dataclasses.dataclass(kw_only=True)
@redefine(max_length=384)
class AnswerSettings(TeacherSettings, HeadSettings):
    """The part of a document that answers a question (SQuAD)."""

    task: ClassVar[str] = "answer"

    stride: int = option(128, "pieces from one window of a longer text to the next", group="model")
    max_question: int = option(64, "pieces of a question", group="model")
    max_answer: int = option(30, "pieces of an answer", group="model")

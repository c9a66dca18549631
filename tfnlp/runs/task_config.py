"""Arguments of evaluating and using a fine-tuned model."""

import dataclasses
from typing import Any

from tfnlp.configs import option
from tfnlp.families.use_config import ColumnConfig, ModelConfig


@dataclasses.dataclass(kw_only=True)
class EvaluateTask(ColumnConfig):
    """Arguments of `TaskRun.evaluate`."""

    data: Any = option(help="labelled examples", flag="--input", metavar="FILE")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )
    report: str | None = option(None, "write a page of measures and errors there", metavar="DIR")


@dataclasses.dataclass(kw_only=True)
class PredictTask(ModelConfig, ColumnConfig):
    """Arguments of `tfnlp predict task`."""

    text: list[str] = option(
        [],
        "a text; of pairs two texts, a question and a document, or a text and its choices. None: "
        "an example a line from stdin, its texts between tabs",
        positional=True,
    )  # fmt: skip
    input: Any = option(None, "files as for training; labels may be missing", metavar="FILE")
    output: str | None = option(None, "write them here, as JSON lines", metavar="FILE")
    json: bool = option(False, "print JSON lines")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )

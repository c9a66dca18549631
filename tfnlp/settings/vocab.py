"""Settings of `tfnlp vocab`."""

import dataclasses
from typing import Any

from tfnlp.settings.options import Settings, option
from tfnlp.settings.text import LAYOUT_HELP, LAYOUTS, TEXT_HELP


@dataclasses.dataclass(kw_only=True)
class VocabSettings(Settings):
    """Arguments of `tfnlp vocab`."""

    text: Any = option(help=TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)
    output: str = option(help="vocabulary file to write", metavar="FILE")
    size: int = option(8000, "number of tokens", at_least=1)
    cased: bool = option(False, "keep case and accents")
    min_frequency: int = option(2, "rarer pairs aren't merged", at_least=1)

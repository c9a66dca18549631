"""`tfnlp predict`: use a model, whatever it is."""

import argparse
import sys
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, add_options
from tfnlp.settings.options import names_of
from tfnlp.settings.tables import FAMILIES, PREDICTIONS
from tfnlp.settings.use import PredictionSettings

_KINDS = {*FAMILIES, "translation", "task", "search"}


def without_kind(words: list[str]) -> list[str]:
    """Return a command line without the kind of model, which was asked for earlier."""
    if words[:1] != ["predict"] or words[1:2] == [] or words[1] not in _KINDS:
        return words
    renamed = {"--index": "--model", "--model": "--encoder"} if words[1] == "search" else {}
    return ["predict", *(renamed.get(word, word) for word in words[2:])]


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Use a model: labels, tags, answers; words for masks, neighbours, text, translations; "
        "texts of an index. The model says which."
    )
    parser = add_command(commands, "predict", summary, PredictionSettings)
    for settings in PREDICTIONS:
        add_options(parser, settings, heading=settings.of)
    add_bf16(parser)


def run(options: argparse.Namespace) -> None:
    """Print predictions: the model says which settings it takes."""
    from tfnlp.families.recognition import check_precision
    from tfnlp.runs.front_door import load

    loaded = load(options.model, options.dtype)
    if not hasattr(loaded, "lines"):
        raise ValueError(
            f"{options.model} is {loaded.title}: call what `tfnlp.load` returns, or give the run "
            "or checkpoint that it was made from"
        )
    kind = loaded.prediction
    if options.dtype not in (None, kind.bf16_policy):
        loaded = load(options.model, kind.bf16_policy)
    check_precision(loaded, options.dtype)
    names = {name for settings in PREDICTIONS for name in names_of(settings)}
    given = {name: value for name, value in vars(options).items() if name in names}
    config = kind.make(**{**given, "model": loaded})
    if config.reads_stdin and not config.text and not sys.stdin.isatty():
        config = config.replace(text=_stdin_texts(config.blank_lines))
    for piece in loaded.lines(config):
        print(piece, end="", flush=True)


def _stdin_texts(blank_lines: bool) -> list[str]:
    """Return the texts of standard input, a line each."""
    lines = [line.rstrip("\n") for line in sys.stdin]
    kept = [line for line in lines if blank_lines or line.strip()]
    if len(kept) < len(lines):
        empty = f"{len(lines) - len(kept):,} of {len(lines):,}"
        print(f"standard input: {empty} lines are empty and were left out", file=sys.stderr)
    return kept

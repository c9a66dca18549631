"""`tfnlp export`: write SavedModels, or files that other libraries read."""

import argparse
import dataclasses
from typing import Any

from tfnlp.cli.options import add_command, add_options, config_of
from tfnlp.settings.formats import FORMAT_SETTINGS, ExportSettings, FormatSettings

READS_MODEL = True  # the one that it is given, and writes nothing to it


def add_to(commands: Any) -> None:
    """Add the sub-command: what every format takes, then what only some take."""
    summary = "Export a BERT or GPT as a pair of SavedModels, any other model as one."
    parser = add_command(commands, "export", summary, ExportSettings)
    add_options(parser, FormatSettings)
    for settings in FORMAT_SETTINGS:
        add_options(parser, settings, heading=settings.title.replace("`", ""))


def run(options: argparse.Namespace) -> None:
    """Export a model; print what was written."""
    from tfnlp.runs.front_door import load

    config = config_of(options, ExportSettings)
    names = {field.name for one in FORMAT_SETTINGS for field in dataclasses.fields(one)}
    given = {name: value for name, value in vars(options).items() if name in names}
    written = load(config.model).export(config.output, format=config.format, **given)
    for name, path in written.items():
        print(f"{name}: {path}")

"""`tfnlp embed`: one vector for each text of files."""

import argparse
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, config_of
from tfnlp.published import is_published
from tfnlp.settings.use import EmbedSettings

READS_MODEL = True  # the one that it is given, and writes nothing to it


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Write one vector for each text of files; the same command again goes on where it stopped."
    )
    add_bf16(add_command(commands, "embed", summary, EmbedSettings))


def run(options: argparse.Namespace) -> None:
    """Write the vectors; print what was written."""
    from tfnlp.runs.embedding import embed_files

    config = config_of(options)
    if is_published(options.given_model):  # an index keeps its name, not the place of a copy
        config = config.replace(model=options.given_model)
    found = embed_files(config, options.dtype)
    print(f"{found['texts']:,} texts, {found['size']} numbers each: {', '.join(found['files'])}")

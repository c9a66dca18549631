"""`tfnlp embed`: one vector for each text of files."""

import argparse
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, config_of
from tfnlp.families.use_config import EmbedConfig


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Write one vector for each text of files; the same command again goes on where it stopped."
    )
    add_bf16(add_command(commands, "embed", summary, EmbedConfig))


def run(options: argparse.Namespace) -> None:
    """Write the vectors; print what was written."""
    from tfnlp.runs.embedding import embed_files

    found = embed_files(config_of(options), options.dtype)
    print(f"{found['texts']:,} texts, {found['size']} numbers each: {', '.join(found['files'])}")

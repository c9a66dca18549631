"""`tfnlp inspect`: show what a SavedModel takes and returns."""

import argparse
import json
from typing import Any

from tfnlp.cli.options import add_command


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(
        commands,
        "inspect",
        "Show what a SavedModel offers: what it takes and returns, and whether it can be "
        "fine-tuned.",
    )
    parser.add_argument(
        "directory",
        metavar="DIR",
        help="a SavedModel, or a folder with an encoder or model and its preprocessor; also a "
        ".tar.gz file, an address, hf://org/name or kaggle://owner/model/framework/variation",
    )
    parser.add_argument("--json", action="store_true", help="print a list of modules as JSON")
    parser.add_argument(
        "--audit",
        action="store_true",
        help="say instead what a module could do to this machine: read and write files, run "
        "Python, reach addresses",
    )


def run(options: argparse.Namespace) -> None:
    """Print what is found of each module."""
    from tfnlp.families.published import opened_modules
    from tfnlp.hub import audit
    from tfnlp.runs.front_door import inspect

    if options.audit:
        with opened_modules(options.directory) as folders:
            found = [audit(folder) for folder in folders]
    else:
        found = inspect(options.directory)
    if options.json:
        print(json.dumps([module.to_dict() for module in found], indent=2))
    else:
        print("\n\n".join(map(str, found)))

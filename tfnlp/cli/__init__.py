"""The `tfnlp` command: it parses, calls the functions of the other packages, and prints."""

import sys


def run() -> None:
    """Entry point of the console command; Ctrl-C is one line, from the first import on."""
    try:
        from tfnlp.cli.command import start

        start()
    except KeyboardInterrupt as stop:
        sys.exit(interrupted(stop))


def interrupted(stop: KeyboardInterrupt) -> int:
    """Say that the command was interrupted; return its exit code."""
    print(f"tfnlp: {str(stop) or 'interrupted'}", file=sys.stderr)
    return 130

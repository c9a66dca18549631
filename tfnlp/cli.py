"""The `tfnlp` command: one function a sub-command, errors in one line.

Exit codes: 0 done, 1 the input was at fault (one line on stderr says how), 2 the command line
was, 130 interrupted.
"""

import contextlib
import os
import sys
import warnings

from absl import app, flags, logging
from absl.flags import argparse_flags

from tfnlp import __version__
from tfnlp.commands import (
    evaluate,
    examples,
    export,
    finetune,
    inspect,
    plan,
    predict,
    pretrain,
    vocab,
)
from tfnlp.commands.arguments import HelpFormatter
from tfnlp.commands.devices import several_workers

_DEBUG = flags.DEFINE_bool("debug", False, "Show the traceback of an error.")
COMMANDS = {
    "vocab": vocab,
    "examples": examples,
    "pretrain": pretrain,
    "finetune": finetune,
    "evaluate": evaluate,
    "export": export,
    "inspect": inspect,
    "predict": predict,
    "plan": plan,
}


def parse(argv):
    """The command line, absl flags included, as an argparse namespace."""
    parser = argparse_flags.ArgumentParser(
        prog="tfnlp",
        description="Pretrain language models on your own text and export them as SavedModels.",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tfnlp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        summary = module.__doc__.strip().split("\n")[0]
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=HelpFormatter,
        )
        module.add_arguments(command)
    return parser.parse_args(argv[1:])


def main(args):
    """Runs the sub-command; returns the exit code."""
    logging.set_verbosity(logging.DEBUG if _DEBUG.value else logging.WARNING)
    warnings.showwarning = _show_warning
    try:
        _import_tensorflow(alone=not several_workers(args))
        with _model_here(args):
            COMMANDS[args.command].run(args)
        return 0
    except KeyboardInterrupt as stop:
        print(f"tfnlp: {stop or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads, `head` say, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        if _DEBUG.value:
            raise
        print(f"tfnlp: error: {_one_line(error)}", file=sys.stderr)
        return 1


def run():
    """Entry point of the console command."""
    app.run(lambda args: sys.exit(main(args)), flags_parser=parse)


@contextlib.contextmanager
def _model_here(args):
    """`args.model` in a folder of this machine while a command that only reads it runs."""
    if args.command not in ("evaluate", "export", "predict"):
        yield
        return
    from tfnlp.files import local_copy

    with local_copy(args.model) as args.model:
        yield


def _import_tensorflow(alone):
    """Imports TensorFlow without the lines that its C++ side prints while it loads.

    Args:
        alone: whether this process trains by itself; else its devices must wait for the others.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with _silent_stderr():
        import keras  # noqa: F401
        import tensorflow as tf

        if alone:
            tf.constant(0)  # creates the devices, which prints too


@contextlib.contextmanager
def _silent_stderr():
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _show_warning(message, category, *place, **more):
    if issubclass(category, UserWarning) or _DEBUG.value:
        print(f"tfnlp: warning: {_one_line(message)}", file=sys.stderr)


def _one_line(error):
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    run()

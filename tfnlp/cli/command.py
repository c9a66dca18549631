"""The command's entry point: sub-commands, errors in one line, exit codes.

Exit codes: 0 done, 1 the input was at fault (one line on stderr says how; of `verify` also numbers
that are not equal), 2 the command line was, 130 interrupted.
"""

import argparse
import contextlib
import dataclasses
import difflib
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from absl import app, flags, logging
from absl.flags import argparse_flags

from tfnlp import __version__
from tfnlp.cli import interrupted
from tfnlp.cli.commands import COMMANDS
from tfnlp.cli.options import HelpFormatter, flag_of, with_flags
from tfnlp.files import is_full, write_error
from tfnlp.runs.engine import use_engine
from tfnlp.settings.options import ELSEWHERE, model_place
from tfnlp.settings.training import several_workers

_DEBUG = flags.DEFINE_bool("debug", False, "Show the traceback of an error.")
_REJOINED = "TFNLP_REJOINED"  # set in a worker that was started again
_UNSAID = {MemoryError: "there is not enough memory; choose smaller sizes or fewer texts at once"}


class _Parser(argparse_flags.ArgumentParser):
    """A parser that says in one line what is wrong, with the nearest name."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice:
            message += _meant(choice[1], re.findall(r"[^', ]+", choice[2]))
        end = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, f"{self.prog}: error: {message}{end}\n")

    def parse_args(self, args: list[str], namespace: Any = None) -> argparse.Namespace:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            fields = [f for kind in options.config_classes for f in dataclasses.fields(kind)]
            flags = {flag_of(field) for field in fields if not field.metadata["positional"]}
            given = unknown[0].split("=")[0]
            ours = ELSEWHERE.get(given.lstrip("-").replace("-", "_"), ())
            known = [flag for name in ours if (flag := f"--{name.replace('_', '-')}") in flags]
            hint = f"; did you mean {known[0]}?" if known else _meant(given, flags)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options


def _meant(given: str, names: Collection[str]) -> str:
    return "".join(f"; did you mean {n}?" for n in difflib.get_close_matches(given, names, 1))


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the command line, absl flags included, as an argparse namespace."""
    parser = _Parser(
        prog="tfnlp",
        description="Pretrain language models on your own text and export them as SavedModels.",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tfnlp {__version__}")
    parser.set_defaults(config_classes=())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_to(commands, name)
    for argument in argv[1:]:
        if not argument.isprintable() and argument != argument.encode("utf-8", "ignore").decode():
            shown = os.fsencode(argument).decode("utf-8", "backslashreplace")
            parser.error(f"the argument {shown} is not UTF-8 text")
    return parser.parse_args(argv[1:])


def main(options: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    logging.set_verbosity(logging.DEBUG if _DEBUG.value else logging.WARNING)
    warnings.showwarning = _show_warning
    try:
        _choose_engine(options)
        _import_tensorflow(alone=not several_workers(options))
        from tfnlp.text.pipeline.byte_pairs import missing_tokens_explained
        from tfnlp.training import WorkerLost

        if os.environ.get(_REJOINED):
            options.restart = False  # that was done when the run began
        try:
            with _local_model(options), missing_tokens_explained():
                code = COMMANDS[options.command].run(options) or 0
            sys.stdout.flush()  # so that an error of the last lines is said below
        except WorkerLost as lost:
            _start_again(options, lost)
        return code
    except KeyboardInterrupt as stop:
        return interrupted(stop)
    except BrokenPipeError:  # the reader, `head` say, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (ValueError, OSError, FloatingPointError, ImportError, MemoryError) as error:
        if _DEBUG.value:
            raise
        if is_full(error):  # a folder's, or no file's: those are `WriteError`s
            if error.filename is None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left, at the end
            error = write_error(error.filename or "standard output", error)
        said = with_flags(_one_line(error), options.config_classes)
        print(f"tfnlp: error: {said}", file=sys.stderr)
        return 1


def start() -> None:
    """Parse the command line, run the sub-command and exit."""
    app.run(lambda options: sys.exit(main(options)), flags_parser=parse)


def _start_again(options: argparse.Namespace, lost: Exception) -> None:
    """Replace this process by a new one that waits for the lost worker to come back.

    A cluster of TensorFlow can't be joined twice by one process. The new one goes on from the
    last checkpoint.
    """
    wait = getattr(options, "wait", 300.0)
    print(
        f"tfnlp: {lost}; starting again with it, for which it has {wait:g} seconds",
        file=sys.stderr,
        flush=True,
    )
    os.environ[_REJOINED] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@contextlib.contextmanager
def _local_model(options: argparse.Namespace) -> Iterator[None]:
    """Let a command that only reads its model find it on this machine."""
    if not COMMANDS[options.command].reads_model:
        yield
        return

    from tfnlp.families.recognition import opened

    options.given_model = options.model = model_place(options.model)
    with opened(options.model) as place:
        options.model = place.folder
        yield


def _choose_engine(options: argparse.Namespace) -> None:
    """Choose the backend of Keras before it is imported."""
    if options.command not in ("pretrain", "finetune"):
        os.environ["KERAS_BACKEND"] = "tensorflow"  # what modules and predictions are made with
        return
    given = {name: getattr(options, name, None) for name in ("engine", "strategy", "tpu")}
    use_engine(given["engine"] or "auto", given["strategy"] or "auto", given["tpu"])


def _import_tensorflow(alone: bool) -> None:
    """Import TensorFlow without the lines that its C++ side prints while it loads.

    Args:
        alone: Whether this process trains by itself; else its devices must wait for the others.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_stderr():
        import keras  # noqa: F401
        import tensorflow as tf

        if alone:
            tf.constant(0)  # creates the devices, which prints too


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _show_warning(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
    if issubclass(category, UserWarning) or _DEBUG.value:
        print(f"tfnlp: warning: {_one_line(message)}", file=sys.stderr)


def _one_line(error: Any) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or _UNSAID.get(type(error), type(error).__name__)

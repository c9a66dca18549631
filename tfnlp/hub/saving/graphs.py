"""Graphs of a model for other runtimes, LiteRT and ONNX, written beside its SavedModel.

A path that ends with `.tflite` or `.onnx` is the graph alone. Any other is a folder:

    model.tflite, model.onnx     the graph
    example.py                   a program that calls it
    labels.txt                   of tasks with classes, labels or tags
    thresholds.json              of labels
    transitions.json             of tags
    tokenizer.json, vocab.txt    and other files of the vocabulary
    README.md                    the model card, in exports that have one
"""

import contextlib
import inspect
import logging
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tfnlp.checkpoints.folders import check_new_folder, new_folder
from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.files import named_errors, write_text, written_whole
from tfnlp.hub.modules import graph_example
from tfnlp.hub.saving import litert, onnx
from tfnlp.hub.saving.save import check_free

_CONVERTERS = {"litert": litert, "onnx": onnx}
_FILES = (
    *(f"model{converter.ENDING}" for converter in _CONVERTERS.values()),
    *("example.py", "labels.txt", "thresholds.json", "transitions.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model",),
)


@dataclass(frozen=True)
class Graphs:
    """A model as graphs.

    Attributes:
        places: of "litert" and "onnx" the path of a file, or of a folder for one, or None.
        function_of: function of whether the runtime needs a fixed length to the concrete function.
        title: of the model, for messages.
        beside: function of (folder, name of the graph's file) that writes what a program needs to
            call it into a folder; None: nothing is written.
    """

    places: dict[str, str | os.PathLike | None]
    function_of: Callable[[bool], Any]
    title: str
    beside: Callable[[str, str], None] | None = None

    def paths(self) -> dict[str, str]:
        """Return the kind of each graph that is written to its path, as it was given."""
        return {kind: os.fspath(path) for kind, path in self.places.items() if path is not None}

    def check(self, directory: str | os.PathLike | None = None, overwrite: bool = False) -> None:
        """Raise an error, before anything slow, if something can't be written.

        They can't be in `directory`, the SavedModel that is written with them, if there is one.
        """
        taken = []
        if directory is not None:
            check_free(directory, overwrite)
            taken.append(os.path.abspath(directory))
        for kind, given in self.paths().items():
            _CONVERTERS[kind].check_installed()
            path = os.path.abspath(given)
            for other in taken:
                if os.path.commonpath([other, path]) in (other, path):
                    raise ValueError(f"{kind}={path} is also the place of {other}; choose another")
            taken.append(path)
            if not path.endswith(_CONVERTERS[kind].ENDING):
                check_new_folder(path, _FILES, overwrite)
            elif os.path.isdir(path) or (os.path.exists(path) and not overwrite):
                raise FileExistsError(f"{path} exists; choose another file, or `overwrite` it")

    @contextlib.contextmanager
    def written(self, weights: str | None = None, overwrite: bool = False) -> Iterator[None]:
        """Make the graphs; write them when the block ends without an error.

        For `weights` see `convert` of each; with `overwrite` earlier ones are replaced.
        """
        with contextlib.ExitStack() as stack:
            for kind, path in self.paths().items():
                converter = _CONVERTERS[kind]
                function = self.function_of(converter.FIXED_LENGTH)
                with _silence():
                    data = converter.convert(function, self.title, weights)
                if path.endswith(converter.ENDING):
                    place = os.path.dirname(os.path.abspath(path))
                    with named_errors(path, place):
                        os.makedirs(place, exist_ok=True)
                    partial = stack.enter_context(written_whole(path))
                else:
                    folder = stack.enter_context(new_folder(path, _FILES, overwrite))
                    partial = os.path.join(folder, f"model{converter.ENDING}")
                    if self.beside is not None:
                        self.beside(folder, os.path.basename(partial))
                with open(partial, "wb") as file:
                    file.write(data)
            yield


def write_task_files(
    folder: str, file: str, task_model: Any, write_tokenizer: Callable[[str], None] | None
) -> None:
    """Write labels, thresholds, transitions, vocabulary and example into a graph's folder.

    `write_tokenizer` is a function of the folder that writes `tokenizer.json`; None: there is none,
    and no example then.
    """
    task = task_model.task
    if task.labels:
        write_text(os.path.join(folder, "labels.txt"), "".join(f"{x}\n" for x in task.labels))
    for name, content in task.files(task_model.crf).items():
        write_json(os.path.join(folder, name), content)
    if write_tokenizer is None:
        return
    write_tokenizer(folder)
    write_example(
        folder,
        file,
        task.max_length,
        pairs=task.pairs,
        sequences=task.sequences,
        head=task_model.reader.head,
        **task.example_settings,
    )


def write_example(folder: str, file: str, length: int, **settings: Any) -> None:
    """Write `example.py`, a program that calls a graph with texts, if there is a `tokenizer.json`.

    See `SETTINGS` of `tfnlp.hub.modules.graph_example`.
    """
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        return
    settings = dict(graph_example.SETTINGS, file=file, length=length, **settings)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in settings.items())
    program = re.sub(
        r"(?<=SETTINGS: dict\[str, Any\] = \{\n).*?(?=\}\n)",
        lambda _: lines,
        inspect.getsource(graph_example),
        count=1,
        flags=re.DOTALL,
    )
    write_text(os.path.join(folder, "example.py"), program)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the converters' messages, from Python and C++, off standard error."""
    before = logging.root.manager.disable
    logging.disable()
    with tempfile.TemporaryFile() as sink:
        stderr = os.dup(2)
        try:
            os.dup2(sink.fileno(), 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(before)
            os.dup2(stderr, 2)
            os.close(stderr)

"""What lies beside a task's graph of ids: vocabulary, labels, thresholds, transitions, example."""

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.files import write_text
from tfnlp.hub.modules import graph_example


def write_task_files(
    folder: str, file: str, task_model: Any, write_tokenizer: Callable[[str], None] | None
) -> None:
    """Write them into the folder of a graph's file.

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

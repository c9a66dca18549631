"""What lies beside a task's graph of ids: vocabulary, labels, thresholds, transitions, example."""

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.hub.modules import graph_example
from tfnlp.models.task_heads import crf_of
from tfnlp.tasks.decoding import bio_transitions
from tfnlp.text.lines import write_text

_NEVER = -1e9  # of a tag that may not follow


def write_task_files(
    folder: str, file: str, task_model: Any, write_tokenizer: Callable[[str], None] | None
) -> None:
    """Write them into the folder of a graph's file.

    `write_tokenizer` is a function of the folder that writes `tokenizer.json`; None: there is none,
    and no example then.
    """
    spec = task_model.spec
    if spec.labels:
        write_text(os.path.join(folder, "labels.txt"), "".join(f"{x}\n" for x in spec.labels))
    if spec.output == "tag":
        write_json(os.path.join(folder, "transitions.json"), transitions_of(task_model))
    if spec.output == "label":
        thresholds = spec.thresholds or [0.5] * len(spec.labels)
        found = dict(zip(spec.labels, thresholds, strict=True))
        write_json(os.path.join(folder, "thresholds.json"), found)
    if write_tokenizer is None:
        return
    write_tokenizer(folder)
    write_example(
        folder,
        file,
        spec.output,
        spec.max_length,
        texts=2 if spec.output == "span" else spec.texts,
        sequences=spec.sequences,
        head=task_model.reader.head,
        longest=spec.max_answer,
        threshold=spec.threshold if spec.unanswerable else None,
    )


def write_example(folder: str, file: str, output: str, length: int, **settings: Any) -> None:
    """Write `example.py`, a program that calls a graph with texts, if there is a `tokenizer.json`.

    See `SETTINGS` of `tfnlp.hub.modules.graph_example`.
    """
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        return
    settings = dict(graph_example.SETTINGS, file=file, output=output, length=length, **settings)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in settings.items())
    program = re.sub(
        r"(?<=SETTINGS: dict\[str, Any\] = \{\n).*?(?=\}\n)",
        lambda _: lines,
        inspect.getsource(graph_example),
        count=1,
        flags=re.DOTALL,
    )
    write_text(os.path.join(folder, "example.py"), program)


def transitions_of(task_model: Any) -> dict[str, list]:
    """Return the scores of sequences of tags besides the logits, for Viterbi's algorithm.

    `transitions` `[K, K]`, from a tag to the next, `start` `[K]` and `end` `[K]` are those of a
    CRF, else 0; and -1e9 for what may not follow or begin.
    """
    allowed, begins = bio_transitions(task_model.spec.labels)
    crf = crf_of(task_model.model)
    transitions, start, end = 0.0, 0.0, np.zeros(len(begins))
    if crf is not None:
        transitions, start, end = (np.asarray(x, "float64") for x in crf.scores())
    return {
        "transitions": np.where(allowed, transitions, _NEVER).tolist(),
        "start": np.where(begins, start, _NEVER).tolist(),
        "end": end.tolist(),
    }

"""Vectors of texts by an Apache Beam pipeline: the parts of `tfnlp.runs.embedding`, on any runner.

A part has the same texts and is computed in the same batches wherever it is computed, so that its
vectors are the same, byte for byte on machines of one kind. The texts of a part are a file that
all workers see, `OUTPUT.parts/000000.texts.json`.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

from tfnlp.data.shards.folder import WORK, Folder
from tfnlp.data.shards.runner import Progress
from tfnlp.files import written_whole
from tfnlp.runs.examples import runner_of
from tfnlp.settings.use import EmbedSettings

Load = Callable[[], Callable[[list[str]], np.ndarray]]


class PartHandler(ModelHandler):
    """Numbers of parts to how many texts they have; the vectors are written.

    `load` returns the function of strings to vectors; `path_of` is of (folder, number of a part).
    """

    def __init__(self, folder: str, load: Load, path_of: Callable[[str, int], str]) -> None:
        super().__init__()
        self.folder, self.load_model, self.path_of = folder, load, path_of

    def run_inference(
        self,
        batch: Sequence[int],
        model: Any,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterator[PredictionResult]:
        """Yield the number of texts of each part."""
        for number in batch:
            try:
                with open(_texts_path(self.folder, number), encoding="utf-8") as file:
                    texts = json.load(file)
                vectors = model(texts)
                with written_whole(self.path_of(self.folder, number)) as partial:
                    with open(partial, "wb") as file:
                        np.save(file, vectors)
                note = f"{WORK}/{number:06d}.json"
                Folder(self.folder).write(note, str(len(texts)).encode())
            except (ValueError, OSError) as error:
                Folder(self.folder).keep_error(error)
                raise
            yield PredictionResult(number, len(texts))

    def batch_elements_kwargs(self) -> dict[str, int]:
        """Return that a part is computed at a time: it has thousands of texts."""
        return {"min_batch_size": 1, "max_batch_size": 1}


def run_pipeline(
    config: EmbedSettings,
    load: Load,
    path_of: Callable[[str, int], str],
    texts: Iterator[str],
    folder: str,
    size: int,
) -> tuple[int, int]:
    """Write the parts that are not there yet; return the number of texts and of numbers of each."""
    runner = runner_of(config)
    # Loaded here too: so what is wrong with the model is said before workers start.
    width = len(load()([""])[0])
    work, count, todo = Folder(folder), 0, []
    work.make()
    for number in itertools.count():
        part = list(itertools.islice(texts, size))
        if not part:
            break
        count += len(part)
        if not os.path.exists(path_of(folder, number)):
            work.write(os.path.basename(_texts_path(folder, number)), json.dumps(part).encode())
            todo.append(number)
    if todo:
        handler = PartHandler(os.path.abspath(folder), load, path_of)

        def build(pipeline: beam.Pipeline) -> beam.PCollection:
            return (
                pipeline
                | "parts" >> beam.Create(todo)
                | "spread" >> beam.Reshuffle()
                | "vectors" >> RunInference(handler)
            )

        for name in work.names(WORK):
            work.remove(f"{WORK}/{name}")
        runner.run(build, work, Progress(work, f"parts of {size:,} texts", "0", len(todo)))
    return count, width


def _texts_path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:06d}.texts.json")

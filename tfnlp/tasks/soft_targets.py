"""What a teacher says of the examples of a task, as columns of the batches of its student.

A teacher and its student may read other pieces: of tags each word has what the teacher said of it.
Of spans both must read the same windows, because the distributions are over their positions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfnlp.tasks.encoding import Columns, EncodedExamples
from tfnlp.tasks.task_distillation import SOFT, SOFT_WEIGHTS
from tfnlp.tasks.task_spec import TaskSpec

Arrays = dict[str, np.ndarray]


def soft_outputs(spec: TaskSpec, encoded: EncodedExamples, outputs: Mapping[str, Any]) -> Arrays:
    """Return what a teacher says of E examples, as float32 arrays that a file can keep.

    The arguments are the teacher's, `encoded` the examples as it reads them.

    Returns:
        dict of the names in `SOFT`: logits `[E, K]` or `[E, C]`; scores `[E]` as they are in the
        data; of tags logits `[W, K]` of all words, zeros of one that is not read; of spans logits
        `[N]` of all positions of all windows.
    """
    names = SOFT[spec.output]
    if spec.output == "tag":
        logits = np.zeros((int(encoded.splits[-1]), len(spec.labels)), np.float32)  # [W, K]
        for window, words, chosen in zip(
            outputs["tag_logits"], encoded.windows["token_word"], _chosen(encoded), strict=True
        ):
            logits[words[chosen]] = window[: len(words)][chosen]
        return {names[0]: logits}
    if spec.output == "span":
        ends = ("start_logits", "end_logits")
        return {
            name: np.concatenate(
                [row[:size] for row, size in zip(outputs[end], encoded.sizes, strict=True)]
            )
            for name, end in zip(names, ends, strict=True)
        }
    if spec.output == "score":
        return {names[0]: outputs["score"] * np.float32(spec.deviation) + np.float32(spec.mean)}
    return {names[0]: outputs[f"{spec.output}_logits"]}


def soft_columns(
    spec: TaskSpec, encoded: EncodedExamples, soft: Arrays, labelled: int
) -> tuple[Columns, Arrays]:
    """Return `(tokens, fixed)`, columns as `TaskBatches` takes them for `TaskDistillation`.

    `spec` and `encoded` are the student's; `soft` is what `soft_outputs` returned of the same
    examples, of which the first `labelled` have labels. Those of others are not learnt.
    """
    names = SOFT[spec.output]
    if spec.output == "tag":  # examples without labels have tags that are not learnt
        logits = soft[names[0]]
        columns: Columns = {names[0]: [], SOFT_WEIGHTS: []}
        for words, chosen in zip(encoded.windows["token_word"], _chosen(encoded), strict=True):
            of_pieces = np.where(chosen[:, None], logits[words], 0)  # [n, K]
            columns[names[0]].append(of_pieces.T)  # [K, n]
            columns[SOFT_WEIGHTS].append(of_pieces.any(1).astype(np.float32))
        return columns, {}
    known = (encoded.row < labelled).astype(np.float32)  # [N]
    fixed = {"weights": known, SOFT_WEIGHTS: np.ones_like(known)}
    if spec.output == "span":
        ends = np.cumsum(encoded.sizes)[:-1]
        return {name: np.split(soft[name], ends) for name in names}, fixed
    values = soft[names[0]]
    if spec.output == "score":
        values = ((values - spec.mean) / spec.deviation).astype(np.float32)
    return {}, {**fixed, names[0]: values}


def same_windows(one: EncodedExamples, other: EncodedExamples) -> bool:
    """Return whether two models read the same windows of documents, with the same pieces."""

    def equal(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> bool:
        return len(x) == len(y) and all(map(np.array_equal, x, y))

    words = (encoded.windows["token_word"] for encoded in (one, other))
    return equal(*words) and np.array_equal(one.null_positions, other.null_positions)


def _chosen(encoded: EncodedExamples) -> list[np.ndarray]:
    """Return which piece stands for a word, in the window where it has most context: bool `[n]`."""
    windows = encoded.windows
    return [h & b for h, b in zip(windows["is_head"], windows["is_best"], strict=True)]

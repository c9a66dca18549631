"""Sentences and their translations: pairs of files, line by line, and batches of the pairs."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfnlp.data.corpus.documents import named_files
from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths
from tfnlp.data.labelled.rows import file_lines
from tfnlp.data.rows import held, paths_of, rows_of
from tfnlp.data.texts import texts_of


class ParallelText(NamedTuple):
    """Sentences `sources[i]` with translations `targets[i]`.

    `left_out` counts the lines that were empty on one side or on both.
    """

    sources: list[str]
    targets: list[str]
    left_out: int


def read_parallel(sources: Any, targets: Any) -> ParallelText:
    """Read sentences and their translations: line n of one file translates line n of the other.

    Args:
        sources: UTF-8 files with one sentence per line, or globs; `.gz` is unpacked. Or texts in
            memory, see `tfnlp.data.texts_of`.
        targets: as many files, in the same order, with as many lines each; or as many texts.

    Raises:
        FileNotFoundError, OSError: a file is missing, a folder, or damaged.
        ValueError: a file that is not UTF-8; different numbers of files or lines; no sentence.
    """
    sources, source_texts = _side(sources, "source")
    targets, target_texts = _side(targets, "target")
    if len(sources) != len(targets):
        raise ValueError(
            f"{len(sources)} files of sources and {len(targets)} of targets; give the files in "
            "pairs, in the same order"
        )
    kept, left_out = ([], []), 0
    for source, target, *texts in zip(sources, targets, source_texts, target_texts, strict=True):
        texts = [[line.strip() for line in side] for side in texts]
        if len(texts[0]) != len(texts[1]):
            raise ValueError(
                f"{source} has {len(texts[0])} lines and {target} has {len(texts[1])}; line n of "
                "one must translate line n of the other"
            )
        for pair in zip(*texts, strict=True):
            if all(pair):
                kept[0].append(pair[0])
                kept[1].append(pair[1])
            else:
                left_out += 1
    if not kept[0]:
        raise ValueError(
            f"no sentence in {', '.join(sources)} has a translation in {', '.join(targets)}"
        )
    return ParallelText(*kept, left_out)


def _side(value: Any, argument: str) -> tuple[list[str], Iterable[Iterable[str]]]:
    """Return the names of what holds the sentences of one language, and the sentences of each."""
    value = held(value)
    paths = paths_of(value, argument)
    if paths is None:
        return [argument], [texts_of(value, argument)]
    files = named_files(paths)
    return files, map(file_lines, files)


def parallel_rows(rows: Any, argument: str) -> ParallelText:
    """Return the pairs of rows in memory: lists of two, or tables with `source` and `target`."""
    pairs = []
    for where, row in rows_of(rows, argument):
        pair = [row.get("source"), row.get("target")] if isinstance(row, dict) else row
        if not isinstance(pair, list) or list(map(type, pair)) != [str, str]:
            raise ValueError(
                f"{argument}, {where}: expected a sentence and its translation, or the columns "
                f"source and target; got {row!r:.60}"
            )
        pairs.append(pair)
    return ParallelText(*map(list, zip(*pairs, strict=True)), 0)


def translation_batches(
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    end_id: int,
    *,
    buckets: int = 8,
    **options: Any,
) -> TaskBatches:
    """Return batches of pairs of similar length, see `TaskBatches`, for `objectives.Translation`.

    The encoder reads the source and the end token. The decoder reads the end token, as a start,
    and the target; it predicts the target and the end token. A batch has, all `[B, T]`,

        input_word_ids   int32    source x_1 ... x_n, end; 0 at padding
        input_mask       int32    1 for source and end, 0 at padding
        target_word_ids  int32    end, target y_1 ... y_m; 0 at padding
        target_ids       int32    y_1 ... y_m, end; 0 at padding
        weights          float32  1 for targets that count

    Args:
        sources, targets: ids of each sentence, int [n]; n may be 0.
        end_id: the token that ends sentences.
        buckets: largest number of different lengths T.
        batch_size, pad_all, seed, batch_tokens: see `TaskBatches`.
    """
    names = ("input_word_ids", "input_mask", "target_word_ids", "target_ids", "weights")
    columns = {name: [] for name in names}
    for source, target in zip(sources, targets, strict=True):
        n, m = len(source) + 1, len(target) + 1
        arrays = np.zeros([len(names), max(n, m)], np.int32)
        arrays[0, :n] = [*source, end_id]
        arrays[1, :n] = arrays[4, :m] = 1
        arrays[2, :m] = [end_id, *target]
        arrays[3, :m] = [*target, end_id]
        for name, array in zip(names, arrays, strict=True):
            columns[name].append(array)
    sizes = [len(array) for array in columns["weights"]]
    lengths = bucket_lengths(sizes, buckets, multiple=2)
    return TaskBatches(columns, {}, lengths=lengths, **options)

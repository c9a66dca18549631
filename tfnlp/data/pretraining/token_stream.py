"""A tokenized corpus as one stream, and rows of it, for left-to-right language models.

Rows are windows that cross the ends of documents, or hold documents side by side, each on its own.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.numbered import EpochRows, check_seed, generator
from tfnlp.data.pretraining.packed_rows import PackedRows, Sequences, cut_documents

_BLOCK = 1 << 24  # tokens that are searched at once


def token_stream(corpus: TokenizedCorpus, newline_id: int, end_id: int) -> np.ndarray:
    """Return all documents as one row of tokens.

    `newline_id` is between the sentences (lines, paragraphs) of a document; `end_id` is before the
    first document and after each document.

    Returns:
        int32 `[1 + N + S]`, of a corpus of N tokens in S sentences.
    """
    lengths = np.diff(corpus.sentence_starts)
    first = corpus.begins_document(0, len(lengths))
    return np.append(
        stream_part(corpus.tokens, lengths, first, newline_id, end_id), np.int32(end_id)
    )


def stream_part(
    tokens: np.ndarray, lengths: np.ndarray, first: np.ndarray, newline_id: int, end_id: int
) -> np.ndarray:
    """Return sentences as an int32 `[N + S]` part of a `token_stream`, each with the token before.

    Of each sentence `[S]` the length is known, and whether it is the first of its document.
    """
    starts = np.cumsum(lengths) - lengths + np.arange(len(lengths))
    stream = np.empty(len(tokens) + len(lengths), np.int32)
    between = np.zeros(len(stream), bool)
    between[starts] = True
    stream[starts] = np.where(first, end_id, newline_id)
    stream[~between] = tokens
    return stream


def count_windows(length: int, window: int) -> int:
    """Return the number of windows in an epoch of a stream, the same for every shift."""
    if length <= window:
        raise ValueError(
            f"the text has {length - 1} tokens, fewer than a window of {window}; give more text "
            "or a shorter window"
        )
    return max(1, (length - window) // window)


def window_shift(length: int, window: int, seed: int, epoch: int) -> int:
    """Return the start of the first window of an epoch in a stream of `length` tokens."""
    spare = length - 1 - count_windows(length, window) * window
    rng = generator(seed, epoch)
    return int(rng.integers(0, min(window - 1, spare) + 1))


def window_keys(first: int, last: int, seed: int, epoch: int) -> np.ndarray:
    """Return the keys, uint64, of the windows first to last - 1 of an epoch.

    The windows of an epoch are sorted by (key, number). The keys are numbers of Philox, any part of
    which can be computed alone.
    """
    skip = first % 4  # a block of Philox is four numbers; the first block is that of the shift
    random = np.random.Philox(key=[seed, epoch], counter=1 + first // 4)
    return random.random_raw(skip + last - first)[skip:]


class StreamRows(EpochRows):
    """Rows of T tokens of a stream, and the tokens that follow.

    A subclass also adds `_evaluation(stride)`, the number of rows and what takes some to a batch.

    Args:
        stream: int32 or uint16 `[N]`, see `token_stream`.
        batch_size: B, over all devices.
        window: T.
        seed: int in [0, 2^31).
    """

    def __init__(self, stream: np.ndarray, *, batch_size: int, window: int, seed: int = 0) -> None:
        if window < 1:
            raise ValueError(f"window must be 1 or more; got {window}")
        check_seed(seed)
        super().__init__(batch_size, seed)
        self.stream, self.window = stream, window

    def evaluation_batches(
        self, count: int | None = None, stride: int | None = None
    ) -> tf.data.Dataset:
        """Return every token but the first once as a target, the same batches at every call.

        A text that is longer than T is read in parts `stride` apart, of which only the targets that
        are not in the part before count: all but the first T targets of the text are predicted from
        `T - stride + 1` tokens or more.

        Args:
            count: largest number of batches, taken evenly from the text; None: all.
            stride: from 1 to T; None: T.
        """
        stride = self.window if stride is None else stride
        if not 1 <= stride <= self.window:
            raise ValueError(f"stride must lie in [1, {self.window}], the window; got {stride}")
        return self._spread(*self._evaluation(stride), count)

    def _shuffled(self, epoch: int) -> np.ndarray:
        """Return the numbers of the rows in the order of an epoch."""
        keys = window_keys(0, self.rows_per_epoch, self.seed, epoch)
        return np.argsort(keys, kind="stable")


class TokenWindows(StreamRows):
    """Windows of T tokens and the tokens that follow, a pure function of (stream, seed, step).

    Windows follow each other and cross the ends of documents, so that there is no padding. Each
    epoch shifts them by a number below T and shuffles them, both drawn with (seed, epoch); batches
    are rows of these epochs one after the other. A batch is a dict with B = batch_size:

        input_word_ids  int32   [B, T]
        input_mask      int32   [B, T]  1 for tokens; 0 for padding at the end of an evaluation
        targets         int32   [B, T]  the next token
        weights         float32 [B, T]  1 for targets that count, else 0

    Arguments are those of `StreamRows`.

    Raises:
        ValueError: an argument out of its range, or a stream that is shorter than a window.
    """

    def __init__(self, stream: np.ndarray, *, batch_size: int, window: int, seed: int = 0) -> None:
        super().__init__(stream, batch_size=batch_size, window=window, seed=seed)
        self.rows_per_epoch = self.windows_per_epoch = count_windows(len(stream), window)

    def _evaluation(self, stride: int) -> tuple[int, Callable[[np.ndarray], dict]]:
        within = np.arange(self.window)

        def gather(numbers: np.ndarray) -> dict[str, np.ndarray]:
            new = (within >= self.window - stride) | (numbers == 0)[:, None]
            return self._gather(numbers * stride, new)

        return 1 + max(0, -(-(len(self.stream) - 1 - self.window) // stride)), gather

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the starts of the windows of an epoch, in their order."""
        shift = window_shift(len(self.stream), self.window, self.seed, epoch)
        return shift + self.window * self._shuffled(epoch)

    def _gather(self, rows: np.ndarray, counted: np.ndarray | bool = True) -> dict[str, np.ndarray]:
        """Return the windows from `rows` [B] on; `counted` is bool [B, T]. The rest is padding."""
        places = rows[:, None] + np.arange(self.window + 1)  # [B, T + 1]
        real = places[:, 1:] < len(self.stream)  # places with a target
        ids = self.stream[np.minimum(places, len(self.stream) - 1)]
        return {
            "input_word_ids": np.where(real, ids[:, :-1], 0).astype(np.int32),
            "input_mask": real.astype(np.int32),
            "targets": np.where(real, ids[:, 1:], 0).astype(np.int32),
            "weights": (real & counted).astype(np.float32),
        }


class PackedDocuments(StreamRows):
    """Rows of T tokens with the documents of a stream side by side, each on its own.

    A model that is built with `packed=True` keeps their attention apart and counts their positions
    anew: a row has the loss of its documents alone. Those that are longer than T are cut. Which
    documents share a row follows from the text, see `first_fit`; the order of the rows is drawn
    with (seed, epoch). A batch is that of `TokenWindows`, whose targets are the next token of the
    document or its end, and has

        sequence_ids    int32   [B, T]  the document's number in its row from 1 on, 0 for padding

    Arguments are those of `StreamRows`, and `end_id`, the token at which each document begins.

    Raises:
        ValueError: an argument out of its range, or a stream that does not begin and end with
            `end_id`.
    """

    def __init__(
        self, stream: np.ndarray, end_id: int, *, batch_size: int, window: int, seed: int = 0
    ) -> None:
        super().__init__(stream, batch_size=batch_size, window=window, seed=seed)
        if len(stream) < 2 or not stream[0] == stream[-1] == end_id:
            raise ValueError(f"stream must begin and end with end_id={end_id}; see token_stream")
        blocks = range(0, len(stream), _BLOCK)
        ends = [at + np.flatnonzero(stream[at : at + _BLOCK] == end_id) for at in blocks]
        self._bounds = np.concatenate(ends)
        self._training = self._packed(window)
        self.rows_per_epoch = self._training[1].count

    def _draw(self, epoch: int) -> np.ndarray:
        return self._shuffled(epoch)

    def _evaluation(self, stride: int) -> tuple[int, Callable[[np.ndarray], dict]]:
        packed = self._packed(stride)
        return packed[1].count, lambda rows: self._gather(rows, packed)

    def _packed(self, stride: int) -> tuple[Sequences, PackedRows]:
        """Return the parts of documents and their rows."""
        sequences = cut_documents(self._bounds[:-1], self._bounds[1:], self.window, stride)
        return sequences, PackedRows(sequences.lengths, self.window)

    def _gather(
        self, rows: np.ndarray, packed: tuple[Sequences, PackedRows] | None = None
    ) -> dict[str, np.ndarray]:
        """Return rows of `packed`, or of training; those after the last one are padding."""
        sequences, places = packed or self._training
        sequence, within, sequence_ids = places.places(rows)  # [B, T] each
        real = sequence_ids > 0
        at = np.where(real, sequences.starts[sequence] + within, 0)
        counted = real & (within >= sequences.known[sequence])
        return {
            "input_word_ids": np.where(real, self.stream[at], 0).astype(np.int32),
            "input_mask": real.astype(np.int32),
            "sequence_ids": sequence_ids.astype(np.int32),
            "targets": np.where(real, self.stream[at + 1], 0).astype(np.int32),
            "weights": counted.astype(np.float32),
        }

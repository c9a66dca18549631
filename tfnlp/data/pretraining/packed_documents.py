"""Documents kept apart in rows of several, for left-to-right language models."""

import functools

import numpy as np
import tensorflow as tf

from tfnlp.data.numbered import numbered_batches
from tfnlp.data.pretraining.packed_rows import PackedRows, Sequences, cut_documents
from tfnlp.data.pretraining.token_stream import check_windows, window_keys

_BLOCK = 1 << 24  # tokens that are searched at once


class PackedDocuments:
    """Rows of T tokens with the documents of a stream side by side, each on its own.

    A model that is built with `packed=True` keeps their attention apart and counts their positions
    anew: a row has the loss of its documents alone. Those that are longer than T are cut. Which
    documents share a row follows from the text, see `first_fit`; the order of the rows is drawn
    with (seed, epoch): batches are a pure function of (stream, seed, step). A batch is a dict with
    B = batch_size:

        input_word_ids  int32   [B, T]
        input_mask      int32   [B, T]  1 for tokens, 0 for padding
        sequence_ids    int32   [B, T]  the document's number in its row from 1 on, 0 for padding
        targets         int32   [B, T]  the next token of the document, or its end
        weights         float32 [B, T]  1 for targets that count, else 0

    Args:
        stream: int32 or uint16 `[N]`, see `token_stream`.
        end_id: the token between documents, at which each of them begins.
        batch_size: B, over all devices.
        window: T.
        seed: int in [0, 2^31).

    Raises:
        ValueError: an argument out of its range, or a stream that does not begin and end with
            `end_id`.
    """

    def __init__(
        self, stream: np.ndarray, end_id: int, *, batch_size: int, window: int, seed: int = 0
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        check_windows(window, seed)
        if len(stream) < 2 or not stream[0] == stream[-1] == end_id:
            raise ValueError(f"stream must begin and end with end_id={end_id}; see token_stream")
        self.stream, self.batch_size, self.window, self.seed = stream, batch_size, window, seed
        self._bounds = _places_of(stream, end_id)
        self._train = self._packed(window)
        self._order = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def rows_per_epoch(self) -> int:
        """Rows of an epoch."""
        return self._train[1].count

    @property
    def steps_per_epoch(self) -> float:
        """Rows of an epoch divided by the batch size."""
        return self.rows_per_epoch / self.batch_size

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the batch of a step, see the class."""
        places = int(step) * self.batch_size + np.arange(self.batch_size)
        epochs, places = np.divmod(places, self.rows_per_epoch)
        rows = [self._order(int(e))[p] for e, p in zip(epochs, places, strict=True)]
        return self._gather(*self._train, np.array(rows))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`."""
        numbers = tf.data.Dataset.range(first_step, tf.int64.max)
        return numbered_batches(numbers, self.batch, self._specs())

    def evaluation_batches(
        self, count: int | None = None, stride: int | None = None
    ) -> tf.data.Dataset:
        """Return every token but the first once as a target, the same batches at every call.

        Args:
            count: largest number of batches, taken evenly from the text; None: all.
            stride: tokens from one part of a document that is longer than T to the next, of which
                only targets that are not in the part before count; None: T.

        Raises:
            ValueError: a count or a stride out of its range.
        """
        if count is not None and count < 1:
            raise ValueError(f"count must be None, 1 or more; got {count}")
        stride = self.window if stride is None else stride
        if not 1 <= stride <= self.window:
            raise ValueError(f"stride must lie in [1, {self.window}], the window; got {stride}")
        packed = self._train if stride == self.window else self._packed(stride)
        total = -(-packed[1].count // self.batch_size)
        chosen = np.arange(total)
        if count is not None and count < total:
            chosen = np.arange(count) * total // count

        def batch(number: int) -> dict[str, np.ndarray]:
            rows = int(number) * self.batch_size + np.arange(self.batch_size)
            return self._gather(*packed, rows)

        numbers = tf.data.Dataset.from_tensor_slices(chosen)
        return numbered_batches(numbers, batch, self._specs())

    def _packed(self, stride: int) -> tuple[Sequences, PackedRows]:
        """Return the parts of documents and their rows."""
        sequences = cut_documents(self._bounds[:-1], self._bounds[1:], self.window, stride)
        return sequences, PackedRows(sequences.lengths, self.window)

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the rows of an epoch in their order."""
        keys = window_keys(0, self.rows_per_epoch, self.seed, epoch)
        return np.argsort(keys, kind="stable")

    def _gather(
        self, sequences: Sequences, packed: PackedRows, rows: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return rows; those after the last one are padding."""
        sequence, within, sequence_ids = packed.places(rows)  # [B, T] each
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

    def _specs(self) -> dict[str, tf.TensorSpec]:
        names = ("input_word_ids", "input_mask", "sequence_ids", "targets", "weights")
        return {
            name: tf.TensorSpec(
                [self.batch_size, self.window], tf.float32 if name == "weights" else tf.int32
            )
            for name in names
        }


def _places_of(stream: np.ndarray, token: int) -> np.ndarray:
    """Return where a token is, int64."""
    found = [
        begin + np.flatnonzero(stream[begin : begin + _BLOCK] == token)
        for begin in range(0, len(stream), _BLOCK)
    ]
    return np.concatenate(found)

"""Documents kept apart in rows of several, for left-to-right language models."""

from collections.abc import Callable

import numpy as np

from tfnlp.data.pretraining.packed_rows import PackedRows, Sequences, cut_documents
from tfnlp.data.pretraining.token_stream import StreamRows

_BLOCK = 1 << 24  # tokens that are searched at once


class PackedDocuments(StreamRows):
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
        super().__init__(stream, batch_size=batch_size, window=window, seed=seed)
        if len(stream) < 2 or not stream[0] == stream[-1] == end_id:
            raise ValueError(f"stream must begin and end with end_id={end_id}; see token_stream")
        self._bounds = _places_of(stream, end_id)
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


def _places_of(stream: np.ndarray, token: int) -> np.ndarray:
    """Return where a token is, int64."""
    found = [
        begin + np.flatnonzero(stream[begin : begin + _BLOCK] == token)
        for begin in range(0, len(stream), _BLOCK)
    ]
    return np.concatenate(found)

"""Batches of the cells of a co-occurrence matrix, for GloVe."""

import functools

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.cooccurrence import Cooccurrences
from tfnlp.data.numbered import StackedBatches

_CHUNK = 1 << 16  # cells that are read and shuffled together


class CooccurrenceBatches(StackedBatches):
    """Batches of cells `X_ij`, a pure function of (cells, seed, step).

    Cells are stored in an order without a pattern. Each epoch has all C cells once: chunks of
    65,536 stored cells in an order drawn with (seed, epoch), and the cells of a chunk in an order
    drawn with (seed, epoch, chunk), so that a matrix larger than memory is read from the disk in
    pieces. Batches are rows of these epochs one after the other. A batch is a dict with
    B = batch_size:

        input_word_ids  int32   [B]  i
        context_ids     int32   [B]  j
        counts          float32 [B]  X_ij; 0 for padding at the end of an evaluation

    Args:
        cells: the matrix.
        batch_size: B, over all devices.
        scale: what the X_ij are multiplied by.
        seed: int in [0, 2^63).
    """

    _at_once = 8

    def __init__(
        self, cells: Cooccurrences, *, batch_size: int, scale: float = 1.0, seed: int = 0
    ) -> None:
        self.cells, self.batch_size, self.scale, self.seed = cells, batch_size, scale, seed
        self.num_cells = len(cells.rows)
        self._order = functools.lru_cache(maxsize=2)(self._draw)
        self._shuffled = functools.lru_cache(maxsize=4)(self._read)

    @property
    def steps_per_epoch(self) -> float:
        """Cells divided by the batch size."""
        return self.num_cells / self.batch_size

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return every cell once, in the stored order; the last batch is padded.

        Args:
            count: largest number of batches, the first ones; None: all.
        """
        return self._evaluated(-(-self.num_cells // self.batch_size), count)

    def _batches(self, first: int, count: int) -> dict[str, np.ndarray]:
        """Return the batches first to first + count - 1, stacked on a new first axis."""
        place, last = first * self.batch_size, (first + count) * self.batch_size
        pieces = []
        while place < last:
            epoch, within = divmod(place, self.num_cells)
            chunks, ends = self._order(epoch)
            number = int(np.searchsorted(ends, within, "right"))
            chunk = self._shuffled(epoch, int(chunks[number]))
            left = int(ends[number]) - within  # of the chunk
            end = chunk.shape[1] - left
            piece = chunk[:, end : end + last - place]
            pieces.append(piece)
            place += piece.shape[1]
        found = np.concatenate(pieces, 1).reshape(3, count, self.batch_size)
        return self._named(*found)

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        found = self._stored(number * self.batch_size, self.batch_size)
        return self._named(*np.pad(found, [(0, 0), (0, self.batch_size - found.shape[1])]))

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the order of the chunks of an epoch; return it and where each ends, in cells."""
        chunks = self._generator(epoch, 0).permutation(-(-self.num_cells // _CHUNK))
        sizes = np.minimum(_CHUNK, self.num_cells - chunks * _CHUNK)
        return chunks, np.cumsum(sizes)

    def _read(self, epoch: int, chunk: int) -> np.ndarray:
        """Return the cells of a chunk in the order that they have in an epoch, `[3, n]`."""
        found = self._stored(chunk * _CHUNK, _CHUNK)
        return found[:, self._generator(epoch, chunk + 1).permutation(found.shape[1])]

    def _generator(self, epoch: int, number: int) -> np.random.Generator:
        counter = number << 128  # far from the numbers of other chunks
        return np.random.Generator(np.random.Philox(key=[self.seed, epoch], counter=counter))

    def _stored(self, first: int, count: int) -> np.ndarray:
        """Return stored cells as the bits of i, j and X_ij, int32 `[3, up to count]`."""
        cells, part = self.cells, slice(first, first + count)
        values = (cells.values[part] * np.float32(self.scale)).astype(np.float32)
        return np.stack([cells.rows[part], cells.columns[part], values.view(np.int32)])

    def _named(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> dict:
        return {
            "input_word_ids": rows,
            "context_ids": columns,
            "counts": values.view(np.float32),
        }

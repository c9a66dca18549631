"""Masked windows of whole sentences, which may cross the ends of documents.

Liu et al. 2019 (RoBERTa), section 4.2, FULL-SENTENCES: a row is filled with sentences that follow
each other, up to its length; where a document ends, a separator stands before the next one. As in
fairseq, the windows of all epochs are the same; their order is drawn anew in each epoch and their
masks in each step. A sentence that is longer than a row is cut into several.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import GrowingArray
from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import MaskedRows
from tfnlp.data.pretraining.packing import WindowPacker
from tfnlp.data.pretraining.sentence_pairs import check_ids

_BLOCK = 1 << 16  # sentences that are processed at once


class Windows(NamedTuple):
    """Windows that begin in a part of a corpus.

    Attributes:
        starts: int64 [W], tokens of the part at which they begin.
        used: places that are filled in the last window, which the next part may go on with.
    """

    starts: np.ndarray
    used: int


def fill_windows(lengths: np.ndarray, first: np.ndarray, space: int, used: int) -> Windows:
    """Fill windows with the sentences of a part of a corpus.

    Args:
        lengths: int64 [S], of the sentences.
        first: bool [S], whether a sentence is the first of its document.
        space: places of a window.
        used: those that the part before has filled in its last window; 0 if there is none.
    """
    counts = -(-lengths // space)  # parts of each sentence, all but the last of them full
    ends = np.cumsum(counts)
    parts = np.full(ends[-1], space, np.int64)
    parts[ends - 1] = lengths - (counts - 1) * space
    before = np.zeros(len(parts), np.int64)  # separators
    before[ends - counts] = first
    filled = np.concatenate([[0], np.cumsum(parts + before)])  # [U + 1]
    # The window from part i on ends before part following[i].
    following = np.searchsorted(filled, filled[:-1] + before + space, "right") - 1
    following, visited = following.tolist(), []
    at = int(np.searchsorted(filled, space - used, "right")) - 1 if used else 0
    while at < len(parts):
        visited.append(at)
        at = following[at]
    starts = np.cumsum(parts) - parts
    if not visited:
        return Windows(starts[:0], used + int(filled[-1]))
    last = visited[-1]
    return Windows(starts[visited], int(filled[-1] - filled[last] - before[last]))


def with_separators(tokens: np.ndarray, documents: np.ndarray, sep_id: int) -> np.ndarray:
    """Return the tokens of a window with separators before the documents that begin within it.

    Args:
        tokens: int [N].
        documents: int64 [D], where documents begin among the tokens; only those inside matter.
        sep_id: the separator.
    """
    inside = documents[(documents > 0) & (documents < len(tokens))]
    return np.insert(tokens.astype(np.int32, copy=False), inside, sep_id)


class MaskedWindows(MaskedRows):
    """Batches of packed windows `[CLS] sentences [SEP]`, a pure function of (corpus, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`. A batch is a dict with B = batch_size,
    T = seq_length, P = max_predictions:

        input_word_ids       int32   [B, T]  15 % masked as in BERT, padded
        input_mask           int32   [B, T]  1 for tokens, 0 for padding
        input_type_ids       int32   [B, T]  0
        masked_lm_positions  int32   [B, P]  0 where unused
        masked_lm_ids        int32   [B, P]  the original tokens there
        masked_lm_weights    float32 [B, P]  1 for used positions, else 0

    Args:
        corpus: the text.
        tokenizer: that of the corpus, a sentence tokenizer: has `pad_id`, `unk_id`, `cls_id`,
            `sep_id`, `mask_id`, `vocab_size` and, for `whole_word`, `is_continuation`.
        batch_size: B, over all devices.
        seq_length: T, 8 or more.
        max_predictions: P, at most T.
        seed: int in [0, 2^31).
        mask_rate: fraction of the tokens to predict.
        whole_word: mask all pieces of a word or none.

    Raises:
        ValueError: an argument out of its range, or a corpus with ids the tokenizer does not have.
    """

    random_share = 0.0  # of second segments; there are none

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int = 128,
        max_predictions: int = 20,
        seed: int = 0,
        mask_rate: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        pack = WindowPacker(
            tokenizer,
            batch_size=batch_size,
            seq_length=seq_length,
            max_predictions=max_predictions,
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
        )
        check_ids(corpus, tokenizer)
        self.corpus, self.seq_length = corpus, seq_length
        self._sep_id = int(tokenizer.sep_id)
        self._bounds = self._fill()  # [W + 1], tokens
        self._documents = np.asarray(corpus.sentence_starts)[corpus.document_starts[:-1]]
        specs = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([batch_size], tf.int64)]
        super().__init__(len(self._bounds) - 1, batch_size, seed, specs, pack)

    def window(self, number: int) -> np.ndarray:
        """Return the tokens of a window with its separators, without [CLS] and the last [SEP]."""
        start, end = self._bounds[number : number + 2].tolist()
        first, last = np.searchsorted(self._documents, [start, end])
        documents = self._documents[first:last] - start
        return with_separators(self.corpus.tokens[start:end], documents, self._sep_id)

    def _values(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of windows, int32 [N], and their lengths, int64 [B]."""
        windows = [self.window(number) for number in numbers]
        return np.concatenate(windows), np.array([len(w) for w in windows], np.int64)

    def _fill(self) -> np.ndarray:
        """Return where the windows begin, and the end of the last one: int64 [W + 1], tokens."""
        bounds, used = GrowingArray(np.int64), 0
        for start, lengths, first in _blocks(self.corpus):
            windows = fill_windows(lengths, first, self.seq_length - 2, used)
            bounds.append(start + windows.starts)
            used = windows.used
        bounds.append(np.array([self.corpus.num_tokens], np.int64))
        return bounds.finish()


def _blocks(corpus: TokenizedCorpus) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield a corpus in blocks: the first token, lengths of sentences, whether they begin one."""
    for begin in range(0, corpus.num_sentences, _BLOCK):
        starts = np.asarray(corpus.sentence_starts[begin : begin + _BLOCK + 1])
        yield int(starts[0]), np.diff(starts), begins_document(corpus, begin, len(starts) - 1)


def begins_document(corpus: TokenizedCorpus, begin: int, count: int) -> np.ndarray:
    """Return for `count` sentences from `begin` on whether they begin a document, bool."""
    low, high = np.searchsorted(corpus.document_starts[:-1], [begin, begin + count])
    first = np.zeros(count, bool)
    first[np.asarray(corpus.document_starts[low:high]) - begin] = True
    return first

"""Batches of a corpus of words for language models: windows of text, and n-grams.

Windows are for bidirectional models that keep their state from step to step (Peters et al. 2018,
sections 3.1 and 3.4). The streams are those of bilm-tf
(`BidirectionalLMDataset`): a sentence w1 ... wn has n + 1 places in each direction,

    forward   reads <S> w1 ... wn     and predicts w1 ... wn </S>,
    backward  reads </S> wn ... w1    and predicts wn ... w1 <S>.

The backward stream keeps the order of the sentences, so sentences begin at the same places in both.
bilm-tf fills each row of a batch from its own stream, shuffled by file. Here one stream is cut into
rows, at other places in every epoch, so that a run can resume at any step.
"""

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import CHUNK, scratch
from tfnlp.data.corpus.corpora import LanguageModelCorpus
from tfnlp.data.numbered import Batches, EpochRows, generator

RESETS = ("never", "document", "sentence")


class LanguageModelWindows(Batches):
    """Batches of consecutive windows, a pure function of (corpus, seed, step).

    The stream of all sentences is a ring of N = `corpus.num_tokens` places. An epoch starts at a
    random place, drawn with (seed, epoch), and reads the ring once in B = batch_size rows of N // B
    places. Step n of an epoch has the places n T to (n + 1) T - 1 of each row, T = window: row b of
    a batch continues row b of the batch before. The rest, fewer than B + B T places, is left out. A
    batch is a dict:

        forward_ids       int32   [B, T]  indices into `corpus.lexicon`
        forward_targets   int32   [B, T]  below `corpus.vocab_size`; other words are <UNK>
        backward_ids      int32   [B, T]
        backward_targets  int32   [B, T]
        weights           float32 [B, T]  1 for targets, 0 for padding (in evaluation only)
        resets            bool    [B, T]  unless reset is "never": True at places before which the
                                          state becomes zero, and at the start of an epoch

    Args:
        corpus: the text.
        batch_size: B, over all devices.
        window: T.
        seed: int in [0, 2^63).
        reset: where the state becomes zero: "never" (bilm-tf), or at the start of every
            "document" or "sentence".

    Raises:
        ValueError: an unknown `reset`, or a corpus with fewer than B T targets.
    """

    _parallel = tf.data.AUTOTUNE

    def __init__(
        self,
        corpus: LanguageModelCorpus,
        *,
        batch_size: int,
        window: int = 20,
        seed: int = 0,
        reset: str = "never",
    ) -> None:
        if reset not in RESETS:
            raise ValueError(f"reset must be one of {', '.join(RESETS)}; got {reset!r}")
        total = corpus.num_tokens
        if total < batch_size * window:
            raise ValueError(
                f"the corpus has {total} targets, too few for one batch of {batch_size} rows "
                f"(batch_size) x {window} places (window)"
            )
        self.corpus, self.batch_size, self.window = corpus, batch_size, window
        self.seed, self.reset, self.num_tokens = seed, reset, total
        self._row = -(-total // batch_size)  # places in a row of the evaluation
        self._starts = corpus.target_starts()

    @property
    def steps_per_epoch(self) -> int:
        """Whole windows in a row of an epoch."""
        return self.num_tokens // self.batch_size // self.window

    def batch(self, step: int) -> dict[str, np.ndarray]:
        epoch, number = divmod(int(step), self.steps_per_epoch)
        rng = generator(self.seed, epoch)
        offset = rng.integers(self.num_tokens) + number * self.window
        row = self.num_tokens // self.batch_size * np.arange(self.batch_size)[:, np.newaxis]
        places = offset + row + np.arange(self.window + 1)  # [B, T + 1]
        batch = self._gather(places % self.num_tokens, first=number == 0)
        return {**batch, "weights": np.ones([self.batch_size, self.window], np.float32)}

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return the windows of the stream from its start, with every target once, then padding.

        Rows have ceil(N / B) places, all of which are used. Padding is at the end of rows and has
        the id and the target of `</S>` and weight 0. `count` are the first batches alone.
        """
        return self._evaluated(-(-self._row // self.window), count)

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        within = number * self.window + np.arange(self.window + 1)  # [T + 1]
        rows = np.arange(self.batch_size)[:, np.newaxis]
        places = rows * self._row + within  # [B, T + 1]
        real = ((within < self._row) & (places < self.num_tokens))[:, :-1]  # [B, T]
        batch = self._gather(places % self.num_tokens, first=number == 0)
        for name, value in batch.items():
            value[~real] = False if name == "resets" else self.corpus.end_id
        return {**batch, "weights": real.astype(np.float32)}

    def _gather(self, places: np.ndarray, first: bool) -> dict[str, np.ndarray]:
        """Return the batch of places, int64 [B, T + 1] in [0, N), without its weights."""
        corpus = self.corpus
        sentence = np.searchsorted(self._starts, places, "right") - 1  # [B, T + 1]
        within = places - self._starts[sentence]  # 0 at the first place, then n for word n
        begins = within == 0
        starts, ends = corpus.sentence_starts[sentence], corpus.sentence_starts[sentence + 1]
        batch = {}
        for name, words, begin, end in (
            ("forward", starts + within - 1, corpus.begin_id, corpus.end_id),
            ("backward", ends - within, corpus.end_id, corpus.begin_id),
        ):
            ids = np.where(begins, begin, corpus.ids[np.where(begins, 0, words)])
            # The target of a place is the next word; at the end of a sentence, its end mark.
            targets = np.where(begins, end, ids)[:, 1:]
            targets[targets >= corpus.vocab_size] = corpus.unknown_id
            batch[f"{name}_ids"] = np.ascontiguousarray(ids[:, :-1], np.int32)
            batch[f"{name}_targets"] = targets.astype(np.int32)
        if self.reset != "never":
            resets, sentence = begins[:, :-1], sentence[:, :-1]
            if self.reset == "document":
                document = np.searchsorted(corpus.document_starts, sentence)
                resets = resets & (corpus.document_starts[document] == sentence)
            resets[:, 0] |= first
            batch["resets"] = resets
        return batch


class Ngrams(EpochRows):
    """Batches of n - 1 words and the word after them, a pure function of (corpus, seed, step).

    Every word of a sentence and its end `</S>` are targets, predicted from the words before them in
    the sentence, with `<S>` in front if there are fewer than n - 1. Words that are not in the
    vocabulary are `<UNK>`. Each epoch has all N targets once, in an order drawn with (seed, epoch);
    batches are rows of these epochs one after the other. A batch is a dict with
    B = batch_size:

        input_word_ids  int32   [B, n - 1]  the farthest word first
        targets         int32   [B]
        weights         float32 [B]         1; 0 for padding at the end of an evaluation

    The order of an epoch takes 8 bytes a target; that of a large text is on disk.

    Args:
        corpus: the text.
        context: n - 1.
        batch_size: B, over all devices.
        seed: int in [0, 2^63).
    """

    def __init__(
        self, corpus: LanguageModelCorpus, *, context: int, batch_size: int, seed: int = 0
    ) -> None:
        super().__init__(batch_size, seed)
        self.corpus, self.context = corpus, context
        self.num_tokens = self.rows_per_epoch = corpus.num_tokens
        self._starts = corpus.target_starts()

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return every target once, in the order of the text; the last batch is padded.

        `count` batches are taken evenly from the text.
        """

        def gather(rows: np.ndarray) -> dict[str, np.ndarray]:
            batch = self._gather(np.minimum(rows, self.num_tokens - 1))
            return {**batch, "weights": (rows < self.num_tokens).astype(np.float32)}

        return self._spread(self.num_tokens, gather, count)

    def _draw(self, epoch: int) -> np.ndarray:
        order = scratch(self.num_tokens, np.int64)
        for first in range(0, len(order), CHUNK):
            order[first : first + CHUNK] = np.arange(first, min(first + CHUNK, len(order)))
        generator(self.seed, epoch).shuffle(order)
        return order

    def _gather(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the targets `rows` [B] and the words before them."""
        starts = self.corpus.sentence_starts
        sentence = np.searchsorted(self._starts, rows, "right") - 1  # [B]
        words = rows - sentence  # as many ends of sentences are before a target
        places = words[:, np.newaxis] + np.arange(-self.context, 1)  # [B, n]
        first = starts[sentence][:, np.newaxis]
        real = (places >= first) & (places < starts[sentence + 1][:, np.newaxis])
        ids = self.corpus.ids[np.where(real, places, 0)]
        ids = np.where(ids < self.corpus.vocab_size, ids, self.corpus.unknown_id)
        ids = np.where(places < first, self.corpus.begin_id, ids)
        ids[words == starts[sentence + 1], -1] = self.corpus.end_id
        return {
            "input_word_ids": np.ascontiguousarray(ids[:, :-1], np.int32),
            "targets": np.ascontiguousarray(ids[:, -1], np.int32),
            "weights": np.ones(len(rows), np.float32),
        }

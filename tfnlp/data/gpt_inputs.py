"""Examples of tasks as token sequences for GPT, and batches of them (Radford et al. 2018, fig. 1).

    a text             start text extract
    a pair             start first delimiter second extract
    similarity         start first delimiter second extract; start second delimiter first extract
    multiple choice    start text delimiter answer extract, for each answer

Start, delimiter and extract are new tokens: V, V + 1 and V + 2, after the vocabulary's V.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled import task_batches
from tfnlp.data.labelled.length_buckets import LengthBuckets
from tfnlp.data.labelled.task_files import TaskExample

EXTRA_TOKENS = 3  # start, delimiter, extract


def gpt_sequences(
    examples: Sequence[TaskExample],
    tokenizer,
    vocab_size: int,
    max_length: int = 512,
    both_orders: bool = False,
) -> list[list[np.ndarray]]:
    """The token sequences of each example: [N][C], int32 [n].

    C is 1; 2 with `both_orders`; the number of answers in multiple choice. What is longer than
    `max_length` loses tokens from the end of its longest text (the later of two equals), one by
    one; start, delimiter and extract stay.

    Args:
      examples: see `tfnlp.data.read_classes`, `read_pairs`, `read_choices`.
      tokenizer: has `tokenize(strings [B]) -> ragged int32 [B, (tokens)]`.
      vocab_size: V, the rows of the model's table before it got the three tokens.
      max_length: of a sequence, at most the model's positions.
      both_orders: each pair in both orders, for tasks where order means nothing.

    Raises:
      ValueError: a `max_length` that leaves no token of some text; `both_orders` with examples
        that are not pairs; ids that the vocabulary does not have.
    """
    ids = _tokenize(examples, tokenizer, vocab_size)
    found = []
    for number, example in enumerate(examples):
        texts = [ids[text] for text in example.segments]
        if both_orders and (len(texts) != 2 or example.choices):
            raise ValueError(
                f"examples[{number}] has {len(texts)} texts and {len(example.choices)} choices; "
                "both_orders takes pairs"
            )
        ways = [[*texts, ids[choice]] for choice in example.choices] or [texts]
        if both_orders:
            ways.append(texts[::-1])
        found.append([_sequence(way, vocab_size, max_length) for way in ways])
    return found


def bucket_lengths(
    sequences: Sequence[Sequence[Sequence[int]]], count: int = 6, multiple: int = 4
) -> list[int]:
    """`lengths` for `GPTTaskBatches`: about as many examples up to each as up to the next.

    Args:
      sequences: from `gpt_sequences`.
      count: lengths at most; the last one holds the longest example.
      multiple: each length is rounded up to a multiple of it, but for the last.
    """
    sizes = [max(map(len, example)) for example in sequences]
    return task_batches.bucket_lengths(sizes, count, multiple)


class GPTTaskBatches(LengthBuckets):
    """Examples of similar length share a batch, as `LengthBuckets` has it.

    A batch is a dict with B = batch_size, C sequences an example, T one of `lengths`:

        input_word_ids     int32   [B, C, T]  0 at padding, which is on the right
        input_mask         int32   [B, C, T]  1 for real tokens
        extract_positions  int32   [B, C]     where the last token of a sequence stands
        labels             int32   [B]        or float32, if scores were given
        weights            float32 [B]        1 for examples that count, 0 for those that fill up

    Args:
      sequences: from `gpt_sequences`; the same C for all.
      labels: for each example an int, 0 or more, or a float.
      batch_size: B, over all devices.
      lengths: increasing; an example is padded to the least that holds its longest sequence. None:
        one length, that of the longest. With one length, T is a static shape.
      seed: int in [0, 2^31).

    Raises:
      ValueError: no examples, an example without sequences or with another number of them than the
        first, an empty or a too long sequence, labels that don't match, an argument out of range.
    """

    def __init__(
        self,
        sequences: Sequence[Sequence[Sequence[int]]],
        labels: Sequence[int] | Sequence[float],
        *,
        batch_size: int,
        lengths: Sequence[int] | None = None,
        seed: int = 0,
    ):
        if not len(sequences) or len(sequences) != len(labels):
            raise ValueError(
                f"sequences has {len(sequences)} examples and labels {len(labels)}; expected 1 or "
                "more, and as many"
            )
        count = len(sequences[0])
        for number, example in enumerate(sequences):
            if len(example) != count or not count:
                raise ValueError(
                    f"sequences[{number}] has {len(example)} sequences, sequences[0] {count}; "
                    "expected 1 or more, as many in all examples"
                )
            if not all(map(len, example)):
                raise ValueError(f"sequences[{number}] has an empty sequence; leave it out")
        self.count = count
        self._sizes = np.array([[len(ids) for ids in example] for example in sequences])  # [N, C]
        super().__init__(
            ("sequences", "tokens"),
            self._sizes.max(axis=1),
            batch_size=batch_size,
            lengths=lengths,
            seed=seed,
        )
        self._sequences = sequences
        labels = np.asarray(labels)
        scores = labels.dtype.kind == "f"
        if labels.ndim != 1 or labels.dtype.kind not in "iuf" or (not scores and labels.min() < 0):
            raise ValueError("labels must be one float or one int, 0 or more, for each example")
        self._labels = labels.astype(np.float32 if scores else np.int32)

    def _gather(self, length, rows, real):
        sizes = self._sizes[rows]  # [B, C]
        mask = np.arange(length) < sizes[..., np.newaxis]  # [B, C, T]
        ids = np.zeros(mask.shape, np.int32)
        ids[mask] = np.concatenate([tokens for row in rows for tokens in self._sequences[row]])
        return {
            "input_word_ids": ids,
            "input_mask": mask.astype(np.int32),
            "extract_positions": (sizes - 1).astype(np.int32),
            "labels": self._labels[rows],
            "weights": (np.arange(len(rows)) < real).astype(np.float32),
        }

    def _specs(self, length):
        size, count = self.batch_size, self.count
        return {
            "input_word_ids": tf.TensorSpec([size, count, length], tf.int32),
            "input_mask": tf.TensorSpec([size, count, length], tf.int32),
            "extract_positions": tf.TensorSpec([size, count], tf.int32),
            "labels": tf.TensorSpec([size], tf.as_dtype(self._labels.dtype)),
            "weights": tf.TensorSpec([size], tf.float32),
        }


def _tokenize(examples, tokenizer, vocab_size):
    """Ids of every text: dict of text to int32 array. Texts that come again are cut up once."""
    texts = list(dict.fromkeys(t for e in examples for t in (*e.segments, *e.choices)))
    ragged = tokenizer.tokenize(tf.constant(texts, tf.string))
    ids, splits = ragged.values.numpy().astype(np.int32), ragged.row_splits.numpy()
    if len(ids) and not (0 <= ids.min() and ids.max() < vocab_size):
        raise ValueError(
            f"the tokenizer gave ids from {ids.min()} to {ids.max()}; vocab_size={vocab_size} must "
            "be the vocabulary's that it was made with"
        )
    return dict(zip(texts, np.split(ids, splits[1:-1]), strict=True))


def _sequence(texts, vocab_size, max_length):
    """One sequence of token ids, int32 [n], n <= max_length."""
    start, delimiter, extract = range(vocab_size, vocab_size + EXTRA_TOKENS)
    room = max_length - len(texts) - 1  # that start, extract and the delimiters leave
    if room < len(texts):
        raise ValueError(
            f"max_length={max_length} leaves {max(room, 0)} tokens for {len(texts)} texts; "
            "expected at least one for each"
        )
    sizes = [len(text) for text in texts]
    while sum(sizes) > room:
        longest = max(range(len(sizes)), key=lambda i: (sizes[i], i))
        sizes[longest] -= 1
    parts = []
    for text, size in zip(texts, sizes, strict=True):
        parts += [[delimiter if parts else start], text[:size]]
    return np.concatenate([*parts, [extract]]).astype(np.int32)

"""Tags from logits: those of each word, and the best sequence that is allowed (Viterbi)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfnlp.data.labelled.tag_schemes import OUTSIDE, is_bio
from tfnlp.layers import CRF
from tfnlp.layers.crf import Chain, best_path, marginals

_NEVER = -1e9  # of a tag that may not follow


def word_logits(
    tag_logits: tf.Tensor, windows: Mapping[str, tf.Tensor], count: int | tf.Tensor
) -> tf.Tensor:
    """Return the logits `[W, K]` of W words: those of head pieces where they have most context.

    `tag_logits` are `[N, T, K]`, `windows` those of `pack_windows`, and `count` is W.
    """
    chosen = tf.where(windows["is_head"] & windows["is_best"])  # [W, 2]
    words = tf.gather_nd(windows["token_word"], chosen)
    logits = tf.gather_nd(tag_logits, chosen)  # [W, K]
    shape = tf.stack([tf.cast(count, "int32"), tf.shape(tag_logits)[2]])
    return tf.scatter_nd(words[:, None], logits, shape)


def bio_transitions(labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return which tag may follow which, `[K, K]`, and which may begin, `[K]`, numpy booleans.

    In BIO tags "I-X" follows only "B-X" or "I-X". With any other tags everything is allowed, also
    if there is an "I-X" without "B-X", as a model of another library has that learnt from IOB1.
    """
    allowed = np.ones((len(labels), len(labels)), bool)
    begins = np.ones(len(labels), bool)
    if is_bio(labels) and all(f"B-{label[2:]}" in labels for label in labels if label[:2] == "I-"):
        for j, label in enumerate(labels):
            if label.startswith("I-"):
                begins[j] = False
                allowed[:, j] = [before != OUTSIDE and before[2:] == label[2:] for before in labels]
    return allowed, begins


def chain_scores(labels: Sequence[str], crf: CRF | None) -> dict[str, Any]:
    """Return the scores of sequences of tags besides the logits, for Viterbi's algorithm.

    `transitions` `[K, K]`, from a tag to the next, `start` `[K]` and `end` `[K]` are those of a
    CRF, else 0; and -1e9 for what may not follow or begin.
    """
    allowed, begins = bio_transitions(labels)
    zeros = np.zeros(len(labels), np.float32)
    transitions, start, end = (zeros, zeros, zeros) if crf is None else crf.scores()
    return {
        "transitions": ops.where(allowed, transitions, _NEVER),
        "start": ops.where(begins, start, _NEVER),
        "end": ops.convert_to_tensor(end),
    }


def best_tags(
    logits: tf.Tensor, lengths: tf.Tensor, labels: Sequence[str], crf: CRF | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the most probable sequence of tags that is allowed.

    Args:
        logits: float32 `[B, W, K]`, the emissions of the CRF, if there is one.
        lengths: int32 `[B]`, words of a row.
        labels: the K tags, see `bio_transitions`.
        crf: None: each word's tag has the odds of a softmax.

    Returns:
        `(tags, probabilities)` `[B, W]`: without a CRF the softmax at each word alone, with one the
        share of the tag among all allowed sequences (0 at padding, where tags mean nothing).
    """
    chain = (lengths, *chain_scores(labels, crf).values())
    if crf is not None:
        tags, odds = _in_backend(_best, logits, *chain), _in_backend(_odds, logits, *chain)
        return tags, tf.gather(odds, tags, batch_dims=2)
    scores = tf.nn.log_softmax(logits)
    if bio_transitions(labels)[0].all():
        tags = tf.argmax(scores, -1, output_type="int32")
    else:
        tags = _in_backend(_best, scores, *chain)
    return tags, tf.exp(tf.gather(scores, tags, batch_dims=2))


def _in_backend(function: Callable[..., Any], scores: tf.Tensor, *arguments: Any) -> tf.Tensor:
    """Return a function of an array and others in Keras's backend, as TensorFlow's tensor."""
    if keras.backend.backend() == "tensorflow":
        return function(scores, *arguments)
    found = function(np.asarray(scores), *[np.asarray(x) for x in arguments])
    return tf.convert_to_tensor(np.asarray(found))


def _best(scores: Any, *chain: Any) -> Any:
    """Return the best sequences, int32 `[B, W]`, of what `_chain` takes."""
    tags, _ = best_path(*_chain(scores, *chain))  # [W + 1, B + 1]
    return ops.transpose(tags[:-1, :-1])


def _odds(scores: Any, *chain: Any) -> Any:
    """Return the marginals, float32 `[B, W, K]`, of what `_chain` takes."""
    odds = marginals(*_chain(scores, *chain))  # [W + 1, B + 1, K]
    return ops.transpose(odds[:-1, :-1], (1, 0, 2))


def _chain(scores: Any, lengths: Any, transitions: Any, start: Any, end: Any) -> tuple[Chain, Any]:
    """Return a chain of `scores` `[B, W, K]`, and where words are.

    It has one row and one column of padding more, so that there is at least one of each.
    """
    columns = ops.transpose(ops.cast(scores, "float32"), (1, 0, 2))
    columns = ops.reshape(columns, (*ops.shape(columns)[:2], start.shape[0]))  # K is known
    columns = ops.pad(columns, [[0, 1], [0, 1], [0, 0]])  # [W + 1, B + 1, K]
    places = ops.arange(ops.shape(columns)[0], dtype="int32")
    live = places[:, None] < ops.pad(ops.cast(lengths, "int32"), [[0, 1]])  # [W + 1, B + 1]
    return Chain(columns, *map(ops.convert_to_tensor, (transitions, start, end))), live


def decode_tags(
    logits: tf.Tensor, row_splits: tf.Tensor, labels: Sequence[str], crf: CRF | None = None
) -> dict[str, tf.Tensor]:
    """Return the most probable allowed tags of sentences, see `best_tags`.

    `logits` are those of all words, `[W, K]`, and `row_splits` `[B + 1]` where each sentence begins
    and ends among them. A CRF runs over all words of a sentence, also one in windows.

    Returns:
        dict of `tags`, strings `[B, T]`, and `probabilities` `[B, T]`, "" and 0 at padding.
    """
    rows = tf.RaggedTensor.from_row_splits(logits, row_splits)
    lengths = tf.cast(rows.row_lengths(), "int32")
    tags, probabilities = best_tags(rows.to_tensor(), lengths, labels, crf)
    real = tf.sequence_mask(lengths, tf.shape(tags)[1])
    return {
        "tags": tf.where(real, tf.gather(tf.constant(labels), tags), ""),
        "probabilities": tf.where(real, probabilities, 0.0),
    }

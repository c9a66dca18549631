"""Decoding of a task model's outputs inside the TensorFlow graph: labels, scores, tags, answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfnlp.data.labelled.tag_schemes import OUTSIDE, is_bio
from tfnlp.layers import CRF
from tfnlp.layers.kernels.chain import Chain, best_path, marginals
from tfnlp.tasks.task_spec import TaskSpec

Tensors = dict[str, tf.Tensor]

_NEVER = -1e9  # below the score of any span
_BEST = 20  # spans that are compared, as in `run_squad.py`


def span_candidates(
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    windows: Mapping[str, tf.Tensor],
    max_answer: int,
) -> Tensors:
    """Return the best spans of each window and the score of "no answer".

    `score(i, j) = start_i + end_j` for `i <= j < i + max_answer`, i the first piece of a word
    in the window where it has most context, j the last piece of a word (BERT, section 4.2;
    `run_squad.py`). All such
    spans are compared.

    Args:
        start_logits, end_logits: float32 `[N, T]`.
        windows: dict of `token_word`, `is_best` `[N, T]` and `null_positions` `[N]`, see
            `pack_windows`.
        max_answer: longest span in pieces.

    Returns:
        dict of `scores`, `starts` and `ends` (words) `[N, K]`, and `null` `[N]`,
        `start_0 + end_0` at the null position.
    """
    word = windows["token_word"]
    length = tf.shape(word)[1]
    first = word != tf.pad(word[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    last = word != tf.pad(word[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    starts = tf.where((word >= 0) & first & windows["is_best"], start_logits, _NEVER)
    ends = tf.pad(
        tf.where((word >= 0) & last, end_logits, _NEVER),
        [[0, 0], [0, max_answer - 1]],
        constant_values=_NEVER,
    )
    sums = [starts + ends[:, later : later + length] for later in range(max_answer)]
    scores = tf.reshape(tf.stack(sums, 2), [-1, length * max_answer])  # [N, T*A]
    best = tf.math.top_k(scores, tf.minimum(_BEST, length * max_answer))
    i = best.indices // max_answer
    j = tf.minimum(i + best.indices % max_answer, length - 1)
    null = windows["null_positions"][:, None]
    null = tf.gather(start_logits, null, batch_dims=1) + tf.gather(end_logits, null, batch_dims=1)
    return {
        "scores": best.values,
        "starts": tf.gather(word, i, batch_dims=1),
        "ends": tf.gather(word, j, batch_dims=1),
        "null": null[:, 0],
    }


def best_spans(
    candidates: Mapping[str, tf.Tensor], window_row: tf.Tensor, rows: int | tf.Tensor
) -> Tensors:
    """Return the best spans of each question over all of its windows.

    Args:
        candidates: from `span_candidates`, over N windows.
        window_row: int32 `[N]`, ascending, the question of a window.
        rows: B, the number of questions.

    Returns:
        dict of `scores` (below `-1e8`: no span), `starts` and `ends` `[B, K]`, the best first, and
        `null` `[B]`, the minimum over the windows.
    """

    def together(x: tf.Tensor, default: float) -> tf.Tensor:
        parts = tf.RaggedTensor.from_value_rowids(x, window_row, rows).to_tensor(default)
        return tf.reshape(parts, [rows, -1])  # [B, W*K]

    scores = together(candidates["scores"], 2 * _NEVER)
    scores = tf.pad(scores, [[0, 0], [0, _BEST]], constant_values=2 * _NEVER)
    best = tf.math.top_k(scores, _BEST)
    found = {"scores": best.values}
    for name in ("starts", "ends"):
        words = tf.pad(together(candidates[name], -1), [[0, 0], [0, _BEST]], constant_values=-1)
        found[name] = tf.gather(words, best.indices, batch_dims=1)
    found["null"] = tf.math.unsorted_segment_min(candidates["null"], window_row, rows)
    return found


def answers(
    spans: Mapping[str, tf.Tensor],
    contexts: tf.Tensor,
    starts: tf.Tensor,
    ends: tf.Tensor,
    unanswerable: bool = False,
    threshold: float | tf.Tensor = 0.0,
) -> Tensors:
    """Return the spans as text of the contexts.

    Args:
        spans: from `best_spans`.
        contexts: strings `[B]`.
        starts, ends: int64 `[W]`, where the words begin and end, see `TaskEncoder.questions`.
        unanswerable: compare "no answer" with the spans.
        threshold: see `TaskSpec`.

    Returns:
        dict of `answer` `[B]`, "" for none, its `score` `[B]`, a softmax over the scores of the
        best spans (and none), `start` and `end` `[B]`, int64, in bytes of the context;
        `null_score` `[B]`, `null - best`; and all best, `answers` and `scores` `[B, K]`.
    """
    real = spans["scores"] > _NEVER / 10
    padded_starts, padded_ends = (tf.concat([x, [0]], 0) for x in (starts, ends))
    start = tf.where(real, tf.gather(padded_starts, tf.where(real, spans["starts"], 0)), 0)
    end = tf.where(real, tf.gather(padded_ends, tf.where(real, spans["ends"], 0)), 0)
    texts = tf.strings.substr(
        tf.repeat(contexts[:, None], tf.shape(start)[1], 1), start, end - start
    )  # [B, K]
    null_score = spans["null"] - spans["scores"][:, 0]
    logits = tf.where(real, spans["scores"], _NEVER)
    if unanswerable:
        logits = tf.concat([logits, spans["null"][:, None]], 1)
    probabilities = tf.where(
        tf.reduce_any(logits > _NEVER / 10, 1, keepdims=True), tf.nn.softmax(logits), 0.0
    )
    scores = probabilities[:, : tf.shape(texts)[1]] * tf.cast(real, "float32")
    answer, score = texts[:, 0], scores[:, 0]
    none = ~real[:, 0]
    if unanswerable:
        none |= null_score > threshold
        score = tf.where(none, probabilities[:, -1], score)
    return {
        "answer": tf.where(none, "", answer),
        "score": score,
        "start": tf.where(none, tf.zeros_like(start[:, 0]), start[:, 0]),
        "end": tf.where(none, tf.zeros_like(end[:, 0]), end[:, 0]),
        "null_score": null_score,
        "answers": texts,
        "scores": scores,
    }


def word_logits(
    tag_logits: tf.Tensor, windows: Mapping[str, tf.Tensor], count: int | tf.Tensor
) -> tf.Tensor:
    """Return the logits of each word: those of its head piece where that has most context.

    Args:
        tag_logits: float32 `[N, T, K]`.
        windows: dict of `token_word`, `is_head` and `is_best` `[N, T]`, see `pack_windows`.
        count: W, the number of words.

    Returns:
        float32 `[W, K]`.
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


def best_tags(
    logits: tf.Tensor, lengths: tf.Tensor, labels: Sequence[str], crf: CRF | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the most probable sequence of tags that is allowed (Viterbi).

    Args:
        logits: float32 `[B, W, K]`.
        lengths: int32 `[B]`, words of a row.
        labels: the K tags, see `bio_transitions`.
        crf: whose emissions the logits are; None: each word's tag has the odds of a softmax.

    Returns:
        `(tags, probabilities)`: int32 `[B, W]`, without meaning at padding, and float32 `[B, W]`:
        without a CRF the softmax at each word alone, with one the share of the tag among all
        allowed sequences (0 at padding).
    """
    allowed, begins = bio_transitions(labels)
    if crf is None:
        scores = tf.nn.log_softmax(logits)
        if allowed.all():
            tags = tf.argmax(scores, -1, output_type="int32")
        else:
            zeros = np.zeros(len(labels), np.float32)
            moves = np.zeros_like(allowed, np.float32)
            tags = _in_backend(_best, scores, lengths, moves, zeros, zeros, allowed, begins)
        return tags, tf.exp(tf.gather(scores, tags, batch_dims=2))
    chain = (logits, lengths, *crf.scores(), allowed, begins)
    tags, odds = _in_backend(_best, *chain), _in_backend(_odds, *chain)
    return tags, tf.gather(odds, tags, batch_dims=2)


def _in_backend(function: Callable[..., Any], scores: tf.Tensor, *arguments: Any) -> tf.Tensor:
    """Return a function of an array and others in Keras's backend, as TensorFlow's tensor."""
    if keras.backend.backend() == "tensorflow":
        return function(scores, *arguments)
    found = function(np.asarray(scores), *[np.asarray(x) for x in arguments])
    return tf.convert_to_tensor(np.asarray(found))


def _best(scores: Any, *chain: Any) -> Any:
    """Return the best sequences, int32 `[B, W]`, of what `_allowed` takes."""
    tags, _ = best_path(*_allowed(scores, *chain))  # [W + 1, B + 1]
    return ops.transpose(tags[:-1, :-1])


def _odds(scores: Any, *chain: Any) -> Any:
    """Return the marginals, float32 `[B, W, K]`, of what `_allowed` takes."""
    odds = marginals(*_allowed(scores, *chain))  # [W + 1, B + 1, K]
    return ops.transpose(odds[:-1, :-1], (1, 0, 2))


def _allowed(
    scores: Any,
    lengths: Any,
    transitions: Any,
    start: Any,
    end: Any,
    allowed: np.ndarray,
    begins: np.ndarray,
) -> tuple[Chain, Any]:
    """Return a chain of `scores` `[B, W, K]` without what is not allowed, and where words are.

    It has one row and one column of padding more, so that there is at least one of each.
    """
    columns = ops.transpose(ops.cast(scores, "float32"), (1, 0, 2))
    columns = ops.reshape(columns, (*ops.shape(columns)[:2], len(begins)))  # K is known
    columns = ops.pad(columns, [[0, 1], [0, 1], [0, 0]])  # [W + 1, B + 1, K]
    places = ops.arange(ops.shape(columns)[0], dtype="int32")
    live = places[:, None] < ops.pad(ops.cast(lengths, "int32"), [[0, 1]])  # [W + 1, B + 1]
    moves = ops.where(allowed, transitions, _NEVER)
    return Chain(columns, moves, ops.where(begins, start, _NEVER), ops.convert_to_tensor(end)), live


def decode_classes(outputs: Mapping[str, tf.Tensor], spec: TaskSpec) -> Tensors:
    """Return the `label`, strings `[B]`, and `probabilities` `[B, K]` of `class_logits`."""
    probabilities = tf.nn.softmax(outputs["class_logits"])
    best = tf.argmax(probabilities, -1)
    return {"label": tf.gather(tf.constant(spec.labels), best), "probabilities": probabilities}


def decode_labels(outputs: Mapping[str, tf.Tensor], spec: TaskSpec) -> Tensors:
    """Return `labels`, strings `[B, K]`, and `probabilities` `[B, K]` of `label_logits`.

    A label whose probability is at least its threshold stands at its place, elsewhere "" does.
    """
    probabilities = tf.nn.sigmoid(outputs["label_logits"])
    thresholds = tf.constant(spec.thresholds or [0.5] * len(spec.labels), tf.float32)
    labels = tf.where(probabilities >= thresholds, tf.constant(spec.labels), "")
    return {"labels": labels, "probabilities": probabilities}


def decode_scores(outputs: Mapping[str, tf.Tensor], spec: TaskSpec) -> Tensors:
    """Return the `score` `[B]` in the units of the training data."""
    return {"score": tf.convert_to_tensor(outputs["score"]) * spec.deviation + spec.mean}


def decode_choices(outputs: Mapping[str, tf.Tensor]) -> Tensors:
    """Return the `choice`, int32 `[B]`, and `probabilities` `[B, C]` of `choice_logits`."""
    probabilities = tf.nn.softmax(outputs["choice_logits"])
    best = tf.argmax(probabilities, -1, output_type="int32")
    return {"choice": best, "probabilities": probabilities}


def decode_tags(
    logits: tf.Tensor, row_splits: tf.Tensor, labels: Sequence[str], crf: CRF | None = None
) -> Tensors:
    """Return the most probable allowed tags of sentences, see `best_tags`.

    Args:
        logits: float32 `[W, K]` of all words, from `word_logits`.
        row_splits: int64 `[B + 1]`, where each sentence begins and ends among the W words.
        labels: the K tags.
        crf: see `best_tags`. The chain runs over all words of a sentence, also one in windows.

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


def decode_answers(
    candidates: Mapping[str, tf.Tensor],
    window_row: tf.Tensor,
    contexts: tf.Tensor,
    words: tuple[tf.Tensor, tf.Tensor],
    spec: TaskSpec,
) -> Tensors:
    """Return the answers to questions from the spans of their windows.

    See `best_spans` and `answers`; `words` are `(starts, ends)`.
    """
    spans = best_spans(candidates, window_row, tf.size(contexts))
    return answers(spans, contexts, *words, spec.unanswerable, spec.threshold)

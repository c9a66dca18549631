"""Answers in documents: the best spans of windows, and of all windows of a question."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

NEVER = -1e9  # below the score of any span
_BEST = 20  # spans that are compared, as in `run_squad.py`


def span_candidates(
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    windows: Mapping[str, tf.Tensor],
    max_answer: int,
) -> dict[str, tf.Tensor]:
    """Return the best spans of each window and the score of "no answer".

    `score(i, j) = start_i + end_j` for all `i <= j < i + max_answer`, i the first piece of a word
    in the window where it has most context, j the last piece of a word (BERT, section 4.2;
    `run_squad.py`), of logits `[N, T]` and the windows of `pack_windows`.

    Returns:
        dict of `scores`, `starts` and `ends` (words) `[N, K]`, and `null` `[N]`,
        `start_0 + end_0` at the null position.
    """
    word = windows["token_word"]
    length = tf.shape(word)[1]
    first = word != tf.pad(word[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    last = word != tf.pad(word[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    starts = tf.where((word >= 0) & first & windows["is_best"], start_logits, NEVER)
    ends = tf.pad(
        tf.where((word >= 0) & last, end_logits, NEVER),
        [[0, 0], [0, max_answer - 1]],
        constant_values=NEVER,
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
) -> dict[str, tf.Tensor]:
    """Return the best spans of each question over all of its windows.

    `candidates` are those of N windows, `window_row` `[N]`, ascending, their questions, of which
    there are B `rows`.

    Returns:
        dict of `scores` (below `-1e8`: no span), `starts` and `ends` `[B, K]`, the best first, and
        `null` `[B]`, the minimum over the windows.
    """

    def together(x: tf.Tensor, default: float) -> tf.Tensor:
        parts = tf.RaggedTensor.from_value_rowids(x, window_row, rows).to_tensor(default)
        return tf.reshape(parts, [rows, -1])  # [B, W*K]

    scores = together(candidates["scores"], 2 * NEVER)
    scores = tf.pad(scores, [[0, 0], [0, _BEST]], constant_values=2 * NEVER)
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
) -> dict[str, tf.Tensor]:
    """Return the spans as text of the contexts.

    `spans` are those of `best_spans`; `starts` and `ends` `[W]` say where words begin and end, see
    `read_in_places`. With `unanswerable` "no answer" is compared with the spans, see `Answer`.

    Returns:
        dict of `answer` `[B]`, "" for none, its `score` `[B]`, a softmax over the scores of the
        best spans (and none), `start` and `end` `[B]`, int64, in bytes of the context;
        `null_score` `[B]`, `null - best`; and all best, `answers` and `scores` `[B, K]`.
    """
    real = spans["scores"] > NEVER / 10
    padded_starts, padded_ends = (tf.concat([x, [0]], 0) for x in (starts, ends))
    start = tf.where(real, tf.gather(padded_starts, tf.where(real, spans["starts"], 0)), 0)
    end = tf.where(real, tf.gather(padded_ends, tf.where(real, spans["ends"], 0)), 0)
    texts = tf.strings.substr(
        tf.repeat(contexts[:, None], tf.shape(start)[1], 1), start, end - start
    )  # [B, K]
    null_score = spans["null"] - spans["scores"][:, 0]
    logits = tf.where(real, spans["scores"], NEVER)
    if unanswerable:
        logits = tf.concat([logits, spans["null"][:, None]], 1)
    probabilities = tf.where(
        tf.reduce_any(logits > NEVER / 10, 1, keepdims=True), tf.nn.softmax(logits), 0.0
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

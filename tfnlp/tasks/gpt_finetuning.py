"""GPT fine-tuned on a task, with language modelling beside it."""

import math

import keras
import tensorflow as tf

from tfnlp.tasks.task import Task

_KINDS = {"class": "class_logits", "choice": "choice_logits", "score": "score"}
_MOMENTS = ("x", "y", "xx", "yy", "xy")  # x: what the model says, y: the label


class GPTFineTuning(Task):
    """`loss = L_task + lambda L_lm` (Radford et al. 2018, section 3.2, eq. 5).

    `L_task` is `-log softmax(logits)[label]` or, for scores, `(score - label)^2`, a mean over
    examples. `L_lm = -log softmax(E h_t)[id_{t+1}]` with the table of the tokens E, the mean over
    all real tokens but the first of each sequence; those of the task's own tokens are among them,
    as in the reference code (which takes means of sequences first).

    Args:
        model: from `tfnlp.models.gpt_task`. Its output gives the loss its name, "class", "choice"
            or "score".
        lm_weight: lambda, 0.5 in the paper; with 0 the language model's softmax is never taken.

    Batch: see `tfnlp.data.GPTTaskBatches`.

    Raises:
        ValueError: for a negative `lm_weight`, or a model of other outputs.
    """

    def __init__(self, model, lm_weight=0.5):
        super().__init__(model)
        kinds = [kind for kind, name in _KINDS.items() if name in model.output]
        if len(kinds) != 1 or "sequence_output" not in model.output:
            raise ValueError(
                f"model must have `sequence_output` and one of {', '.join(_KINDS.values())}; got "
                f"{sorted(model.output)}; build it with tfnlp.models.gpt_task"
            )
        if lm_weight < 0:
            raise ValueError(f"lm_weight={lm_weight} must not be negative")
        (self.kind,), self.lm_weight = kinds, lm_weight
        (encoder,) = [layer for layer in model.layers if isinstance(layer, keras.Model)]
        self._table = encoder.get_layer("token_embedding")

    def targets(self, batch):
        """Examples and, with a language model, tokens to predict: dict of float32 scalars."""
        counts = {self.kind: tf.reduce_sum(batch["weights"])}
        if self.lm_weight:
            counts["lm"] = tf.reduce_sum(_lm_weights(batch))
        return counts

    def losses(self, batch, outputs):
        """Sums over the targets: dict of float32 scalars; that of "lm" is lambda times its sum."""
        found = tf.cast(outputs[_KINDS[self.kind]], "float32")
        if self.kind == "score":
            losses = tf.square(found - batch["labels"])  # [B]
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch["labels"], logits=found
            )  # [B]
        sums = {self.kind: tf.reduce_sum(losses * batch["weights"])}
        if self.lm_weight:
            sums["lm"] = self.lm_weight * self._lm_loss(batch, outputs["sequence_output"])
        return sums

    def metrics(self, batch, outputs):
        """Numerator of the accuracy; for scores those of the means that Pearson's r is made of."""
        weights = batch["weights"]
        found = outputs[_KINDS[self.kind]]
        if self.kind != "score":
            right = tf.argmax(found, axis=-1, output_type="int32") == batch["labels"]
            hits = tf.reduce_sum(tf.cast(right, "float32") * weights)
            return {f"{self.kind}_accuracy": (self.kind, hits)}
        x, y = tf.cast(found, "float32"), batch["labels"]
        moments = zip(_MOMENTS, (x, y, x * x, y * y, x * y), strict=True)
        return {
            f"score_{name}": (self.kind, tf.reduce_sum(value * weights)) for name, value in moments
        }

    def report(self, means):
        """`lm_loss` without lambda, and `lm_perplexity`; `score_pearson` in place of its moments.

        `loss` stays what is minimised. Pearson's r is 0 where all scores or labels are equal.
        """
        report = dict(means)
        if self.lm_weight:
            report["lm_loss"] = means["lm_loss"] / self.lm_weight
            report["lm_perplexity"] = _exp(report["lm_loss"])
        if self.kind == "score":
            x, y, xx, yy, xy = (report.pop(f"score_{name}") for name in _MOMENTS)
            variance = max(0.0, xx - x * x) * max(0.0, yy - y * y)
            report["score_pearson"] = (xy - x * y) / variance**0.5 if variance else 0.0
        return report

    def _lm_loss(self, batch, hidden):
        """The sum of `-log p` over all targets, `hidden` [B, C, T, H]."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["input_word_ids"][:, :, 1:],
            logits=self._table(hidden[:, :, :-1], reverse=True),  # [B, C, T-1, V]
        )
        return tf.reduce_sum(losses * _lm_weights(batch))


def _lm_weights(batch):
    """1 for each token that is predicted, float32 [B, C, T-1]."""
    real = tf.cast(batch["input_mask"][:, :, 1:], "float32")
    return real * batch["weights"][:, None, None]


def _exp(x):
    return math.exp(x) if x < 700 else math.inf

"""Fine-tuning on classes, labels, scores, choices, tags or spans; GPT's with its language model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.models.task_heads import crf_of
from tfnlp.objectives.cross_entropy import (
    TiedSoftmax,
    best_class,
    cross_entropy,
    smoothed_cross_entropy,
)
from tfnlp.objectives.objective import (
    Batch,
    Objective,
    Sums,
    Tensors,
    perplexity,
    without_padding,
)

# The outputs of a model of each kind.
KINDS = {
    "class": ("class_logits",),
    "label": ("label_logits",),
    "score": ("score",),
    "scores": ("scores",),
    "choice": ("choice_logits",),
    "tag": ("tag_logits",),
    "span": ("start_logits", "end_logits"),
}
# Inputs with and without an axis of positions, the last one.
_OF_POSITIONS = {"input_word_ids", "input_mask", "input_type_ids", "sequence_ids"}
_OF_ROWS = {"extract_positions", "first_positions"}
_MOMENTS = ("x", "y", "xx", "yy", "xy")  # x: the model's score, y: the label


class FineTuning(Objective):
    """`loss = sum_i w_i L_i / sum_i w_i`, i over examples or, for tags, over tokens.

    `L_i = -log softmax(logits_i)[label_i]` for classes, choices and tags, `(score_i - label_i)^2`
    for scores (of several their mean), and for spans the mean of the two
    `-log softmax(logits_i)[position_i]` of start and end (Devlin et al. 2019, section 4.2, takes
    their sum; its code the mean). Of tags with a CRF
    `loss = -sum_b log p(tags_b) / sum_i w_i`: the chain of a row runs over its real targets.

    Of labels, any number of K at once, `L_i = -1/K sum_k [y_ik log s(z_ik) + (1 - y_ik) log(1 -
    s(z_ik))]` with the logistic function s: K independent decisions, y 1 for those that hold.

    With `label_smoothing` e the label of K classes becomes `q = (1 - e) onehot(label) + e / K`
    (Szegedy et al. 2016, section 7), and with `class_weights` c each class counts as often as its
    weight says: `L_i = -sum_k c_k q_k log softmax(logits_i)_k / c_label`, `w_i = c_label`, which
    is torch's `CrossEntropyLoss(weight=c, label_smoothing=e)`. The accuracies are weighted alike.
    Of labels `y` becomes `(1 - e) y + e / 2`, and c_k multiplies the first term of label k: torch's
    `BCEWithLogitsLoss(pos_weight=c)`, with `w_i = 1`.

    Args:
        model: has the outputs of one kind: `class_logits`, `label_logits` or `scores` `[B, K]`,
            `score` `[B]`, `choice_logits` `[B, C]`, `tag_logits` `[B, T, K]`, or `start_logits` and
            `end_logits` `[B, T]`; other outputs are left alone. See `bert_task`, `gpt_task` and
            `feature_task` in `tfnlp.models`.
        class_weights: c, K numbers above 0, of "class", "label" and, without a CRF, "tag"; None:
            all are 1.
        label_smoothing: e, from 0 to below 1, of the same and "choice".

    Batch: the model's inputs, `labels` (int32 `[B]`, float32 for scores, int32 `[B, T]` for tags,
    float32 `[B, K]` of several scores, and of 0 and 1 for labels)
    or, for spans, int32 `start_positions` and `end_positions` `[B]`; float32 `weights` `[B]`, for
    tags `[B, T]` (1 for real targets, else 0). Of models of packed rows with S sequences, outputs,
    labels and weights have `[B, S]` in place of `[B]`.

    Attributes:
        kind: "class", "label", "score", "scores", "choice", "tag" or "span": the name of the loss.
            Of the metrics "class", "choice" and "tag" have `KIND_accuracy`, "label" has
            `label_accuracy`, the share of all decisions that are right, "score" has
            `score_pearson`, "scores" has none, "span" has `start_accuracy`, `end_accuracy`
            and `span_accuracy` (both right).

    Raises:
        ValueError: for a model that has the outputs of no kind, or of several.
    """

    trims = True

    def __init__(
        self,
        model: keras.Model,
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(model)
        kinds = [kind for kind, names in KINDS.items() if set(names) <= set(model.output)]
        if len(kinds) != 1:
            raise ValueError(
                f"model must have the outputs of one of {KINDS}; got {sorted(model.output)}"
            )
        (self.kind,) = kinds
        self.crf = crf_of(model)
        self.label_smoothing, self.class_weights = label_smoothing, None
        if class_weights is not None:
            size = model.output[f"{self.kind}_logits"].shape[-1]
            weights = np.asarray(class_weights, np.float64)
            if weights.shape != (size,) or not np.isfinite(weights).all() or weights.min() <= 0:
                raise ValueError(
                    f"class_weights={list(class_weights)!r:.200} must be {size} finite numbers "
                    "above 0, one a class"
                )
            if self.kind != "label":
                # A mean over weights is the same for any multiple of them. With 1 as the smallest,
                # their sum in a batch is never below 1, to which the trainer raises a smaller one.
                weights /= weights.min()
            self.class_weights = weights.astype(np.float32)

    def trimmed(self, batch: Batch) -> Batch:
        mask, inputs = batch.get("input_mask"), set(self.model.input)
        if mask is None or mask.shape[-1] is not None or not inputs <= _OF_POSITIONS | _OF_ROWS:
            return batch
        names = inputs & _OF_POSITIONS
        if self.kind == "tag":
            names |= {"labels", "weights"}
        return without_padding(batch, names)

    def targets(self, batch: Batch) -> Tensors:
        return {self.kind: ops.sum(self._weights(batch))}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        if self.crf is not None:
            chain = (outputs["tag_logits"], batch["labels"], ops.greater(batch["weights"], 0))
            return {self.kind: -ops.sum(self.crf.log_likelihood(*chain))}
        if self.kind == "score":
            losses = ops.square(ops.cast(outputs["score"], "float32") - batch["labels"])  # [B]
        elif self.kind == "scores":
            losses = ops.square(ops.cast(outputs["scores"], "float32") - batch["labels"])
            losses = ops.mean(losses, axis=-1)  # [B]
        elif self.kind == "label":
            # log s(z) = -softplus(-z), log(1 - s(z)) = -softplus(z): no logarithm of 0 can occur.
            z, epsilon = ops.cast(outputs["label_logits"], "float32"), self.label_smoothing
            q = batch["labels"] * (1 - epsilon) + epsilon / 2
            positive = q * ops.softplus(-z)
            if self.class_weights is not None:
                positive = positive * self.class_weights
            losses = ops.mean(positive + (1 - q) * ops.softplus(z), axis=-1)
        else:
            parts = [self._cross_entropy(*pair) for pair in self._pairs(batch, outputs)]
            losses = sum(parts) / len(parts)  # [B] or [B, T]
        return {self.kind: ops.sum(losses * batch["weights"])}

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return `c_label L` of logits `[..., K]` and int32 labels `[...]`: float32 `[...]`."""
        epsilon, size = self.label_smoothing, logits.shape[-1]
        if self.class_weights is not None:
            q = ops.one_hot(labels, size, dtype="float32") * (1 - epsilon) + epsilon / size
            log_p = ops.log_softmax(ops.cast(logits, "float32"), -1)
            return -ops.sum(q * self.class_weights * log_p, -1)
        if epsilon:
            return smoothed_cross_entropy(logits, labels, epsilon)
        return cross_entropy(logits, labels)

    def _weights(self, batch: Batch) -> Tensor:
        """Return the weights w of the targets, float32 as `weights`."""
        if self.class_weights is None or self.kind == "label":
            return batch["weights"]
        of_classes = ops.convert_to_tensor(self.class_weights)  # [K]
        return batch["weights"] * ops.take(of_classes, batch["labels"], axis=0)

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators of the accuracies; for scores of the moments in Pearson's r."""
        if self.kind == "score":
            x, y = ops.cast(outputs["score"], "float32"), batch["labels"]
            found = {
                f"score_{name}": value
                for name, value in zip(_MOMENTS, (x, y, x * x, y * y, x * y), strict=True)
            }
        elif self.kind == "scores":
            found = {}
        elif self.kind == "label":
            right = ops.equal(outputs["label_logits"] > 0, batch["labels"] > 0.5)
            found = {"label_accuracy": ops.mean(ops.cast(right, "float32"), axis=-1)}
        else:
            right = [
                ops.cast(self._best(logits, batch) == labels, "float32")
                for logits, labels in self._pairs(batch, outputs)
            ]
            if self.kind == "span":
                start, end = right
                found = {"start": start, "end": end, "span": start * end}
                found = {f"{name}_accuracy": value for name, value in found.items()}
            else:
                found = {f"{self.kind}_accuracy": right[0]}
        weights = self._weights(batch)
        return {name: (self.kind, ops.sum(value * weights)) for name, value in found.items()}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return `score_pearson` in place of its moments: 0 if all scores are equal.

        If all labels are, there is no correlation to measure.
        """
        report = dict(means)
        if "score_xy" in report:
            x, y, xx, yy, xy = (report.pop(f"score_{name}") for name in _MOMENTS)
            of_scores, of_labels = max(0.0, xx - x * x), max(0.0, yy - y * y)
            if of_labels:
                deviations = (of_scores * of_labels) ** 0.5
                report["score_pearson"] = (xy - x * y) / deviations if deviations else 0.0
        return report

    def _best(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the most probable class of each target, int32."""
        if self.crf is None:
            return best_class(logits)
        return self.crf.decode(logits, ops.greater(batch["weights"], 0))[0]

    def _pairs(self, batch: Batch, outputs: Batch) -> list[tuple[Tensor, Tensor]]:
        if self.kind == "span":
            return [
                (outputs[f"{end}_logits"], batch[f"{end}_positions"]) for end in ("start", "end")
            ]
        return [(outputs[f"{self.kind}_logits"], batch["labels"])]


class GPTFineTuning(FineTuning):
    """`loss = L_task + lambda L_lm` (Radford et al. 2018, section 3.2, eq. 5).

    `L_task` is that of `FineTuning`, a mean over examples or tags.
    `L_lm = -log softmax(E h_t)[id_{t+1}]` with the table of the tokens E, the mean over
    all real tokens but the first of each sequence; the task's own tokens are included, as in the
    reference code (which takes means of sequences first).

    Args:
        model: from `tfnlp.models.gpt_task`. Its output gives the loss its name, "class", "score",
            "scores", "choice", "tag" or "span".
        lm_weight: lambda, 0.5 in the paper; with 0 the language model's softmax is not computed.
        **options: `class_weights` and `label_smoothing` of `FineTuning`.

    Batch: as for `FineTuning`; see `tfnlp.data.TaskBatches`.
    """

    def __init__(self, model: keras.Model, lm_weight: float = 0.5, **options: Any) -> None:
        super().__init__(model, **options)
        self.lm_weight = lm_weight
        (encoder,) = [layer for layer in model.layers if isinstance(layer, keras.Model)]
        self._table = encoder.get_layer("token_embedding")

    def targets(self, batch: Batch) -> Tensors:
        counts = super().targets(batch)
        if self.lm_weight:
            counts["lm"] = ops.sum(_lm_weights(batch))
        return counts

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return sums over the targets, float32 scalars; that of "lm" is lambda times its sum."""
        sums = super().losses(batch, outputs)
        if self.lm_weight:
            sums["lm"] = self.lm_weight * self._lm_loss(batch, outputs["sequence_output"])
        return sums

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means as `FineTuning` does, with `lm_loss` without lambda and `lm_perplexity`.

        `loss` is still the sum that is minimised.
        """
        report = super().report(means)
        if self.lm_weight and "lm_loss" in means:
            report["lm_loss"] = means["lm_loss"] / self.lm_weight
            report["lm_perplexity"] = perplexity(report["lm_loss"])
        return report

    def _lm_loss(self, batch: Batch, hidden: Tensor) -> Tensor:
        """Return the sum of `-log p` over all targets, `hidden` [B, C, T, H]."""
        before = hidden[:, :, :-1]
        logits = self._table(before, reverse=True)  # [B, C, T-1, V]
        ids, weights = batch["input_word_ids"][:, :, 1:], _lm_weights(batch)
        return TiedSoftmax(self._table).sums(before, logits, ids, weights, hits=False)[0]


def _lm_weights(batch: Batch) -> Tensor:
    """Return 1 for each token that is predicted, float32 [B, C, T-1]."""
    real = ops.cast(batch["input_mask"][:, :, 1:], "float32")
    weights = batch["weights"]
    if len(weights.shape) == 2:  # of tags: an example is real if one of its tags is
        weights = ops.max(weights, axis=1)  # [B]
    return real * weights[:, None, None]

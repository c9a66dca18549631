"""Fine-tuning on classes, scores, choices, tags or spans."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.tasks.logits import best_class, cross_entropy
from tfnlp.tasks.task import Batch, Sums, Task, Tensors, without_padding

# The outputs of a model of each kind.
KINDS = {
    "class": ("class_logits",),
    "score": ("score",),
    "choice": ("choice_logits",),
    "tag": ("tag_logits",),
    "span": ("start_logits", "end_logits"),
}
# Inputs with and without an axis of positions, the last one.
_OF_POSITIONS = {"input_word_ids", "input_mask", "input_type_ids", "sequence_ids"}
_OF_ROWS = {"extract_positions", "first_positions"}
_MOMENTS = ("x", "y", "xx", "yy", "xy")  # x: the model's score, y: the label


class FineTuning(Task):
    """`loss = sum_i w_i L_i / sum_i w_i`, i over examples or, for tags, over tokens.

    `L_i = -log softmax(logits_i)[label_i]` for classes, choices and tags, `(score_i - label_i)^2`
    for scores, and for spans the mean of the two `-log softmax(logits_i)[position_i]` of start and
    end (Devlin et al. 2019, section 4.2, takes their sum; its code the mean).

    Args:
        model: has the outputs of one kind: `class_logits` `[B, K]`, `score` `[B]`, `choice_logits`
            `[B, C]`, `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`; other
            outputs are left alone. See `bert_task`, `gpt_task` and `feature_task` in
            `tfnlp.models`.

    Batch: the model's inputs, `labels` (int32 `[B]`, float32 for scores, int32 `[B, T]` for tags)
    or, for spans, int32 `start_positions` and `end_positions` `[B]`; float32 `weights` `[B]`, for
    tags `[B, T]` (1 for real targets, else 0). Of models of packed rows with S sequences, outputs,
    labels and weights have `[B, S]` in place of `[B]`.

    Attributes:
        kind: "class", "score", "choice", "tag" or "span": the name of the loss. Of the metrics
            "class", "choice" and "tag" have `KIND_accuracy`, "score" has `score_pearson`, "span"
            has `start_accuracy`, `end_accuracy` and `span_accuracy` (both right).

    Raises:
        ValueError: for a model that has the outputs of no kind, or of several.
    """

    trims = True

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        kinds = [kind for kind, names in KINDS.items() if set(names) <= set(model.output)]
        if len(kinds) != 1:
            raise ValueError(
                f"model must have one of the outputs {', '.join(sum(KINDS.values(), ()))}; got "
                f"{sorted(model.output)}; build it with bert_task, gpt_task or feature_task"
            )
        (self.kind,) = kinds

    def trimmed(self, batch: Batch) -> Batch:
        """Return a micro-batch without positions at its end that are padding in all of its rows."""
        mask, inputs = batch.get("input_mask"), set(self.model.input)
        if mask is None or mask.shape[-1] is not None or not inputs <= _OF_POSITIONS | _OF_ROWS:
            return batch
        names = inputs & _OF_POSITIONS
        if self.kind == "tag":
            names |= {"labels", "weights"}
        return without_padding(batch, names)

    def targets(self, batch: Batch) -> Tensors:
        """Return the number of real targets: a dict with one float32 scalar."""
        return {self.kind: ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of the loss over the targets: a dict with one float32 scalar."""
        if self.kind == "score":
            losses = ops.square(ops.cast(outputs["score"], "float32") - batch["labels"])  # [B]
        else:
            parts = [
                cross_entropy(logits, labels) for logits, labels in self._pairs(batch, outputs)
            ]
            losses = sum(parts) / len(parts)  # [B] or [B, T]
        return {self.kind: ops.sum(losses * batch["weights"])}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators of the accuracies; for scores of the moments in Pearson's r."""
        if self.kind == "score":
            x, y = ops.cast(outputs["score"], "float32"), batch["labels"]
            found = {
                f"score_{name}": value
                for name, value in zip(_MOMENTS, (x, y, x * x, y * y, x * y), strict=True)
            }
        else:
            right = [
                ops.cast(best_class(logits) == labels, "float32")
                for logits, labels in self._pairs(batch, outputs)
            ]
            if self.kind == "span":
                start, end = right
                found = {"start": start, "end": end, "span": start * end}
                found = {f"{name}_accuracy": value for name, value in found.items()}
            else:
                found = {f"{self.kind}_accuracy": right[0]}
        weights = batch["weights"]
        return {name: (self.kind, ops.sum(value * weights)) for name, value in found.items()}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return `score_pearson` in place of its moments; 0 if all scores or labels are equal."""
        report = dict(means)
        if self.kind == "score":
            x, y, xx, yy, xy = (report.pop(f"score_{name}") for name in _MOMENTS)
            variance = max(0.0, xx - x * x) * max(0.0, yy - y * y)
            report["score_pearson"] = (xy - x * y) / variance**0.5 if variance else 0.0
        return report

    def _pairs(self, batch: Batch, outputs: Batch) -> list[tuple[Tensor, Tensor]]:
        """Return logits with their labels."""
        if self.kind == "span":
            return [
                (outputs[f"{end}_logits"], batch[f"{end}_positions"]) for end in ("start", "end")
            ]
        return [(outputs[f"{self.kind}_logits"], batch["labels"])]

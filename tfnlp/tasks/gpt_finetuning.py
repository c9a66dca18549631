"""GPT's fine-tuning: a task with language modelling as auxiliary objective."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.cross_entropy import TiedSoftmax
from tfnlp.objectives.objective import Batch, Tensors, perplexity
from tfnlp.tasks.fine_tuning import FineTuning


class GPTFineTuning(FineTuning):
    """`loss = L_task + lambda L_lm` (Radford et al. 2018, section 3.2, eq. 5).

    `L_task` is that of `FineTuning`, a mean over examples or tags.
    `L_lm = -log softmax(E h_t)[id_{t+1}]` with the table of the tokens E, the mean over
    all real tokens but the first of each sequence; the task's own tokens are included, as in the
    reference code (which takes means of sequences first).

    Args:
        model: from `tfnlp.models.gpt_task`. Its output gives the loss its name, "class", "score",
            "choice", "tag" or "span".
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

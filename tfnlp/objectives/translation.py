"""Training of an encoder-decoder on pairs of sentences."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.label_smoothing import smoothed_cross_entropy
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors, perplexity


class Translation(Objective):
    """Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4).

    `loss = mean_t -sum_v q_tv log softmax(lm_logits_t)_v`, `q_t = (1 - epsilon) onehot(target_t)
    + epsilon / V`, over the real targets of the global batch.

    Args:
        model: from `tfnlp.models.transformer` or `tfnlp.models.seq2seq`.
        label_smoothing: epsilon.

    Batch: the model's inputs and, `[B, T]`, int32 `target_ids`, the tokens to predict (the
    decoder's inputs shifted by one place), and float32 `weights` (1 for real targets).

    Metrics: `token_accuracy`; `nll`, the mean of `-log p` without smoothing; `perplexity`, its
    exponential.
    """

    def __init__(self, model: keras.Model, label_smoothing: float = 0.1) -> None:
        super().__init__(model)
        self.label_smoothing = label_smoothing

    def tokens(self, batch: Batch) -> Tensor:
        source = ops.sum(ops.cast(batch["input_mask"], "float32"))
        return source + ops.sum(batch["weights"])

    def targets(self, batch: Batch) -> Tensors:
        return {"translation": ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        losses = smoothed_cross_entropy(
            outputs["lm_logits"], batch["target_ids"], self.label_smoothing
        )  # [B, T]
        return {"translation": ops.sum(losses * batch["weights"])}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators of accuracy and plain loss, over the number of tokens to predict."""
        logits, ids, weights = outputs["lm_logits"], batch["target_ids"], batch["weights"]
        of_target = ops.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]
        right = ops.cast(of_target >= ops.max(logits, -1), "float32")  # [B, T]
        plain = smoothed_cross_entropy(logits, ids, 0.0)
        return {
            "token_accuracy": ("translation", ops.sum(right * weights)),
            "nll": ("translation", ops.sum(plain * weights)),
        }

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `perplexity = exp(nll)`."""
        return {**means, "perplexity": perplexity(means["nll"])}

"""ELECTRA's pretraining: a masked LM that replaces tokens, and a discriminator that finds them."""

import keras
from keras import ops

from tfnlp.objectives.cross_entropy import best_class, cross_entropy
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors


class ElectraPretraining(Objective):
    """Masked LM of the generator and replaced-token detection (ELECTRA, section 2, equation 1).

    `loss = -mean_p log softmax(mlm_logits_p)[id_p]
        + weight mean_t (-r_t log sigmoid(d_t) - (1 - r_t) log(1 - sigmoid(d_t)))`

    p runs over the masked positions and t over the real tokens of the whole global batch; d are the
    discriminator's logits, and r_t is 1 where the discriminator reads another token than the text
    has. A sample that equals the token of the text is not replaced. Nothing flows back from the
    discriminator through the samples.

    Args:
        model: from `tfnlp.models.electra_pretrainer`.
        discriminator_weight: weight of the second mean, the paper's 50.

    Batch: the model's inputs, see `tfnlp.data.SentencePairs`; other entries are not read.
    """

    def __init__(self, model: keras.Model, discriminator_weight: float = 50.0) -> None:
        super().__init__(model)
        self.discriminator_weight = discriminator_weight

    def targets(self, batch: Batch) -> Tensors:
        return {
            "masked_lm": ops.sum(batch["masked_lm_weights"]),
            "discriminator": ops.sum(ops.cast(batch["input_mask"], "float32")),
        }

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets, the discriminator's with its weight."""
        generator = cross_entropy(outputs["mlm_logits"], batch["masked_lm_ids"])  # [B, P]
        discriminator = ops.binary_crossentropy(
            outputs["replaced"], outputs["discriminator_logits"], from_logits=True
        )  # [B, T]
        real = ops.cast(batch["input_mask"], "float32")
        return {
            "masked_lm": ops.sum(generator * batch["masked_lm_weights"]),
            "discriminator": self.discriminator_weight * ops.sum(discriminator * real),
        }

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators over masked positions, or over real tokens.

        `masked_lm_accuracy` of the generator and `discriminator_accuracy`; the shares of tokens
        that are `replaced`, that the discriminator calls `marked`, and that are both, `found`.
        """
        guess = best_class(outputs["mlm_logits"])  # [B, P]
        right = ops.cast(guess == batch["masked_lm_ids"], "float32") * batch["masked_lm_weights"]
        real = ops.cast(batch["input_mask"], "float32")
        replaced = outputs["replaced"] * real  # [B, T]
        marked = ops.cast(outputs["discriminator_logits"] > 0, "float32") * real
        sums = {
            "discriminator_accuracy": ops.cast(replaced == marked, "float32") * real,
            "replaced": replaced,
            "marked": marked,
            "found": replaced * marked,
        }
        return {
            "masked_lm_accuracy": ("masked_lm", ops.sum(right)),
            **{name: ("discriminator", ops.sum(value)) for name, value in sums.items()},
        }

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with the discriminator's loss without weight, precision and recall.

        `precision = found / marked`, 0 where nothing was marked, and `recall = found / replaced`
        take the place of `marked` and `found`; without replaced tokens there is neither.
        """
        if "found" not in means:
            return means
        kept = {name: x for name, x in means.items() if name not in ("marked", "found")}
        found, marked, replaced = (means[name] for name in ("found", "marked", "replaced"))
        if "discriminator_loss" in kept:
            kept["discriminator_loss"] /= self.discriminator_weight
        if not replaced:
            return kept
        precision = found / marked if marked else 0.0
        rates = {"discriminator_precision": precision, "discriminator_recall": found / replaced}
        return {**kept, **rates}

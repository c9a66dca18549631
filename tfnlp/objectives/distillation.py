"""DistilBERT's pretraining: masked LM and what a larger model, the teacher, says."""

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors
from tfnlp.objectives.pretraining import BertPretraining


class Distillation(BertPretraining):
    """Masked LM with a teacher (Sanh et al. 2019, section 2; Hinton et al. 2015).

    With logits s of the student and t of the teacher, V numbers each, and vectors h of their last
    layers:

        loss = a mean_p KL(softmax(t_p / T) || softmax(s_p / T)) T^2
             + b mean_m -log softmax(s_m)[id_m]
             + c mean_r (1 - cos(h_r, h'_r))

    m runs over the masked positions, r over all real tokens, p over either, see `soft_targets`.
    Each mean is taken over the global batch. The teacher sees the same masked tokens, without
    dropout. It is no part of `model`: it is neither trained nor saved with it.

    Args:
        model: the student, from `tfnlp.models.bert_pretrainer`.
        teacher: a frozen model with the same inputs and `mlm_logits` over the same vocabulary.
            Under a strategy it is made in its scope, as the student is.
        distillation, masked_lm, cosine: the weights a, b and c; the released code's by default.
            Without weight the teacher's losses are not computed.
        temperature: T.
        soft_targets: "masked", or "real" for all real tokens, as in the released code
            (`restrict_ce_to_mask` is off there): the logits of all of them take more time and
            memory than the layers of a small model.

    Batch: that of `BertPretraining`.
    """

    def __init__(
        self,
        model: keras.Model,
        teacher: keras.Model,
        *,
        distillation: float = 5.0,
        masked_lm: float = 2.0,
        cosine: float = 1.0,
        temperature: float = 2.0,
        soft_targets: str = "masked",
    ) -> None:
        super().__init__(model)
        self.teacher, self.temperature = teacher, temperature
        self.weights = {"distillation": distillation, "masked_lm": masked_lm, "cosine": cosine}
        self.all_logits = soft_targets == "real"

    def inputs(self, batch: Batch) -> Tensors:
        """Return the student's inputs, which are the teacher's too."""
        found = super().inputs(batch)
        if self.all_logits:
            ids = found["input_word_ids"]
            places = ops.arange(ops.shape(ids)[1], dtype="int32")
            found["masked_lm_positions"] = ops.zeros_like(ids) + places  # [B, T]
        return found

    def outputs(self, batch: Batch, training: bool) -> Tensors:
        """Return the student's outputs: the loss needs all logits."""
        return Objective.outputs(self, batch, training)

    def targets(self, batch: Batch) -> Tensors:
        counts = super().targets(batch)
        real = ops.sum(_real(batch))
        more = {"distillation": real if self.all_logits else counts["masked_lm"], "cosine": real}
        return {**counts, **{name: n for name, n in more.items() if self.weights[name]}}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets, times its weight: float32 scalars."""
        inputs, last = self.inputs(batch), "sequence_output"
        taught = self.teacher({name: inputs[name] for name in self.teacher.input}, training=False)
        sums = super().losses(batch, self._at_masks(batch, outputs))
        if self.weights["distillation"]:
            weights = _real(batch) if self.all_logits else batch["masked_lm_weights"]
            soft = ops.stop_gradient(taught["mlm_logits"])
            losses = divergences(outputs["mlm_logits"], soft, self.temperature)  # [B, P or T]
            sums["distillation"] = ops.sum(losses * weights)
        if self.weights["cosine"]:
            distances = 1 - cosines(outputs[last], ops.stop_gradient(taught[last]))  # [B, T]
            sums["cosine"] = ops.sum(distances * _real(batch))
        return {name: self.weights.get(name, 1.0) * value for name, value in sums.items()}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        return super().metrics(batch, self._at_masks(batch, outputs))

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means; each loss but the sum of all, `loss`, is freed of its weight."""
        found = {f"{name}_loss": weight for name, weight in self.weights.items() if weight}
        return {name: value / found.get(name, 1.0) for name, value in means.items()}

    def _at_masks(self, batch: Batch, outputs: Batch) -> Batch:
        """Return the outputs with the logits at the masked positions alone."""
        if not self.all_logits:
            return outputs
        positions = batch["masked_lm_positions"]  # [B, P]
        logits = ops.take_along_axis(
            outputs["mlm_logits"], positions[..., None], axis=1
        )  # [B, P, V]
        return {**outputs, "mlm_logits": logits}


def divergences(logits: Tensor, soft: Tensor, temperature: float) -> Tensor:
    """Return `KL(softmax(soft / T) || softmax(logits / T)) T^2`.

    T^2 keeps the size of the gradient when T changes (Hinton et al. 2015, section 2).

    Args:
        logits: float32 `[..., V]`, of the student.
        soft: float32 `[..., V]`, of the teacher.
        temperature: T.

    Returns:
        float32 `[...]`.
    """
    mine, theirs = (ops.log_softmax(x / temperature) for x in (logits, soft))
    return ops.sum(ops.exp(theirs) * (theirs - mine), -1) * temperature**2


def cosines(x: Tensor, y: Tensor) -> Tensor:
    """Return the cosine of each pair of vectors `[..., H]`, float32 `[...]`."""
    x, y = ops.cast(x, "float32"), ops.cast(y, "float32")
    squares = (ops.sum(x * x, -1) + 1e-12) * (ops.sum(y * y, -1) + 1e-12)
    return ops.sum(x * y, -1) * ops.rsqrt(squares)


def _real(batch: Batch) -> Tensor:
    """Return 1.0 for each real token, float32 `[B, T]`."""
    return ops.cast(ops.not_equal(batch["input_mask"], 0), "float32")

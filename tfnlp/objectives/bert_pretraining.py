"""Pretraining of masked language models, with a label of sentence pairs or without."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.cross_entropy import best_class, cross_entropy, masked_softmax, whole_sums
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors

_PAIR_LABELS = ("next_sentence", "sentence_order")


class BertPretraining(Objective):
    """Masked LM (BERT, section 3.1), next-sentence prediction and sentence order (ALBERT, 3.1).

    `loss = -mean_p log softmax(mlm_logits_p)[id_p] - mean_b log softmax(pair_logits_b)[label_b]`,
    each mean taken over the real targets of the whole global batch.

    Args:
        model: a pretrainer with some of the outputs `mlm_logits`, `next_sentence_logits` and
            `sentence_order_logits`; each that it has is learnt.

    Batch: the model's inputs and, as its heads need them, int32 `masked_lm_ids` `[B, P]`, float32
    `masked_lm_weights` `[B, P]` (1 for real predictions), int32 `next_sentence_labels` `[B]`
    (0: B follows A, 1: B is random), int32 `sentence_order_labels` `[B]` (0: B follows A, 1: A
    follows B). Of packed rows the labels are `[B, S]`, and float32 `next_sentence_weights` or
    `sentence_order_weights` `[B, S]` are 1 for real pairs.

    Raises:
        ValueError: for a model without any of these outputs.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        self.masked_lm = "mlm_logits" in model.output
        self.pair_labels = tuple(n for n in _PAIR_LABELS if f"{n}_logits" in model.output)
        if not (self.masked_lm or self.pair_labels):
            raise ValueError(f"model has no head to learn; its outputs are {sorted(model.output)}")
        self._softmax = masked_softmax(model) if self.masked_lm else None

    def outputs(self, batch: Batch, training: bool) -> Tensors:
        """Return the model's outputs and, of its own masked LM, `mlm_sums`: loss and hits."""
        if self._softmax is None:
            return super().outputs(batch, training)
        softmax, model = self._softmax
        outputs = model(self.inputs(batch), training=training)
        rest = outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"]
        return {**outputs, "mlm_sums": softmax.sums(outputs["mlm_hidden"], *rest)}

    def targets(self, batch: Batch) -> Tensors:
        counts = {}
        if self.masked_lm:
            counts["masked_lm"] = ops.sum(batch["masked_lm_weights"])
        for name in self.pair_labels:
            counts[name] = ops.sum(_pair_weights(batch, name))
        return counts

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        sums = {}
        if self.masked_lm:
            sums["masked_lm"] = self._masked_sums(batch, outputs)[0]
        for name in self.pair_labels:
            losses = cross_entropy(outputs[f"{name}_logits"], batch[f"{name}_labels"])  # [B]
            sums[name] = ops.sum(losses * _pair_weights(batch, name))
        return sums

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        hits = {}
        if self.masked_lm:
            hits["masked_lm_accuracy"] = ("masked_lm", self._masked_sums(batch, outputs)[1])
        for name in self.pair_labels:
            guess = best_class(outputs[f"{name}_logits"])
            right = ops.cast(guess == batch[f"{name}_labels"], "float32")
            hits[f"{name}_accuracy"] = (name, ops.sum(right * _pair_weights(batch, name)))
        return hits

    def _masked_sums(self, batch: Batch, outputs: Batch) -> tuple[Tensor, Tensor]:
        if "mlm_sums" in outputs:
            return outputs["mlm_sums"]
        ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        return whole_sums(outputs["mlm_logits"], ids, weights)


def _pair_weights(batch: Batch, name: str) -> Tensor:
    """Return which pairs count, float32 `[B]` or `[B, S]`."""
    weights = batch.get(f"{name}_weights")
    return ops.ones_like(batch[f"{name}_labels"], "float32") if weights is None else weights

"""BERT's pretraining: masked language model and next-sentence prediction."""

import keras
import tensorflow as tf

from tfnlp.tasks.task import Batch, Sums, Task, Tensors


class BertPretraining(Task):
    """Masked LM and next-sentence prediction (BERT, section 3.1).

    `loss = -mean_p log softmax(mlm_logits_p)[id_p] - mean_b log softmax(nsp_logits_b)[label_b]`,
    each mean taken over the real targets of the whole global batch.

    Args:
        model: from `tfnlp.models.bert_pretrainer`, with one head or both.

    Batch: the model's inputs and, int32, `masked_lm_ids` `[B, P]`, float32
    `masked_lm_weights` `[B, P]` (1 for real predictions), int32 `next_sentence_labels` `[B]`
    (0: B follows A, 1: B is random).

    Raises:
        ValueError: for a model without `mlm_logits` and `next_sentence_logits`.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        self.masked_lm = "mlm_logits" in model.output
        self.next_sentence = "next_sentence_logits" in model.output
        if not (self.masked_lm or self.next_sentence):
            raise ValueError(
                "model has neither `mlm_logits` nor `next_sentence_logits`; "
                "build it with tfnlp.models.bert_pretrainer"
            )

    def targets(self, batch: Batch) -> Tensors:
        """Return the number of real targets of each loss: dict of float32 scalars."""
        counts = {}
        if self.masked_lm:
            counts["masked_lm"] = tf.reduce_sum(batch["masked_lm_weights"])
        if self.next_sentence:
            counts["next_sentence"] = tf.cast(tf.shape(batch["next_sentence_labels"])[0], "float32")
        return counts

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets: dict of float32 scalars."""
        sums = {}
        if self.masked_lm:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch["masked_lm_ids"], logits=outputs["mlm_logits"]
            )  # [B, P]
            sums["masked_lm"] = tf.reduce_sum(losses * batch["masked_lm_weights"])
        if self.next_sentence:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch["next_sentence_labels"], logits=outputs["next_sentence_logits"]
            )  # [B]
            sums["next_sentence"] = tf.reduce_sum(losses)
        return sums

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return the numerators of the accuracies, each over the target count of that name."""
        hits = {}
        if self.masked_lm:
            guess = tf.argmax(outputs["mlm_logits"], axis=-1, output_type="int32")  # [B, P]
            right = tf.cast(guess == batch["masked_lm_ids"], "float32")
            hits["masked_lm_accuracy"] = (
                "masked_lm",
                tf.reduce_sum(right * batch["masked_lm_weights"]),
            )
        if self.next_sentence:
            guess = tf.argmax(outputs["next_sentence_logits"], axis=-1, output_type="int32")
            right = tf.cast(guess == batch["next_sentence_labels"], "float32")
            hits["next_sentence_accuracy"] = ("next_sentence", tf.reduce_sum(right))
        return hits

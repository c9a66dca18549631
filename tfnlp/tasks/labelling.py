"""Words or sentences with a label each: tagging and classification."""

import tensorflow as tf

from tfnlp.tasks.task import Task


class Labelling(Task):
    """`loss = -sum_i w_i log softmax(logits_i)[label_i] / sum_i w_i`, i over words or sentences.

    Args:
        model: has the output `tag_logits` `[B, T, C]` or `class_logits` `[B, C]` (see
            `tfnlp.models.elmo_tasks`). The loss is then called "tag" or "class", the score
            `tag_accuracy` or `class_accuracy`.

    Batch: the model's inputs and, of the logits' shape but for C, int32 `labels` and float32
    `weights` (1 for real targets, else 0), as from `tfnlp.data.LabelledBatches`.

    Raises:
        ValueError: for a model that has neither output, or both.
    """

    def __init__(self, model):
        super().__init__(model)
        kinds = [kind for kind in ("tag", "class") if f"{kind}_logits" in model.output]
        if len(kinds) != 1:
            raise ValueError(
                "model must have one of the outputs `tag_logits` and `class_logits`; got "
                f"{sorted(model.output)}"
            )
        (self.kind,) = kinds

    def targets(self, batch):
        """Number of real targets in `batch`: a dict with one float32 scalar."""
        return {self.kind: tf.reduce_sum(batch["weights"])}

    def losses(self, batch, outputs):
        """Sum of the loss over the targets of `batch`: a dict with one float32 scalar."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["labels"], logits=tf.cast(outputs[f"{self.kind}_logits"], "float32")
        )  # [B, T] or [B]
        return {self.kind: tf.reduce_sum(losses * batch["weights"])}

    def metrics(self, batch, outputs):
        """Numerator of the accuracy, over the target count of the same name."""
        guess = tf.argmax(outputs[f"{self.kind}_logits"], axis=-1, output_type="int32")
        right = tf.cast(guess == batch["labels"], "float32")
        return {f"{self.kind}_accuracy": (self.kind, tf.reduce_sum(right * batch["weights"]))}

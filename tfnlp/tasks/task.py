"""What the trainer asks of a task."""

import tensorflow as tf


class Task:
    """A model with its loss: the base of all tasks.

    A task also has

    - `targets(batch)`: number of real targets of each loss, dict of float32 scalars;
    - `losses(batch, outputs)`: sum of each loss over its targets, under the same names;
    - `metrics(batch, outputs)`: dict of metric name to (name of the targets, sum over them).

    The trainer divides the sums by the counts of the whole global batch, so that one device, many
    devices and accumulated micro-batches give the same number.

    Attributes:
        model: a Keras model with named inputs and outputs.
        state: dict of name to `tf.Variable` `[B, ...]` with one row for each row of the global
            batch: what a step hands to the next. It is an input and an output of the model under
            that name, starts at zero, is kept in checkpoints, and is zero again at the start of
            each evaluation. Empty for most tasks.
    """

    def __init__(self, model):
        self.model = model
        self.state = {}

    def inputs(self, batch):
        """The model's inputs from a batch (state included)."""
        return {name: batch[name] for name in self.model.input}

    def tokens(self, batch):
        """Real tokens that the model reads of a batch, float32 scalar; None: not known.

        Only the speed that is shown is made of it.
        """
        if "input_mask" in batch:
            return tf.reduce_sum(tf.cast(batch["input_mask"], "float32"))
        return None

    def report(self, means):
        """Adds to the means of losses and metrics what follows from them."""
        return means

"""What an NNLM learns from raw text: the next word."""

import math

import tensorflow as tf

from tfnlp.tasks.task import Task


class NNLMPretraining(Task):
    """`loss = -mean_t log p(w_t | w_{t-n+1} .. w_{t-1})` (Bengio et al. 2003, section 2).

    What the paper adds to it, the squares of the weights, is the optimizer's weight decay here.

    Args:
        model: from `tfnlp.models.nnlm_pretrainer`.

    Batch: see `tfnlp.data.Ngrams`.
    """

    def tokens(self, batch):
        """Words to predict."""
        return tf.reduce_sum(batch["weights"])

    def targets(self, batch):
        """Number of words to predict: dict of a float32 scalar."""
        return {"lm": tf.reduce_sum(batch["weights"])}

    def losses(self, batch, outputs):
        """Sum of `-log p`: dict of a float32 scalar."""
        return {"lm": tf.reduce_sum(outputs["losses"] * batch["weights"])}

    def metrics(self, batch, outputs):
        """None: the loss says it all."""
        return {}

    def report(self, means):
        """Adds `perplexity`, of a word."""
        loss = means["lm_loss"]
        return {**means, "perplexity": math.exp(loss) if loss < 700 else math.inf}

"""What word2vec learns from raw text: which words stand together."""

import tensorflow as tf

from tfnlp.layers import CBOWLoss
from tfnlp.tasks.task import Task


class Word2Vec(Task):
    """Negative sampling (Mikolov et al. 2013), the mean over pairs of a word and a neighbour.

    CBOW has one pair a word: its neighbours' mean and itself.

    Args:
        model: from `tfnlp.models.word2vec`.
        words_per_block: words of the text that a block stands for, those left out included; only
            the speed that is shown is made of it.

    Batch: see `tfnlp.data.WordBlocks`.

    Raises:
        ValueError: for a model without `losses`.
    """

    def __init__(self, model, words_per_block=None):
        super().__init__(model)
        if "losses" not in model.output:
            raise ValueError("model has no output `losses`; build it with tfnlp.models.word2vec")
        self.words_per_block = words_per_block
        self._cbow = isinstance(model.get_layer("loss"), CBOWLoss)

    def tokens(self, batch):
        """Words of the text, see `words_per_block`."""
        if self.words_per_block is None:
            return None
        return self.words_per_block * tf.cast(tf.shape(batch["left"])[0], "float32")

    def targets(self, batch):
        """Number of pairs: dict of a float32 scalar."""
        pairs = batch["left"] + batch["right"]  # [B, L]
        if self._cbow:
            pairs = tf.minimum(pairs, 1)
        return {"pairs": tf.cast(tf.reduce_sum(pairs), "float32")}

    def losses(self, batch, outputs):
        """Sum over pairs: dict of a float32 scalar."""
        return {"pairs": tf.reduce_sum(outputs["losses"])}

    def metrics(self, batch, outputs):
        """None: the loss says it all."""
        return {}

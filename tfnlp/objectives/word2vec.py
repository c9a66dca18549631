"""Training of word2vec: negative sampling, hierarchical softmax or noise-contrastive estimation."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.objective import Batch, Objective, Tensors


class Word2Vec(Objective):
    """The loss of a `word2vec` model, the mean over pairs of a word and a neighbour.

    CBOW has one pair for each word: the mean of its neighbours, and itself.

    Args:
        model: from `tfnlp.models.word2vec`.
        words_per_block: words of the text that a block covers, with those that subsampling leaves
            out; used only for the speed that is shown.

    Batch: see `tfnlp.data.WordBlocks`.
    """

    def __init__(self, model: keras.Model, words_per_block: float | None = None) -> None:
        super().__init__(model)
        self.words_per_block = words_per_block
        self._of_means = model.get_layer("loss").of_means

    def tokens(self, batch: Batch) -> Tensor | None:
        """Return the words of the text, see `words_per_block`."""
        if self.words_per_block is None:
            return None
        return self.words_per_block * ops.cast(ops.shape(batch["left"])[0], "float32")

    def targets(self, batch: Batch) -> Tensors:
        pairs = batch["left"] + batch["right"]  # [B, L]
        if self._of_means:
            pairs = ops.minimum(pairs, 1)
        return {"pairs": ops.cast(ops.sum(pairs), "float32")}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"pairs": ops.sum(outputs["losses"])}

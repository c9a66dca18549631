"""What word2vec, GloVe and an NNLM learn."""

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.objective import Batch, Objective, Tensors, with_perplexity


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


class GloVe(Objective):
    """`mean over cells (i, j) of f(X_ij) (w_i . w~_j + b_i + b~_j - log X_ij)^2`.

    Pennington, Socher & Manning 2014, equation 8, divided by the number of cells.

    Args:
        model: from `tfnlp.models.glove`.

    Batch: see `tfnlp.data.CooccurrenceBatches`.
    """

    def tokens(self, batch: Batch) -> Tensor:
        return ops.sum(ops.cast(batch["counts"] > 0, "float32"))

    def targets(self, batch: Batch) -> Tensors:
        return {"cells": self.tokens(batch)}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"cells": ops.sum(outputs["losses"])}


class NNLMPretraining(Objective):
    """`loss = -mean_t log p(w_t | w_{t-n+1} .. w_{t-1})` (Bengio et al. 2003, section 2).

    The paper's penalty, the squares of the weights, is the optimizer's weight decay here.

    Args:
        model: from `tfnlp.models.nnlm_pretrainer`.

    Batch: see `tfnlp.data.Ngrams`.
    """

    def tokens(self, batch: Batch) -> Tensor:
        return ops.sum(batch["weights"])

    def targets(self, batch: Batch) -> Tensors:
        return {"lm": ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"lm": ops.sum(outputs["losses"] * batch["weights"])}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `perplexity` per word."""
        return with_perplexity(means, "lm_loss")

"""Pretraining of an NNLM: language modelling."""

from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.objective import Batch, Objective, Tensors, perplexity


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
        return {**means, "perplexity": perplexity(means["lm_loss"])}

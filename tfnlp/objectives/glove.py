"""Training of GloVe: weighted least squares over the cells of a co-occurrence matrix."""

from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.objective import Batch, Objective, Tensors


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

"""The base class of tasks: what the trainer asks of a task."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor

Batch = Mapping[str, Tensor]
Tensors = dict[str, Tensor]
Sums = dict[str, tuple[str, Tensor]]


class Objective:
    """A model with its loss: the base of all tasks.

    The trainer divides the sums of losses and metrics by the counts of the whole global batch, so
    that one device, many devices and accumulated micro-batches give the same number.

    Attributes:
        model: a Keras model with named inputs and outputs.
        state: dict of name to `keras.Variable` `[B, ...]` with one row for each row of the global
            batch: what a step passes on to the next. It is an input and an output of the model
            under that name, starts at zero, is kept in checkpoints, and is zero again at the start
            of each evaluation. Empty for most tasks.
        tables: `keras.Variable`s that `inputs` reads and nothing changes; no checkpoint has them.
        trims: whether `trimmed` takes padding from micro-batches.
        compares: whether the loss of an example depends on all others of the global batch. A
            batch that is computed in parts then has, of `comparison`, `compared/NAME` for each of
            its outputs and `compared/slopes`, the gradient of `sum_i loss_i` with respect to
            `vectors`.
    """

    trims = False
    compares = False

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.state: dict[str, keras.Variable] = {}
        self.tables: list[keras.Variable] = []

    def as_dict(self, batch: Any) -> Batch:
        """Return a batch, as the data gives it, as a flat dict of tensors `[B, ...]`."""
        if not isinstance(batch, Mapping):
            raise ValueError(
                f"a batch of {type(self).__name__} must be a dict of tensors by name, not "
                f"{type(batch).__name__}"
            )
        return batch

    def inputs(self, batch: Batch) -> Tensors:
        """Return the model's inputs from a batch (state included)."""
        return {name: batch[name] for name in self.model.input}

    def outputs(self, batch: Batch, training: bool) -> Any:
        """Return the model's outputs, to which a task may add what its losses and metrics read."""
        return self.model(self.inputs(batch), training=training)

    def trimmed(self, batch: Batch) -> Batch:
        """Return a micro-batch without positions at its end that are padding in all of its rows.

        Not called where shapes must be static. The base class returns the batch as it is.
        """
        return batch

    def tokens(self, batch: Batch) -> Tensor | None:
        """Return the real tokens of a batch, for the speed that is shown; None: not known."""
        if "input_mask" in batch:
            return ops.sum(ops.cast(batch["input_mask"], "float32"))
        return None

    def compared(self, batch: Batch, outputs: Any) -> Tensors:
        """Return what `comparison` reads of a part: `vectors` `[b, S, D]` and others `[b, ...]`."""
        raise NotImplementedError

    def comparison(self, whole: Tensors) -> Tensors:
        """Return `loss` and others, float32 `[B]`, of what `compared` returned of all parts."""
        raise NotImplementedError

    def targets(self, batch: Batch) -> Tensors:
        """Return the number of real targets of each loss: dict of float32 scalars."""
        raise NotImplementedError

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets, under the names of `targets`."""
        raise NotImplementedError

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return for each metric the name of its targets and the sum over them."""
        return {}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means of losses and metrics with values that follow from them.

        Means without targets are missing, and so is what would follow from them.
        """
        return means


def without_padding(batch: Batch, names: Collection[str]) -> Batch:
    """Return a batch without positions at its end that are padding in all of its rows.

    It has `input_mask` `[B, ..., T]`; `names` are those of the entries whose last axis is T.
    """
    mask = batch["input_mask"]
    places = ops.arange(1, ops.shape(mask)[-1] + 1, dtype="int32")
    last = ops.max(ops.cast(mask, "int32") * places)  # of a real token, from 1 on
    return {name: x[..., :last] if name in names else x for name, x in batch.items()}


def perplexity(loss: float) -> float:
    """Return e to the loss, infinity where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


def with_perplexity(means: dict[str, float], loss: str) -> dict[str, float]:
    """Return means with the perplexity of a loss, if it is among them."""
    return {**means, "perplexity": perplexity(means[loss])} if loss in means else means

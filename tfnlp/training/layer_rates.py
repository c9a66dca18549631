"""Learning rates by layer of an encoder, frozen layers and gradual unfreezing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import keras
from keras import ops

from tfnlp.layers.types import Tensor

T = TypeVar("T")

_BLOCK = re.compile(r"(?:^|/)layer_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)(?:(?:token|position|segment)_embedding|embedding_norm)/")


def layer_groups(variables: Sequence[keras.Variable]) -> list[int]:
    """Return the group of each variable of a model with one BERT or GPT encoder of L blocks.

    0: embeddings and their norm; l = 1..L: block l; L + 1: all layers above, i.e. the last norm of
    a pre-norm GPT, the pooler, the task's head. Groups follow from the names of the layers, which
    are the same in an encoder and in a model that has it as a layer.

    Raises:
        ValueError: if no variable belongs to a block.
    """
    head = _count_blocks(variables) + 1
    groups = []
    for variable in variables:
        block, embedding = _BLOCK.search(variable.path), _EMBEDDINGS.search(variable.path)
        groups.append(int(block[1]) + 1 if block else 0 if embedding else head)
    return groups


class LayerRates:
    """Rates of the groups g = 0..G (see `layer_groups`; G = L + 1 is the task's head).

    `rate_g(t) = rate(t) * decay^(G - g)`: "discriminative fine-tuning" (Howard & Ruder 2018,
    section 3.1, with decay = 1 / 2.6), ELECTRA's layer-wise decay (Clark et al. 2020, appendix B).

    The lowest `frozen` groups are never trained: they have no gradient and no slots.

    With `unfreeze_every` = n, group g trains from step `(G - g) n` on: first the head alone, then
    one group more every n steps ("gradual unfreezing", section 3.3, an epoch each). Before that its
    gradient counts as zero, also in the norm that is clipped; its weights and moments do not
    change; and Adam's bias correction counts its updates from that step.

    Args:
        decay: in (0, 1].
        frozen: 0 to G.
        unfreeze_every: n, 1 or more; None: all groups train from the start.

    Raises:
        ValueError: for an argument out of its range.
    """

    def __init__(
        self, decay: float = 1.0, frozen: int = 0, unfreeze_every: int | None = None
    ) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"decay={decay} must lie in (0, 1]")
        if frozen < 0:
            raise ValueError(f"frozen={frozen} must be the number of groups to freeze, 0 or more")
        if unfreeze_every is not None and unfreeze_every < 1:
            raise ValueError(f"unfreeze_every={unfreeze_every} must be at least 1, or None")
        self.decay, self.frozen, self.unfreeze_every = decay, frozen, unfreeze_every

    def build(self, model: keras.Model) -> None:
        """Freeze the lowest groups of `model`; call it before the optimizer's `build`.

        Raises:
            ValueError: if the model has no encoder, or `frozen` leaves nothing to train.
        """
        variables = model.variables
        head = _count_blocks(variables) + 1
        if self.frozen > head:
            raise ValueError(
                f"frozen={self.frozen} leaves nothing to train; the model has {head} groups below "
                f"its head, so that 0 to {head} can be frozen"
            )
        above = {}
        for variable, group in zip(variables, layer_groups(variables), strict=True):
            above[variable.path] = head - group
            if group < self.frozen:
                variable.trainable = False
        # G - g of each variable that the optimizer updates, in its order.
        self._above = [above[v.path] for v in model.trainable_variables]

    def mask(self, gradients: list[Tensor], step: Tensor) -> list[Tensor]:
        """Return the gradients of the trainable variables, zero for groups still frozen."""
        if self.unfreeze_every is None:
            return gradients
        trains = self._by_group(lambda above: step >= above * self.unfreeze_every)
        return [g * ops.cast(t, g.dtype) for g, t in zip(gradients, trains, strict=True)]

    def rates(self, rate: Tensor, step: Tensor) -> list[Tensor]:
        """Return the rate of each trainable variable, a list of float32 scalars.

        It is 0 while the group is frozen: weight decay does not depend on the gradient.
        """
        rate = ops.cast(rate, "float32")
        rates = self._by_group(lambda above: rate * self.decay**above)
        if self.unfreeze_every is None:
            return rates
        return self.mask(rates, step)

    def steps(self, step: Tensor) -> list[Tensor]:
        """Return the number of updates that each trainable variable has had, a list of scalars."""
        if self.unfreeze_every is None:
            return [step] * len(self._above)
        return self._by_group(
            lambda above: ops.maximum(step - above * self.unfreeze_every, ops.zeros_like(step))
        )

    def _by_group(self, function: Callable[[int], T]) -> list[T]:
        """Return `function(G - g)` for each trainable variable, called once for each group."""
        values = {above: function(above) for above in sorted(set(self._above))}
        return [values[above] for above in self._above]


def _count_blocks(variables: Sequence[keras.Variable]) -> int:
    """Return L."""
    blocks = [match for v in variables if (match := _BLOCK.search(v.path))]
    if not blocks:
        raise ValueError(
            "the model has no blocks `layer_0`, `layer_1`, ...; layer rates need a model with "
            "an encoder of tfnlp.models.bert or tfnlp.models.gpt"
        )
    return max(int(match[1]) for match in blocks) + 1

"""Learning rates by layer of an encoder, and frozen layers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers.types import Tensor

_BLOCK = re.compile(r"(?:^|/)layer_(\d+)/")
_EMBEDDINGS = re.compile(
    r"(?:^|/)(?:(?:token|position|distance|segment)_embedding|embedding_norm)/"
)


def layer_groups(variables: Sequence[keras.Variable]) -> list[int]:
    """Return the group of each variable of a model with one BERT or GPT encoder of L blocks.

    0: embeddings and their norm; l = 1..L: block l; L + 1: all layers above, i.e. the last norm of
    a pre-norm GPT, the pooler, the task's head. Groups follow from the names of the layers, which
    are the same in an encoder and in a model that has it as a layer.
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

    Args:
        decay: in (0, 1].
        frozen: 0 to G.

    Raises:
        ValueError: for an argument out of its range.
    """

    def __init__(self, decay: float = 1.0, frozen: int = 0) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"decay={decay} must lie in (0, 1]")
        if frozen < 0:
            raise ValueError(f"frozen={frozen} must be the number of groups to freeze, 0 or more")
        self.decay, self.frozen = decay, frozen

    def build(self, model: keras.Model) -> None:
        """Freeze the lowest groups of `model`; call it before the optimizer's `build`."""
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

    def rates(self, rate: Tensor) -> list[Tensor]:
        """Return the rate of each trainable variable, a list of float32 scalars."""
        rate = ops.cast(rate, "float32")
        rates = {above: rate * self.decay**above for above in sorted(set(self._above))}
        return [rates[above] for above in self._above]


def _count_blocks(variables: Sequence[keras.Variable]) -> int:
    """Return L."""
    blocks = [match for v in variables if (match := _BLOCK.search(v.path))]
    if not blocks:
        raise ValueError(
            "the model has no blocks `layer_0`, `layer_1`, ...; layer rates need a model with "
            "an encoder of tfnlp.models.bert or tfnlp.models.gpt"
        )
    return max(int(match[1]) for match in blocks) + 1

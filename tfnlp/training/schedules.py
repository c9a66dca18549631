"""Learning rates as functions of the number of updates made so far, and by layer.

Each schedule returns `rate(step)`, which takes an int scalar (0 before the first update) and
returns a float32 scalar. With `w = warmup_steps` all of them rise as `peak * (step + 1) / w`
while `step < w`; no update, not even the first or the last, has a rate of 0. Each raises ValueError
for a peak that is not positive and finite, and for a warm-up that the steps have no room for.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor

Rate = Callable[[Any], Tensor]

_BLOCK = re.compile(r"(?:^|/)layer_(\d+)/")
_EMBEDDINGS = re.compile(
    r"(?:^|/)(?:(?:token|position|distance|segment)_embedding|embedding_norm)/"
)
_SHOWN_STEPS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def constant(peak: float, warmup_steps: int = 0) -> Rate:
    """Return `peak` after the warm-up."""
    return _schedule(peak, warmup_steps, lambda step: ops.ones_like(step))


def linear(peak: float, total_steps: int, warmup_steps: int = 0) -> Rate:
    """Decay from `peak` to 0 on a straight line (BERT, GPT fine-tuning)."""
    _check(total_steps, warmup_steps)

    def decay(step: Tensor) -> Tensor:
        left = (total_steps - step) / max(1.0, total_steps - warmup_steps)
        return ops.clip(left, 0.0, 1.0)

    return _schedule(peak, warmup_steps, decay)


def cosine(peak: float, total_steps: int, warmup_steps: int = 0) -> Rate:
    """Decay from `peak` to 0 along half a cosine (Loshchilov & Hutter 2017, eq. 5; GPT)."""
    _check(total_steps, warmup_steps)

    def decay(step: Tensor) -> Tensor:
        done = (step - warmup_steps) / max(1.0, total_steps - warmup_steps)
        return 0.5 * (1.0 + ops.cos(math.pi * ops.clip(done, 0.0, 1.0)))

    return _schedule(peak, warmup_steps, decay)


def inverse_sqrt(peak: float, warmup_steps: int) -> Rate:
    """Return `peak * sqrt(w / (step + 1))` after the warm-up.

    Vaswani et al. 2017, eq. 3, up to scale.
    """
    if warmup_steps < 1:
        raise ValueError(f"warmup_steps={warmup_steps} must be at least 1 for inverse_sqrt")
    return _schedule(peak, warmup_steps, lambda step: ops.sqrt(warmup_steps / (step + 1.0)))


def noam(hidden_size: int, warmup_steps: int, scale: float = 1.0) -> Rate:
    """Return `scale H^-0.5 min(n^-0.5, n w^-1.5)` at update n, from 1 (Vaswani et al. 2017, eq. 3).

    That is `inverse_sqrt` with a peak of `scale (H w)^-0.5`, where H is the model's hidden size.

    Raises:
        ValueError: for a hidden_size or warmup_steps below 1, or a scale that is not positive.
    """
    if hidden_size < 1 or not scale > 0:
        raise ValueError(f"hidden_size={hidden_size} and scale={scale} must be positive")
    return inverse_sqrt(scale * (hidden_size * max(1, warmup_steps)) ** -0.5, warmup_steps)


def schedule(name: str, peak: float, total_steps: int, warmup_steps: int = 0) -> Rate:
    """Return the schedule called `name`: "constant", "linear", "cosine" or "inverse_sqrt".

    Raises:
        ValueError: for another name, or arguments that the schedule refuses.
    """
    makers = {
        "constant": lambda: constant(peak, warmup_steps),
        "linear": lambda: linear(peak, total_steps, warmup_steps),
        "cosine": lambda: cosine(peak, total_steps, warmup_steps),
        "inverse_sqrt": lambda: inverse_sqrt(peak, max(1, warmup_steps)),
    }
    if name not in makers:
        raise ValueError(f"schedule={name!r} is unknown; choose one of {sorted(makers)}")
    return makers[name]()


def _check(total_steps: int, warmup_steps: int) -> None:
    if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
        raise ValueError(
            f"warmup_steps={warmup_steps} must lie between 0 and total_steps={total_steps}"
        )


def _schedule(peak: float, warmup_steps: int, decay: Callable[[Tensor], Tensor]) -> Rate:
    if not 0 < peak < math.inf:
        raise ValueError(f"learning rate {peak} must be positive and finite: peak={peak}")
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps={warmup_steps} must be at least 0")

    def rate(step: Any) -> Tensor:
        step = ops.cast(step, "float32")
        rise = (step + 1.0) / max(1, warmup_steps)
        return peak * ops.where(step < warmup_steps, rise, decay(step))

    return rate


def as_rate(learning_rate: Any) -> Rate | None:
    """Return a learning rate as a function of the step to a float32 scalar; None for None."""
    if learning_rate is None:
        return None
    if callable(learning_rate):
        return lambda step: ops.cast(learning_rate(step), "float32")
    if not isinstance(learning_rate, numbers.Real) or not 0 <= learning_rate < math.inf:
        raise ValueError(
            f"learning_rate={learning_rate!r} must be a finite float of at least 0, a "
            "function of the step or a Keras schedule"
        )
    return lambda step: ops.convert_to_tensor(learning_rate, "float32")


def rate_settings(rate: Callable[[int], Any], total_steps: int) -> dict[str, float]:
    """Return a learning rate at some steps: a function has no other identity."""
    steps = [step for step in _SHOWN_STEPS if step < total_steps]
    return {str(step): float(f"{float(rate(step)):.6g}") for step in steps}


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
        head = _count_blocks(model.variables) + 1
        if self.frozen > head:
            raise ValueError(
                f"frozen={self.frozen} leaves nothing to train; the model has {head} groups below "
                f"its head, so that 0 to {head} can be frozen"
            )
        above = {}
        for variable, group in zip(model.variables, layer_groups(model.variables), strict=True):
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

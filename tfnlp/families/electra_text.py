"""ELECTRA's pretraining: pairs of following segments, a generator and a discriminator."""

import dataclasses
import functools
from typing import Any

from tfnlp.families.encoders import encoder_sizes
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.preparation import Preparation
from tfnlp.families.subwords import WORDPIECE

SIZES = {name: f"ELECTRA_{name.upper()}" for name in ("tiny", "mini", "small", "base", "large")}
GENERATOR_SIZES = {"base": 1 / 3}  # of other sizes 1/4: the paper, table 6


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `electra_pretrainer`."""
    if before is None:
        size = config.generator_size or GENERATOR_SIZES.get(config.size, 0.25)
        return {"generator_size": size, "initializer_range": config.initializer_range}
    block = before.encoder.get_layer("layer_0")
    smaller = before.pretrainer.get_layer("generator_layer_0")
    widths = [one.output_norm.gamma.shape[0] for one in (smaller, block)]
    return {
        "generator_size": widths[0] / widths[1],
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


def _copy_weights(before: Any, encoder: Any, pretrainer: Any) -> None:
    old = {variable.path: variable for variable in before.pretrainer.trainable_variables}
    for variable in pretrainer.trainable_variables:
        variable.assign(old[variable.path])


def objective(pretrainer: Any, weight: float) -> Any:
    """Return the task of generator and discriminator."""
    from tfnlp.tasks import ElectraPretraining

    return ElectraPretraining(pretrainer, weight)


ELECTRA_TEXT = MaskedText(
    title="ELECTRA",
    subwords=WORDPIECE,
    second="following",
    sizes=functools.partial(encoder_sizes, "electra"),
    heads=_heads,
    copy_weights=_copy_weights,
)


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what ELECTRA's pretraining needs: masked pairs and both losses.

    Args:
        config: An `ElectraConfig`.
        before: The `Pretrained` to go on from, or None.
        strategy: The devices.
    """
    task = functools.partial(objective, weight=config.discriminator_weight)
    return dataclasses.replace(ELECTRA_TEXT, objective=task).prepare(config, before, strategy)

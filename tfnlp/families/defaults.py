"""Numbers that follow from the size of a model where a config gives none.

The published recipes are those of models of 12 layers x 768. Smaller models learn with larger
steps, and with larger weights at first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.families.family import Family

FEW_WEIGHTS = 10  # factor of the rate where few weights of a model are trained
_LAYERS, _WIDTH = 12, 768  # BERT-base and GPT


def learning_rate(rates: tuple[float, float], layers: int | None, width: int | None) -> float:
    """Return `base * (12 * 768) / (layers * width)`, from `base` to `highest`, of two digits.

    `rates` are `highest` and `base`; `layers` and `width` of None are those of BERT-base.
    """
    highest, base = rates
    rate = base * (_LAYERS * _WIDTH) / ((layers or _LAYERS) * (width or _WIDTH))
    return float(f"{min(highest, max(base, rate)):.1e}")


def depth(backbone: Pretrained) -> int | None:
    """Return the number of layers of a backbone, None if unknown."""
    if backbone.config:
        return backbone.config.get("num_layers")
    if backbone.encoder is None or "encoder_outputs" not in backbone.encoder.output:
        return None
    return len(backbone.encoder.output["encoder_outputs"])


def initializer_range(width: int) -> float:
    """Return `0.02 * sqrt(768 / width)` of models narrower than 768, 0.02 of others.

    The standard deviation 0.02 is BERT's and GPT's. With it the products of a narrow model are so
    small that its attention is almost uniform at first.
    """
    return float(f"{0.02 * max(1.0, _WIDTH / width) ** 0.5:.2g}")


def with_initializer_range(family: Family, config: Any) -> Any:
    """Return a config that has an `initializer_range`, if its family has that argument.

    A run that is resumed keeps the one that it has.
    """
    from tfnlp import models

    if getattr(config, "initializer_range", 0.0) is not None:
        return config
    found = recorded(config, config.output, "arguments", "initializer_range")
    if found is None:
        width = config.hidden_size or getattr(models, family.sizes[config.size])["hidden_size"]
        found = initializer_range(width)
    return config.replace(initializer_range=found)


def recorded(config: Any, folder: str, section: str, name: str) -> float | None:
    """Return a number of the run that a command resumes, which may be an earlier default.

    None if there is no such run or number, or the run is to be deleted.
    """
    from tfnlp.training.run import is_run, read_config

    if config.restart or not is_run(folder):
        return None
    found = read_config(folder).get(section)
    value = found.get(name) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) and value > 0 else None

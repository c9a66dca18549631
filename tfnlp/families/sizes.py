"""Sizes of models, and numbers that follow from them where the settings give none.

The published recipes are those of models of 12 layers x 768. Smaller models learn with larger
steps, and with larger weights at first.
"""

from __future__ import annotations

from typing import Any

from tfnlp.checkpoints import Pretrained
from tfnlp.hub.loading.exported import max_positions as saved_positions
from tfnlp.settings.text import SubwordTextSettings
from tfnlp.settings.training import CHANGED_SIZES, SizeSettings
from tfnlp.training.run import is_run, read_config

FEW_WEIGHTS = 10  # factor of the rate where few weights of a model are trained
_LAYERS, _WIDTH = 12, 768  # BERT-base and GPT


def depth(loaded: Pretrained) -> int | None:
    """Return the number of layers of a model, None if unknown."""
    if loaded.config:
        return loaded.config.get("num_layers")
    if loaded.encoder is None or "encoder_outputs" not in loaded.encoder.output:
        return None
    return len(loaded.encoder.output["encoder_outputs"])


def width(loaded: Pretrained) -> int | None:
    """Return the width of a model's vectors (of an ELMo in one direction), None if unknown."""
    if loaded.config:
        return loaded.config.get("hidden_size") or loaded.config.get("projection_size")
    if loaded.encoder is None:
        return None
    return loaded.encoder.output["sequence_output"].shape[-1]


def max_positions(loaded: Pretrained) -> int | None:
    """Return the longest sequence that a model reads, None if it does not say."""
    if loaded.saved and loaded.encoder is not None:
        return saved_positions(loaded.encoder.get_layer("saved_model"))
    return loaded.config.get("max_positions")


def learning_rate(rates: tuple[float, float], layers: int | None, width: int | None) -> float:
    """Return `base * (12 * 768) / (layers * width)`, from `base` to `highest`, of two digits.

    `rates` are `highest` and `base`; `layers` and `width` of None are those of BERT-base.
    """
    highest, base = rates
    rate = base * (_LAYERS * _WIDTH) / ((layers or _LAYERS) * (width or _WIDTH))
    return float(f"{min(highest, max(base, rate)):.1e}")


def initializer_range(width: int) -> float:
    """Return `0.02 * sqrt(768 / width)` of models narrower than 768, 0.02 of others.

    The standard deviation 0.02 is BERT's and GPT's. With it the products of a narrow model are so
    small that its attention is almost uniform at first.
    """
    return float(f"{0.02 * max(1.0, _WIDTH / width) ** 0.5:.2g}")


def with_initializer_range(settings: Any, width: int) -> Any:
    """Return settings that have an `initializer_range`, by default that of a model so wide.

    A run that is resumed keeps the one that it has.
    """
    if settings.initializer_range is not None:
        return settings
    found = recorded(settings, settings.output, "arguments", "initializer_range")
    return settings.replace(initializer_range=found or initializer_range(width))


def recorded(settings: Any, folder: str, section: str, name: str) -> float | None:
    """Return a number of the run that a command resumes, which may be an earlier default.

    None if there is no such run or number, or the run is to be deleted.
    """
    if settings.restart or not is_run(folder):
        return None
    found = read_config(folder).get(section)
    value = found.get(name) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) and value > 0 else None


def transformer_sizes(settings: SizeSettings, published: dict[str, Any]) -> dict[str, Any]:
    """Return the published sizes, without `vocab_size`, with what the settings change of them."""
    sizes = {name: value for name, value in published.items() if name != "vocab_size"}
    changed = {name: getattr(settings, name) for name in CHANGED_SIZES}
    sizes.update({name: value for name, value in changed.items() if value is not None})
    if settings.hidden_size and not settings.intermediate_size:
        sizes["intermediate_size"] = 4 * settings.hidden_size
    if sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"`hidden_size` {sizes['hidden_size']} is not a multiple of `num_heads` "
            f"{sizes['num_heads']}"
        )
    return sizes


def sizes_of_settings(
    settings: Any, published: dict[str, Any], before: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of an encoder with positions, checked before any work is done.

    They are those of the model `before`, if there is one, else the published ones with changes.
    """
    rates = {"dropout": settings.dropout, "attention_dropout": settings.dropout}
    if before is not None:
        sizes = {name: value for name, value in before.items() if name != "dtype"}
    else:
        sizes = transformer_sizes(settings, published)
        longest = max(sizes.get("max_positions", 512), settings.seq_length)
        sizes["max_positions"] = settings.max_positions or longest
        rates["initializer_range"] = settings.initializer_range
    check_length(settings, sizes["max_positions"])
    return {**sizes, **rates}


def check_length(settings: SubwordTextSettings, positions: int) -> None:
    """Check that the training sequences are no longer than the model reads."""
    if settings.seq_length > positions:
        raise ValueError(
            f"`seq_length` {settings.seq_length} is longer than the model's {positions} positions; "
            "shorten the sequences or raise `max_positions`"
        )

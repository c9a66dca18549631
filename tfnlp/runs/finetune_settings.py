"""Numbers of a fine-tuning that depend on the model."""

from typing import Any

from tfnlp.families.defaults import FEW_WEIGHTS, depth, learning_rate
from tfnlp.families.fitting import width
from tfnlp.settings.finetune import FinetuneSettings


def settings_of(config: FinetuneSettings, backbone: Any, features: str | None) -> dict[str, Any]:
    """Return the numbers of a training: those of the config, else the papers'."""
    fitting = backbone.family.fitting
    if features is not None:
        defaults = dict(epochs=6.0, learning_rate=2e-3, warmup=0.1, weight_decay=0.0, dropout=0.5)
    else:
        defaults = dict(
            epochs=3.0,
            learning_rate=learning_rate(fitting.learning_rates, depth(backbone), width(backbone)),
            warmup=fitting.warmup,
            weight_decay=0.01,
            dropout=0.1,
        )
        if config.lora is not None or config.train_weights is not None:
            rate = FEW_WEIGHTS * defaults["learning_rate"]
            defaults["learning_rate"] = float(f"{min(2e-3, rate):.1e}")
    settings = {
        name: value if getattr(config, name) is None else getattr(config, name)
        for name, value in defaults.items()
    }
    for name in (
        "batch_size", "accumulation", "clip_norm", "optimizer", "layer_decay", "freeze",
    ):  # fmt: skip
        settings[name] = getattr(config, name)
    if config.batch_tokens is not None:
        settings["batch_tokens"] = config.batch_tokens
    if config.pack:
        settings["pack"] = True
    if config.teacher is not None:
        settings["distillation_weight"] = config.distillation_weight
        settings["temperature"] = config.temperature
    with_lm = fitting.language_model and features is None and not backbone.saved
    settings["lm_weight"] = config.lm_weight if with_lm else 0.0
    return settings

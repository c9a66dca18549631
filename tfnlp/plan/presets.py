"""The training steps of the recipes of published models, the defaults of `tfnlp pretrain`."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfnlp import layers, models, training
from tfnlp.families import FAMILIES
from tfnlp.families.family import Planned
from tfnlp.objectives import Objective
from tfnlp.settings.plan import MODELS
from tfnlp.training.engines.step import StepSettings

_STEPS = 1_000_000  # of the schedule; any number: it is a constant of the program


@dataclasses.dataclass(kw_only=True)
class Preset:
    """A training step of a model of `MODELS`; see `tfnlp.families.family.Planned`.

    `rows` are those of the batch: on one device, or of all devices where one program runs on them.
    `dtype` is a Keras dtype policy, `sizes` are arguments of the encoder. The others are those of
    `PlanSettings`; None stands for the published ones.
    """

    name: str
    rows: int = 1
    length: int | None = None
    vocab_size: int | None = None
    predictions: int | None = None
    samples: int | None = None
    dropout: float = 0.1
    dtype: str = "mixed_bfloat16"
    optimizer: str | None = None
    accumulation: int = 1
    remat: str = "none"
    lora: int | None = None
    sizes: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        name, family = self.name, self.family
        for option in ("predictions", "samples"):
            if getattr(self, option) is not None and option not in family.plan_options:
                planned = [f for f in FAMILIES.values() if isinstance(f, Planned)]
                takes = [f.name for f in planned if option in f.plan_options]
                raise ValueError(f"`{option}` is for {' and '.join(takes)}, not for {name}")
        _, size = MODELS[name]
        self.length = self.length or family.plan_lengths[size]
        self.sizes = dict(self.sizes or family.sizes[size])
        self.vocab_size = self.vocab_size or self.sizes.get("vocab_size", family.plan_vocab_size)
        if family.plan_in_encoder:
            self.sizes["vocab_size"] = self.vocab_size
            positions = self.sizes.get("max_positions", 512)
            if self.length > positions:
                raise ValueError(
                    f"`length` {self.length} is longer than the {positions} positions of {name}; "
                    f"give at most {positions}"
                )
        if self.predictions is not None and self.predictions > self.length:
            raise ValueError(
                f"`predictions` {self.predictions} is more than the {self.length} tokens of a row"
            )
        if self.lora is not None and not family.trains:
            raise ValueError(f"`lora` is for Transformers that can be fine-tuned, not for {name}")

    @property
    def family(self) -> Planned:
        """The family of the model."""
        return FAMILIES[MODELS[self.name][0]]

    def objective(self) -> Objective:
        """Return what is learnt."""
        objective = self.family.planned(self.sizes, self)
        if self.lora is not None:
            models.add_low_rank(objective.model, layers.LowRank(self.lora))
        return objective

    def batch(self) -> dict[str, tuple]:
        """Return a dict of the batch's names to (shape, dtype)."""
        return self.family.planned_batch(self)


def step_settings(preset: Preset) -> StepSettings:
    """Return the settings of a preset's step, with the recipe's optimizer, schedule and clipping.

    Called in a scope in which variables have shapes and no values.
    """
    recipe, objective = preset.family.settings, preset.objective()
    optimizer = training.optimizer(preset.optimizer or recipe.optimizer, recipe.weight_decay)
    optimizer.build(objective.model.trainable_variables)
    return StepSettings(
        objective,
        optimizer,
        training.schedule(recipe.schedule, recipe.learning_rate, _STEPS, _STEPS // 100),
        recipe.clip_norm,
        preset.accumulation,
        steps_per_call=1,
        jit_compile=False,  # what calls it is compiled
        seed=0,
        loss_scale=preset.family.planned_loss_scale(preset),
        layer_rates=None,
        remat=preset.remat,
    )

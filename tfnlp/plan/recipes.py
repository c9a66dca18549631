"""What both engines' steps are made of: the families' recipes, the defaults of `tfnlp pretrain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfnlp import training
from tfnlp.training.engines import StepSettings

if TYPE_CHECKING:
    import keras

    from tfnlp.plan.presets import PlanArguments, Preset

_STEPS = 1_000_000  # of the schedule; any number: it is a constant of the program


def recipe_optimizer(preset: Preset, model: keras.Model) -> Any:
    """Return the optimizer of a preset, with slots for a model's weights."""
    recipe = preset.family.config
    optimizer = training.optimizer(preset.optimizer or recipe.optimizer, recipe.weight_decay)
    optimizer.build(model.trainable_variables)
    return optimizer


def step_settings(
    preset: Preset, arguments: PlanArguments, task: Any, optimizer: Any
) -> StepSettings:
    """Return the settings of a step, with the recipe's schedule and clipping.

    Args:
        preset: the model.
        arguments: of its batch.
        task: the family's.
        optimizer: from `recipe_optimizer`.
    """
    recipe = preset.family.config
    return StepSettings(
        task,
        optimizer,
        training.schedule(recipe.schedule, recipe.learning_rate, _STEPS, _STEPS // 100),
        recipe.clip_norm,
        preset.accumulation,
        steps_per_call=1,
        jit_compile=False,  # what calls it is compiled
        seed=0,
        loss_scale=preset.plan.loss_scale(arguments),
        layer_rates=None,
        remat=preset.remat,
    )

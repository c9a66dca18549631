"""What both engines' steps are made of: the families' recipes, the defaults of `tfnlp pretrain`."""

from __future__ import annotations

from tfnlp import training
from tfnlp.plan.presets import Preset
from tfnlp.training.engines import StepSettings

_STEPS = 1_000_000  # of the schedule; any number: it is a constant of the program


def step_settings(preset: Preset) -> StepSettings:
    """Return the settings of a preset's step, with the recipe's optimizer, schedule and clipping.

    Called in a scope in which variables have shapes and no values.
    """
    recipe, task = preset.family.config, preset.task()
    optimizer = training.optimizer(preset.optimizer or recipe.optimizer, recipe.weight_decay)
    optimizer.build(task.model.trainable_variables)
    return StepSettings(
        task,
        optimizer,
        training.schedule(recipe.schedule, recipe.learning_rate, _STEPS, _STEPS // 100),
        recipe.clip_norm,
        preset.accumulation,
        steps_per_call=1,
        jit_compile=False,  # what calls it is compiled
        seed=0,
        loss_scale=preset.plan.loss_scale(preset),
        layer_rates=None,
        remat=preset.remat,
    )

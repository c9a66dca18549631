"""The training steps of the recipes of published models."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfnlp.families import FAMILIES, Family
from tfnlp.settings.plan import MODELS


@dataclasses.dataclass(kw_only=True)
class Preset:
    """A training step of a model of `MODELS`; what a family's `Plan` is asked for.

    Args:
        name: One of `MODELS`.
        rows: Of the batch: on one device, or of all devices where one program runs on them.
        length: Tokens or words a row; None: the published.
        vocab_size: Of the softmax; None: the published.
        predictions: Masked positions a row; None: 15 %.
        samples: Sampled words; None: the recipe's; 0: the full softmax.
        dropout: Rate of all dropouts.
        dtype: A Keras dtype policy.
        optimizer: Its name, instead of the recipe's.
        accumulation: Micro-batches a step.
        remat: What is computed again in the backward pass.
        lora: Rank of low-rank updates, which are trained alone; None: all weights are trained.
        sizes: Arguments of the encoder; None: the published.
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
        from tfnlp import models

        name, plan = self.name, self.plan
        for option in ("predictions", "samples"):
            if getattr(self, option) is not None and option not in plan.options:
                takes = [f.name for f in FAMILIES.values() if f.plan and option in f.plan.options]
                raise ValueError(f"`{option}` is for {' and '.join(takes)}, not for {name}")
        _, size = MODELS[name]
        self.length = self.length or plan.lengths[size]
        self.sizes = dict(self.sizes or getattr(models, self.family.sizes[size]))
        self.vocab_size = self.vocab_size or self.sizes.get("vocab_size", plan.vocab_size)
        if plan.in_encoder:
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
        fitting = self.family.fitting
        if self.lora is not None and (fitting is None or not fitting.fine_tuned):
            raise ValueError(f"`lora` is for Transformers that can be fine-tuned, not for {name}")

    @property
    def family(self) -> Family:
        """The family of the model."""
        return FAMILIES[MODELS[self.name][0]]

    @property
    def plan(self) -> Any:
        """The family's `Plan`."""
        return self.family.plan

    def task(self) -> Any:
        """Return what is learnt, see `tfnlp.tasks`."""
        task = self.plan.task(self.sizes, self)
        if self.lora is not None:
            from tfnlp import layers, models

            models.add_low_rank(task.model, layers.LowRank(self.lora))
        return task

    def batch(self) -> dict[str, tuple]:
        """Return a dict of the batch's names to (shape, dtype)."""
        return self.plan.batch(self.sizes, self)

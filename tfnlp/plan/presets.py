"""The published models by name, and the training steps of their recipes."""

import dataclasses
from typing import Any

from tfnlp.families import FAMILIES, Family
from tfnlp.plan.search import power_of_two


def _published() -> dict[str, tuple[Family, str]]:
    """Return the name of each model to its family and size."""
    found = {}
    for family in sorted(FAMILIES.values(), key=lambda f: f.name):
        for size in family.plan.lengths if family.plan else ():
            # A size that bears the family's name, such as "gpt2-small", needs no prefix.
            named = size if size.startswith(family.name) else family.plan.prefix + size
            found[named] = (family, size)
    return found


MODELS = _published()


@dataclasses.dataclass(frozen=True)
class PlanArguments:
    """What a family's `Plan` is asked for.

    Attributes:
        rows: Of the batch: on one device, or of all devices where one program runs on them.
        length: Tokens or words a row.
        vocab_size: Of the softmax.
        predictions: Masked positions a row; None: 15 %.
        samples: Sampled words; None: the recipe's; 0: the full softmax.
        dropout: Rate of all dropouts.
        dtype: A Keras dtype policy.
    """

    rows: int
    length: int
    vocab_size: int
    predictions: int | None = None
    samples: int | None = None
    dropout: float = 0.1
    dtype: str = "mixed_bfloat16"


_STEP = ("accumulation", "remat", "lora")


class Preset:
    """A model of `MODELS` at one length.

    Args:
        name: One of `MODELS`.
        length: Tokens a row; None: the published.
        vocab_size: None: the published.
        predictions: Masked positions a row; None: 15 %.
        samples: Sampled words; None: the recipe's; 0: the full softmax.
        dropout: Rate of all dropouts.
        bf16: Matrix products in bfloat16.
        optimizer: Its name, instead of the recipe's.
        accumulation: Micro-batches a step.
        remat: What is computed again in the backward pass.
        lora: Rank of low-rank updates, which are trained alone; None: all weights are trained.
    """

    def __init__(
        self,
        name: str,
        length: int | None = None,
        vocab_size: int | None = None,
        predictions: int | None = None,
        samples: int | None = None,
        dropout: float = 0.1,
        bf16: bool = True,
        optimizer: str | None = None,
        accumulation: int = 1,
        remat: str = "none",
        lora: int | None = None,
    ) -> None:
        from tfnlp import models

        if name not in MODELS:
            raise ValueError(f"`model` {name} is unknown; choose one of {', '.join(MODELS)}")
        self.name, (self.family, self.size) = name, MODELS[name]
        self.plan = self.family.plan
        for option, value in (("predictions", predictions), ("samples", samples)):
            if value is not None and option not in self.plan.options:
                takes = [f.name for f in FAMILIES.values() if f.plan and option in f.plan.options]
                raise ValueError(f"`{option}` is for {' and '.join(takes)}, not for {name}")
        self.length = self.plan.lengths[self.size] if length is None else length
        self.sizes = dict(getattr(models, self.family.sizes[self.size]))
        published = self.sizes.get("vocab_size", self.plan.vocab_size)
        self.vocab_size = vocab_size or published
        if self.plan.in_encoder:
            self.sizes["vocab_size"] = self.vocab_size
            positions = self.sizes.get("max_positions", 512)
            if self.length > positions:
                raise ValueError(
                    f"`length` {self.length} is longer than the {positions} positions of {name}; "
                    f"give at most {positions}"
                )
        if predictions is not None and predictions > self.length:
            raise ValueError(
                f"`predictions` {predictions} is more than the {self.length} tokens of a row"
            )
        if lora is not None and (self.family.fitting is None or not self.family.fitting.fine_tuned):
            raise ValueError(f"`lora` is for Transformers that can be fine-tuned, not for {name}")
        self.predictions, self.samples, self.lora = predictions, samples, lora
        self.dropout, self.dtype = dropout, "mixed_bfloat16" if bf16 else "float32"
        self.optimizer, self.accumulation, self.remat = optimizer, accumulation, remat

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments that make the same preset, ready for JSON."""
        same = ("name", "length", "vocab_size", "predictions", "samples", "dropout")
        return {
            **{name: getattr(self, name) for name in (*same, "optimizer", *_STEP)},
            "bf16": self.dtype != "float32",
        }

    def arguments(self, rows: int) -> PlanArguments:
        """Return what the family's `Plan` is asked for."""
        return PlanArguments(
            rows,
            self.length,
            self.vocab_size,
            self.predictions,
            self.samples,
            self.dropout,
            self.dtype,
        )

    def task(self, arguments: PlanArguments) -> Any:
        """Return what is learnt, see `tfnlp.tasks`."""
        task = self.plan.task(self.sizes, arguments)
        if self.lora is not None:
            from tfnlp import layers, models

            models.add_low_rank(task.model, layers.LowRank(self.lora))
        return task

    def step(self, rows: int) -> Any:
        """Return the `PlannedStep` of one device with a batch of so many rows."""
        from tfnlp.plan.steps import planned_step

        return planned_step(self, self.arguments(rows))

    def guess(self, memory: float, fixed: float) -> int:
        """Return a batch that might fill `memory` bytes, of which `fixed` do not depend on it."""
        row = self.plan.row_bytes(self.sizes, self.arguments(1))
        return power_of_two(max(1.0, (memory - fixed) / row))

"""The published models by name, and their training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfnlp.plan.search import power_of_two

if TYPE_CHECKING:
    from tfnlp.plan.steps import PlannedStep

# Name of the sizes in `tfnlp.models`, default length.
MODELS = {
    **{f"bert-{s}": 128 for s in ("tiny", "mini", "small", "medium", "base", "large")},
    **{f"elmo-{s}": 20 for s in ("mini", "small", "medium", "original")},
    "gpt": 512,
    "gpt-mini": 512,
    **{f"gpt2-{s}": 1024 for s in ("small", "medium", "large", "xl")},
}
_VOCABULARY = {"bert": 30522, "elmo": 793471, "gpt": 40478}


class Preset:
    """A model of `MODELS` at one length.

    Args:
        name: one of `MODELS`.
        length: tokens per row; None: the published number.
        vocab_size: None: the published number.
        predictions: BERT's masked positions per row; None: 15 %.
        samples: ELMo's sampled words; 0: the full softmax.
        options: of `tfnlp.plan.steps.planned_step`, and `dropout` and `bf16`.

    Raises:
        ValueError: for an unknown name, a length that the model has no positions for, or an
            option of another family.
    """

    def __init__(
        self,
        name: str,
        length: int | None = None,
        vocab_size: int | None = None,
        predictions: int | None = None,
        samples: int | None = None,
        **options: Any,
    ):
        from tfnlp import models

        if name not in MODELS:
            raise ValueError(f"--model {name} is unknown; choose one of {', '.join(MODELS)}")
        self.name, self.options = name, options
        self.family = "gpt" if name.startswith("gpt") else name.split("-")[0]
        for option, value, family in (
            ("predictions", predictions, "bert"),
            ("samples", samples, "elmo"),
        ):
            if value is not None and self.family != family:
                raise ValueError(f"--{option} is for {family}, not for {name}")
        self.length = MODELS[name] if length is None else length
        self.sizes = dict(getattr(models, name.upper().replace("-", "_")))
        if self.family == "elmo":
            self.samples = 8192 if samples is None else samples
            self.vocab_size = vocab_size or _VOCABULARY["elmo"]
        else:
            known = self.sizes.get("vocab_size", _VOCABULARY[self.family])
            self.sizes["vocab_size"] = vocab_size or known
            positions = self.sizes.get("max_positions", 512)
            if self.length > positions:
                raise ValueError(
                    f"--length {self.length} is longer than the {positions} positions of {name}; "
                    f"give at most {positions}"
                )
        if predictions is not None and predictions > self.length:
            raise ValueError(
                f"--predictions {predictions} is more than the {self.length} tokens of a row"
            )
        self.predictions = predictions

    def step(self, batch: int) -> PlannedStep:
        """Return the `PlannedStep` of one device with `batch` rows."""
        from tfnlp.plan import steps

        if self.family == "bert":
            more = {"predictions": self.predictions}
            return steps.bert_step(self.sizes, batch, self.length, **more, **self.options)
        if self.family == "gpt":
            return steps.gpt_step(self.sizes, batch, self.length, **self.options)
        return steps.elmo_step(
            self.sizes, batch, self.length, self.vocab_size, self.samples, **self.options
        )

    def guess(self, memory: float, fixed: float) -> int:
        """Return a batch that may fill `memory` bytes, of which `fixed` do not depend on it.

        For a Transformer: `L T H (34 + 5 A T / H)` bytes a row and the logits (Korthikanti et al.
        2022, eq. 2). For ELMo: gates and states of the LSTMs, the convolutions of its characters.
        """
        s, length = self.sizes, self.length
        if self.family == "elmo":
            row = length * (2 * 2 * 40 * s["units"] + 2 * 50 * 2048 * 4)
            row += 2 * length * 4 * 3 * min(self.samples or 65536, self.vocab_size)
        else:
            row = s["num_layers"] * length * s["hidden_size"]
            row *= 34 + 5 * s["num_heads"] * length / s["hidden_size"]
            logits = length if self.family == "gpt" else length * 0.15
            row += logits * s["vocab_size"] * 4 * 2
        return power_of_two(max(1.0, (memory - fixed) / row))

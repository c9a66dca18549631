"""The numbers that a run computes matrix products in."""

import dataclasses

from tfnlp.configs import Config, option


@dataclasses.dataclass(kw_only=True)
class PrecisionConfig(Config):
    """Whether matrix products are computed in numbers of 16 bits."""

    bf16: bool = option(
        False, "matrix products in bfloat16", group="optimisation", record="training"
    )
    fp16: bool = option(
        False, "matrix products in float16 and a scaled loss, for GPUs without bfloat16",
        group="optimisation", record="training",
    )  # fmt: skip

    def check(self) -> None:
        """Check the fields, and that they name one kind of number."""
        super().check()
        if self.bf16 and self.fp16:
            raise ValueError("give `bf16` or `fp16`, not both")

    def dtype_policy(self) -> str | None:
        """Return the name of the Keras dtype policy; None: the default one, float32."""
        if self.fp16:
            return "mixed_float16"
        return "mixed_bfloat16" if self.bf16 else None

"""The numbers that a run computes matrix products in."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

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


@contextlib.contextmanager
def dtype_policy(name: str | None) -> Iterator[None]:
    """Build layers with a Keras dtype policy; None: the global one."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if name is None else name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def check_precision(loaded: Any, dtype: str | None) -> None:
    """Refuse a dtype policy of exported modules, which keep their own."""
    if dtype is not None and loaded.saved:
        raise ValueError(
            f"{loaded.path} was exported and keeps its numbers; give the run or checkpoint that it "
            "was made from, or leave out --bf16"
        )

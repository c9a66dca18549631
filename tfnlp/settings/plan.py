"""Settings of `tfnlp plan`."""

import os

from tfnlp.settings.options import Settings, option
from tfnlp.settings.tables import FAMILIES
from tfnlp.settings.training import OPTIMIZERS, REMAT

ENGINES = ("tensorflow", "jax")
CACHE = os.path.join("~", ".cache", "tfnlp", "plan")
# The name of each model that can be planned to its family and size: of those that are gone on with.
# A size that bears the family's name, such as "gpt2-small", needs no prefix.
MODELS = {
    size if size.startswith(name) else f"{name}-{size}": (name, size)
    for name, (kind, _) in sorted(FAMILIES.items())
    if {"size", "start"} <= kind.__dataclass_fields__.keys()
    for size in kind.__dataclass_fields__["size"].metadata["choices"]
}


class PlanSettings(Settings):
    """A training step for the TPU's compiler."""

    model: str = option(
        help=f"published size: {', '.join(MODELS)}", choices=tuple(MODELS), metavar="MODEL"
    )
    engine: str = option("tensorflow", "whose step; both: compare them", choices=(*ENGINES, "both"))
    topology: str = option("v5e:2x4", "CHIP:SHAPE; v2, v3, v4, v5e, v5p, v6e")
    batch: int | None = option(None, "rows of the global batch (default: --search)", at_least=1)
    search: bool = option(False, "find the largest that fits")
    guess: int | None = option(None, "rows a chip with which a search begins", at_least=1)
    length: int | None = option(None, "tokens or words a row (default: the paper's)", at_least=1)
    vocab_size: int | None = option(None, "instead of the published", at_least=1)
    predictions: int | None = option(
        None, "encoders: masked tokens a row (default 15 %)", at_least=1
    )
    samples: int | None = option(None, "ELMo: sampled words (default 8192); 0: all", at_least=0)
    dropout: float = option(0.1, "rate", at_least=0, below=1)
    lora: int | None = option(
        None, "rank of low-rank updates of queries and values, which are trained alone",
        at_least=1, metavar="RANK",
    )  # fmt: skip
    float32: bool = option(False, "no bfloat16")
    optimizer: str | None = option(None, "instead of the recipe's", choices=OPTIMIZERS)
    accumulation: int = option(1, "micro-batches an update", at_least=1)
    remat: str | None = option(
        None, "what is computed again in the backward pass, as in `tfnlp pretrain` (default: none, "
        "or the first that fits)", choices=REMAT,
    )  # fmt: skip
    shard_optimizer: bool = option(False, "jax: each device keeps a part of the weights and slots")
    steps: int | None = option(
        None, "updates of the run, to say its hours and chip-hours", at_least=1
    )
    tokens: int | None = option(
        None, "tokens of the run (ELMo's: words), padding included, instead of --steps",
        at_least=1, at_most=10**16,
    )  # fmt: skip
    time_limit: float = option(3600, "seconds a compilation", above=0)
    cache: str = option(CACHE, "earlier answers", metavar="DIR")
    json: str | None = option(None, "write all figures there", metavar="FILE")
    hlo: str | None = option(None, "write the compiled program there, as text", metavar="FILE")

    def check(self) -> None:
        """Check each field, and those that go together."""
        super().check()
        if self.steps is not None and self.tokens is not None:
            raise ValueError("`steps` and `tokens` both say how long the run is; give one of them")
        if self.shard_optimizer and self.engine != "jax":
            raise ValueError("`shard_optimizer` is for `engine` jax alone")

"""Arguments of `tfnlp plan`."""

import dataclasses

from tfnlp.configs import Config, option
from tfnlp.families.config import OPTIMIZERS
from tfnlp.plan.compiler import CACHE
from tfnlp.plan.presets import MODELS


@dataclasses.dataclass(kw_only=True)
class PlanConfig(Config):
    """A training step for the TPU's compiler."""

    model: str = option(
        help=f"published size: {', '.join(MODELS)}", choices=tuple(MODELS), metavar="MODEL"
    )
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
    float32: bool = option(False, "no bfloat16")
    optimizer: str | None = option(None, "instead of the recipe's", choices=OPTIMIZERS)
    accumulation: int = option(1, "micro-batches an update", at_least=1)
    time_limit: float = option(3600, "seconds a compilation", above=0)
    cache: str = option(CACHE, "earlier answers", metavar="DIR")
    json: str | None = option(None, "write all figures there", metavar="FILE")
    hlo: str | None = option(None, "write the compiled program there, as text", metavar="FILE")

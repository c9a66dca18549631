"""Which weights of a pretrained model a fine-tuning run trains: all, low-rank updates, or some."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.families.sizes import width
from tfnlp.layers import LowRank
from tfnlp.models import add_low_rank, merge_low_rank, train_weights
from tfnlp.models.low_rank import train_everything

SECTION = "adaptation"  # of a run's config.json; runs that train all weights have none


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """What is trained of a pretrained model; the layers of the task always are."""

    low_rank: Mapping[str, Any] | None = None  # the arguments of `tfnlp.layers.LowRank`
    trained: str | None = None  # a pattern, see `tfnlp.models.train_weights`

    def __bool__(self) -> bool:
        return self.low_rank is not None or self.trained is not None

    def config(self) -> dict[str, Any]:
        """Return the section of `config.json`."""
        return {
            "low_rank": None if self.low_rank is None else dict(self.low_rank),
            "trained": self.trained,
        }

    def apply(self, encoder: keras.Model) -> None:
        """Change an encoder in place."""
        if self.low_rank is not None:
            add_low_rank(encoder, LowRank(**self.low_rank))
        if self.trained is not None:
            try:
                train_weights(encoder, self.trained)
            except ValueError as error:
                raise ValueError(f"`train_weights`: {error}") from error

    def finish(self, model: keras.Model) -> None:
        """Make a trained model an ordinary one: updates are merged, all weights trained again."""
        merge_low_rank(model)
        if self:
            train_everything(model)


def adaptation_of(run: Mapping[str, Any]) -> Adaptation:
    """Return what a run's `config.json` says."""
    section = run.get(SECTION)
    if section is None:
        return Adaptation()
    try:
        found = Adaptation(section["low_rank"], section["trained"])
        if not isinstance(found.trained, str | None):
            raise TypeError(f"trained is {found.trained!r:.60}, not a string")
        if found.low_rank is not None:
            LowRank(**found.low_rank)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the section {SECTION!r} of config.json makes no sense: {error}"
        ) from error
    return found


def adaptation_asked(config: Any) -> Adaptation:
    """Return what a `FinetuneSettings` asks for."""
    if config.lora is None:
        for name in ("lora_matrices", "lora_alpha", "lora_dropout"):
            if name in config.given:
                raise ValueError(f"`{name}` is for low-rank updates; give `lora`, their rank, too")
        return Adaptation(None, config.train_weights)
    low_rank = LowRank(
        config.lora, tuple(config.lora_matrices), config.lora_alpha, config.lora_dropout
    )
    return Adaptation(low_rank.config(), config.train_weights)


def check_adaptation(adaptation: Adaptation, loaded: Any, features: str | None) -> None:
    """Check that a model can be trained in part."""
    if not adaptation:
        return
    given = "train_weights" if adaptation.low_rank is None else "lora"
    if features is not None:
        raise ValueError(
            f"`{given}` is for models that are trained themselves; with `features` all of their "
            "weights are frozen; leave one of them out"
        )
    if loaded.saved:
        raise ValueError(
            f"`{given}` needs a run or a checkpoint; {loaded.path} is an exported module, whose "
            "layers are not known"
        )
    rank, size = (adaptation.low_rank or {}).get("rank", 1), width(loaded)
    if size is not None and rank > size:
        raise ValueError(
            f"`lora` {rank:,} is no low rank: the matrices of {loaded.path} have {size} rows or "
            "columns"
        )

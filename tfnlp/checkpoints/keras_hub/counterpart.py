"""The description of a family in keras-hub, which reader and writer take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.mapping import Row
from tfnlp.extras import needed

SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_positions",
}


@dataclass(frozen=True)
class Counterpart:
    """What keras-hub has for one of tfnlp's families.

    Attributes:
        family: name of the family in tfnlp.
        title: what the names of its classes in `keras_hub.models` begin with.
        encoder: function of `tfnlp.models` that makes the encoder.
        with_head: function of an encoder to its pretrainer, with keras-hub's constants.
        constants: arguments of the encoder that keras-hub's code has as constants.
        rows: function of (the encoder's arguments, whether there is a pretraining head) to the
            table of weight path to `Row` of the paths of keras-hub's variables.
        arguments: function of an encoder or a pretrainer to the arguments that made the encoder;
            raises ValueError for another family's.
        read_tokenizer: function of keras-hub's tokenizer to tfnlp's.
        write_tokenizer: function of (tfnlp's tokenizer, keras-hub's class) to keras-hub's.
        lowercase: function of keras-hub's tokenizer to whether text is lower-cased.
        head_constants: the same as `constants`, of the layer `masked_lm_head`; none where the head
            has no weights of its own.
        head: name of the output that only a pretrainer has.
        task: what the name of the class with the pretraining head ends with.
        sizes: argument of the backbone to that of the encoder.
        fixed: arguments of the backbone and the only value that tfnlp has.
        made: paths of weights that are no copies of variables.
        read: function of (keras-hub's variables by path) to the weights `made` by path.
        write: function of (weights by path) to more variables by path.
    """

    family: str
    title: str
    encoder: Callable[..., keras.Model]
    with_head: Callable[[keras.Model], keras.Model]
    constants: Mapping[str, Any]
    rows: Callable[..., dict[str, Row]]
    arguments: Callable[[keras.Model], dict[str, Any]]
    read_tokenizer: Callable[[Any], Any]
    write_tokenizer: Callable[[Any, Any], Any]
    lowercase: Callable[[Any], bool | None] = lambda tokenizer: None
    head_constants: Mapping[str, Any] = field(default_factory=dict)
    head: str = "mlm_logits"
    task: str = "MaskedLM"
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda variables: {}
    write: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda weights: {}

    @property
    def backbone(self) -> str:
        """Name of the class of the encoder."""
        return f"{self.title}Backbone"

    @property
    def pretrainer(self) -> str:
        """Name of the class with the pretraining head."""
        return self.title + self.task


def library() -> ModuleType:
    """Return the module `keras_hub`."""
    return needed("keras_hub", "keras-hub", "keras-hub", "a model of keras-hub")

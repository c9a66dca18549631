"""The class of everything that is loaded: a pretrained model and its parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(eq=False)
class Pretrained:
    """A pretrained model with what belongs to it.

    Attributes:
        encoder: the Keras model with the pretrained weights.
        pretrainer: the model with the pretraining heads on `encoder`, sharing its weights; None if
            the checkpoint holds no pretraining head.
        config: the arguments that make the same encoder again, such as `bert(**config)`.
        make_tokenizer: function without arguments that returns the tokenizer, or raises ValueError
            if the checkpoint has no valid vocabulary; None for a model that has no tokenizer.
        words: the words in the order of their ids, for models with one output a word.
        vocabulary: path of the vocabulary file or folder; None if there is none.
        lowercase: whether text is lower-cased before it is tokenized; None if that is unknown.
        decoder: of encoder-decoders, what a beam search needs.
        family: the family of the model; set by the packages that know families.
        run: contents of `config.json`, if the model was loaded from a run's folder.
        history: losses and metrics of the run's training, if it was loaded from a run's folder.
        path: folder or file that the model was loaded from.
    """

    encoder: keras.Model
    pretrainer: keras.Model | None
    config: dict[str, Any]
    make_tokenizer: Callable[[], Any] | None = None
    words: list[str] | None = None
    vocabulary: str | None = None
    lowercase: bool | None = None
    decoder: Any = None
    family: Any = None
    run: dict[str, Any] | None = None
    history: Any = None
    path: str | None = None

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, made when it is first asked for.

        Raises:
            ValueError: if the model has no tokenizer, or its checkpoint no valid vocabulary.
        """
        if self.make_tokenizer is None:
            raise ValueError(f"model {self.encoder.name!r} has no tokenizer")
        return self.make_tokenizer()

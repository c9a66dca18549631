"""Folds of examples, each of which is held out once."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np


def fold_numbers(task: str, examples: Sequence[Any], count: int) -> np.ndarray:
    """Return the fold of each example, int `[N]` from 0 on, drawn at random with a fixed seed.

    Folds have as many examples, and of each class as many, but for one. An example with several
    labels is of the class of its rarest label.
    """
    if len(examples) < count:
        raise ValueError(f"`folds` {count} of {len(examples)} examples; give fewer folds")
    classes = _classes(task, examples)
    order = np.random.Generator(np.random.Philox(key=0)).permutation(len(examples))
    order = sorted(order.tolist(), key=lambda n: classes[n])  # it stays random within a class
    folds = np.empty(len(examples), int)
    folds[order] = np.arange(len(examples)) % count
    return folds


def _classes(task: str, examples: Sequence[Any]) -> list[str]:
    if task == "classify":
        return [example.label for example in examples]
    if task == "labels":
        counts = collections.Counter(label for example in examples for label in example.label)
        return [min(e.label, key=lambda x: (counts[x], x), default="") for e in examples]
    return [""] * len(examples)

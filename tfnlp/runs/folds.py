"""Folds of examples, each of which is held out once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfnlp.tasks import HeadTask


def fold_numbers(task: type[HeadTask], examples: Sequence[Any], count: int) -> np.ndarray:
    """Return the fold of each example, int `[N]` from 0 on, drawn at random with a fixed seed.

    Folds have as many examples, and of each class as many, but for one. An example with several
    labels is of the class of its rarest label.
    """
    if len(examples) < count:
        raise ValueError(f"`folds` {count} of {len(examples)} examples; give fewer folds")
    classes = task.strata(examples)
    order = np.random.Generator(np.random.Philox(key=0)).permutation(len(examples))
    order = sorted(order.tolist(), key=lambda n: classes[n])  # it stays random within a class
    folds = np.empty(len(examples), int)
    folds[order] = np.arange(len(examples)) % count
    return folds

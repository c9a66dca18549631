"""A Transformer of a few thousand weights and random sentence pairs for it."""

import keras
import numpy as np

from tests.training.toy import ToyBatches
from tfnlp import models, objectives, training

VOCAB, SOURCE, TARGET = 30, 7, 6


class PairBatches(ToyBatches):
    """Batches of a translation's training, from numpy."""

    def batch(self, step):
        random = np.random.default_rng([self.seed, int(step)])
        size = self.batch_size
        source = np.arange(SOURCE) < random.integers(2, SOURCE + 1, size)[:, None]
        target = np.arange(TARGET) < random.integers(2, TARGET + 1, size)[:, None]
        ids = random.integers(1, VOCAB, (size, TARGET + 1))
        return {
            "input_word_ids": (random.integers(1, VOCAB, source.shape) * source).astype("int32"),
            "input_mask": source.astype("int32"),
            "target_word_ids": (ids[:, :-1] * target).astype("int32"),
            "target_ids": (ids[:, 1:] * target).astype("int32"),
            "weights": target.astype("float32"),
        }


def toy_trainer(strategy=None, dropout=0.0, **arguments):
    """A trainer of the same initial weights at every call."""
    strategy = strategy or training.default_strategy()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = models.transformer(
            vocab_size=VOCAB,
            num_layers=1,
            hidden_size=16,
            num_heads=2,
            intermediate_size=32,
            dropout=dropout,
        )
    return training.Trainer(
        objectives.Translation(model),
        training.adam(),
        training.noam(16, 10),
        strategy=strategy,
        **{"clip_norm": 0.5, **arguments},
    )

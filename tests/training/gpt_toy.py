"""A GPT of a few hundred weights and a text for it."""

import keras
import numpy as np

from tfnlp import models, objectives, training
from tfnlp.data import TokenWindows

VOCAB = 20
STREAM = np.random.default_rng(4).integers(0, VOCAB, 250).astype("int32")


def toy_windows(batch_size=8, window=6):
    """Windows with an epoch of five steps."""
    return TokenWindows(STREAM, batch_size=batch_size, window=window, seed=3)


def held_out():
    """Two batches, the last of which has unequal rows and rows without any token."""
    windows = TokenWindows(STREAM[:45], batch_size=8, window=6)
    return windows.evaluation_batches(stride=3)


def toy_trainer(strategy=None, dropout=0.0, **arguments):
    """A trainer of the same initial weights at every call."""
    strategy = strategy or training.default_strategy()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        encoder = models.gpt(
            vocab_size=VOCAB,
            num_layers=1,
            hidden_size=16,
            num_heads=2,
            intermediate_size=32,
            max_positions=6,
            norm_first=True,
            dropout=dropout,
            attention_dropout=dropout,
            initializer_range=0.2,
        )
        model = models.gpt_pretrainer(encoder)
    return training.Trainer(
        objectives.GPTPretraining(model, tokens_per_word=1.3),
        training.bert_adamw(),
        training.cosine(1e-2, 20, 2),
        strategy=strategy,
        **{"clip_norm": 0.3, **arguments},
    )

"""An ELECTRA of a few hundred weights and random batches for it."""

import keras
import numpy as np

from tests.training.toy import LENGTH, PREDICTIONS, VOCAB, ToyBatches
from tfnlp import models, tasks, training


class ElectraBatches(ToyBatches):
    """Toy batches whose predictions are at different positions of a row."""

    def batch(self, step):
        batch = super().batch(step)
        random = np.random.default_rng([1, int(step)])
        places = [random.permutation(np.arange(1, 6)) for _ in range(self.batch_size)]
        del batch["next_sentence_labels"]
        return {**batch, "masked_lm_positions": np.stack(places)[:, :PREDICTIONS].astype("int32")}


def toy_trainer(strategy=None, dropout=0.0, **arguments):
    """A trainer with the same initial weights at every call."""
    keras.utils.set_random_seed(1)
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        encoder = models.electra(
            vocab_size=VOCAB, embedding_size=8, num_layers=1, hidden_size=16, num_heads=2,
            intermediate_size=32, max_positions=LENGTH, dropout=dropout, attention_dropout=dropout,
        )  # fmt: skip
        model = models.electra_pretrainer(encoder, 0.5)
    return training.Trainer(
        tasks.ElectraPretraining(model), training.bert_adamw(), training.linear(1e-2, 20, 2),
        strategy=strategy, **arguments,
    )  # fmt: skip

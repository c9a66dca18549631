"""A BERT of a few hundred weights and random batches for it."""

import keras
import numpy as np
import tensorflow as tf

from tfnlp import models, objectives, training

VOCAB, LENGTH, PREDICTIONS = 60, 12, 3


class ToyBatches:
    """Batches as `tfnlp.data.SentencePairs` gives them, from numpy."""

    def __init__(self, batch_size=16, seed=7):
        self.batch_size, self.seed = batch_size, seed

    def batch(self, step):
        random = np.random.default_rng([self.seed, int(step)])
        size = self.batch_size
        lengths = random.integers(6, LENGTH + 1, size)
        ids = random.integers(5, VOCAB, (size, LENGTH))
        mask = np.arange(LENGTH) < lengths[:, None]
        labels = random.integers(5, VOCAB, (size, PREDICTIONS))
        return {
            "input_word_ids": (ids * mask).astype("int32"),
            "input_mask": mask.astype("int32"),
            "input_type_ids": (mask & (np.arange(LENGTH) > 4)).astype("int32"),
            "masked_lm_positions": random.integers(1, 6, (size, PREDICTIONS)).astype("int32"),
            "masked_lm_ids": labels.astype("int32"),
            # Unequal numbers of targets: a mean of means would not equal the global mean.
            "masked_lm_weights": (random.random((size, PREDICTIONS)) < 0.6).astype("float32"),
            "next_sentence_labels": random.integers(0, 2, size).astype("int32"),
        }

    def dataset(self, first_step=0):
        signature = {k: tf.TensorSpec(v.shape, v.dtype) for k, v in self.batch(0).items()}

        def batches():
            step = first_step
            while True:
                yield self.batch(step)
                step += 1

        return tf.data.Dataset.from_generator(batches, output_signature=signature)


def toy_model(dropout=0.0, num_layers=1, **arguments):
    """The same initial weights at every call."""
    keras.utils.set_random_seed(1)
    encoder = models.bert(
        vocab_size=VOCAB,
        num_layers=num_layers,
        hidden_size=16,
        num_heads=2,
        intermediate_size=32,
        max_positions=16,
        dropout=dropout,
        attention_dropout=dropout,
        **arguments,
    )
    return models.bert_pretrainer(encoder)


def toy_trainer(
    strategy=None, dropout=0.0, optimizer=None, learning_rate=None, num_layers=1, **arguments
):
    """A trainer of the toy model; the gradient norm is above `clip_norm`, so clipping matters."""
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        model = toy_model(dropout, num_layers)
    arguments = {"clip_norm": 0.5, **arguments}
    return training.Trainer(
        objectives.BertPretraining(model),
        optimizer or training.bert_adamw(),
        learning_rate or training.linear(1e-2, 20, 2),
        strategy=strategy,
        **arguments,
    )


def weights(trainer):
    """Copies of the trained weights."""
    return [v.numpy() for v in trainer.objective.model.trainable_variables]


def two_replicas():
    """The strategy with two replicas on this machine's CPU; a process can use only one."""
    return training.make_strategy("mirrored")


def assert_same(some, others, **tolerance):
    """Compare lists of arrays, to the bit or within a tolerance."""
    for a, b in zip(some, others, strict=True):
        if tolerance:
            np.testing.assert_allclose(a, b, **tolerance)
        else:
            np.testing.assert_array_equal(a, b)

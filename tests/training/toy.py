"""A BERT, a GPT and a Transformer of some hundred weights, and random batches for them."""

import keras
import numpy as np
import tensorflow as tf

from tfnlp import models, objectives, training
from tfnlp.data import TokenWindows

VOCAB, LENGTH, PREDICTIONS = 60, 12, 3
SOURCE, TARGET = 7, 6  # of a translation
GPT_VOCAB = 20
STREAM = np.random.default_rng(4).integers(0, GPT_VOCAB, 250).astype("int32")
SIZES = dict(num_layers=1, hidden_size=16, num_heads=2, intermediate_size=32)


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
    sizes = {**SIZES, "num_layers": num_layers, "max_positions": 16, **arguments}
    encoder = models.bert(VOCAB, **sizes, dropout=dropout, attention_dropout=dropout)
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


def gpt_windows():
    """Windows with an epoch of five steps."""
    return TokenWindows(STREAM, batch_size=8, window=6, seed=3)


def gpt_held_out():
    """Two batches, the last of which has unequal rows and rows without any token."""
    return TokenWindows(STREAM[:45], batch_size=8, window=6).evaluation_batches(stride=3)


def gpt_trainer(strategy, dropout=0.0, **arguments):
    """A trainer of the same initial weights at every call."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        encoder = models.gpt(
            vocab_size=GPT_VOCAB,
            **SIZES,
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


class PairBatches(ToyBatches):
    """Batches of a translation's training, from numpy."""

    def batch(self, step):
        random = np.random.default_rng([self.seed, int(step)])
        size = self.batch_size
        source = np.arange(SOURCE) < random.integers(2, SOURCE + 1, size)[:, None]
        target = np.arange(TARGET) < random.integers(2, TARGET + 1, size)[:, None]
        ids = random.integers(1, 30, (size, TARGET + 1))
        return {
            "input_word_ids": (random.integers(1, 30, source.shape) * source).astype("int32"),
            "input_mask": source.astype("int32"),
            "target_word_ids": (ids[:, :-1] * target).astype("int32"),
            "target_ids": (ids[:, 1:] * target).astype("int32"),
            "weights": target.astype("float32"),
        }


def translation_trainer(strategy, dropout=0.0, **arguments):
    """A trainer of the same initial weights at every call."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = models.transformer(vocab_size=30, **SIZES, dropout=dropout)
    return training.Trainer(
        objectives.Translation(model),
        training.adam(),
        training.noam(16, 10),
        strategy=strategy,
        **{"clip_norm": 0.5, **arguments},
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

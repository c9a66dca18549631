"""An ELMo of a few hundred weights and a text for it."""

import functools

import keras
import numpy as np

from tfnlp import models, objectives, training
from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
from tfnlp.text import SPECIAL_WORDS

WORDS = ["rain", "fell", "on", "the", "hills", "all", "day", "né", "."]
UNSEEN = ["a-word-much-longer-than-all-the-others", "dry"]  # read, but never predicted


@functools.cache
def toy_corpus():
    """Thirty sentences of 1 to 9 words in documents of three."""
    random = np.random.default_rng(5)
    lines = [" ".join(random.choice(WORDS + UNSEEN, random.integers(1, 10))) for _ in range(30)]
    documents = [lines[i : i + 3] for i in range(0, 30, 3)]
    return LanguageModelCorpus.build(
        documents, [*SPECIAL_WORDS, *WORDS], [*SPECIAL_WORDS, *WORDS, *UNSEEN], progress=False
    )


def toy_windows(batch_size=8, reset="never"):
    """Windows with an epoch of a few steps."""
    return LanguageModelWindows(toy_corpus(), batch_size=batch_size, window=4, seed=3, reset=reset)


def toy_task(
    batch_size=8, num_layers=2, dropout=0.0, num_samples=None, resets=False, distinct=True
):
    """The same initial weights at every call, three times as large as usual.

    So the states are far from zero and clipped here and there, and carrying them matters.
    """
    keras.utils.set_random_seed(1)
    encoder = models.elmo(
        num_layers,
        units=6,
        projection_size=4,
        embedding_size=3,
        filters=((1, 3), (3, 4)),
        num_highway=1,
        cell_clip=1.0,
        projection_clip=1.0,
        dropout=dropout,
    )
    corpus = toy_corpus()
    model = models.elmo_pretrainer(
        encoder, corpus.vocab_size, num_samples, dropout=dropout, resets=resets
    )
    for variable in model.trainable_variables:
        variable.assign(3.0 * variable)
    return objectives.ElmoPretraining(model, corpus.characters(), batch_size, distinct=distinct)


def toy_trainer(strategy=None, task=None, optimizer=None, rate=0.2, **arguments):
    """A trainer of the toy model with one layer; `task` holds arguments of `toy_task`."""
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        task = toy_task(**{"num_layers": 1, **(task or {})})
    return training.Trainer(
        task,
        optimizer or training.Adagrad(),
        rate,
        strategy=strategy,
        **{"clip_norm": 0.5, **arguments},
    )


def state(trainer):
    """A copy of the carried state."""
    return trainer.objective.state["state"].numpy()

"""Batches of all lengths, computed in parts that are trimmed: the numbers of whole batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import two_replicas
from tfnlp import models, training
from tfnlp.data import TaskBatches
from tfnlp.runs.finetune_recipe import micro_batches
from tfnlp.settings.tables import TASKS
from tfnlp.tasks import FineTuning

VOCAB, TAGS, CHOICES = 30, 3, 2


def task_of(output):
    keras.utils.set_random_seed(0)
    sizes = dict(num_layers=2, hidden_size=16, num_heads=2, intermediate_size=32)
    rates = dict(dropout=0.0, attention_dropout=0.0)
    encoder = models.bert(VOCAB, max_positions=32, **sizes, **rates)
    classes = TAGS if output in ("class", "label", "tag") else None
    sequences = CHOICES if output == "choice" else 1
    return FineTuning(models.bert_task(encoder, output, classes, sequences, dropout=0.0))


def data_of(output, **arguments):
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 30, 50)
    lead = (CHOICES,) if output == "choice" else ()
    tokens = {
        "input_word_ids": [rng.integers(2, VOCAB, (*lead, n)) for n in sizes],
        "input_mask": [np.ones((*lead, n), int) for n in sizes],
        "input_type_ids": [np.zeros((*lead, n), int) for n in sizes],
    }
    if output == "tag":
        tokens["labels"] = [rng.integers(0, TAGS, n) for n in sizes]
        tokens["weights"] = [rng.integers(0, 2, n) for n in sizes]
        fixed = {}
    elif output == "span":
        fixed = {f"{end}_positions": rng.integers(0, 2, 50) for end in ("start", "end")}
    elif output == "label":
        fixed = {"labels": (rng.random((50, TAGS)) < 0.4).astype("float32")}
    else:
        fixed = {"labels": rng.integers(0, 2, 50)}
    return TaskBatches(tokens, fixed, batch_size=16, lengths=[8, 16, 24, 32], **arguments)


def trained(output, steps=12, **arguments):
    task = task_of(output)
    # What shifts all logits of a span has a gradient of 0 but for rounding, which differs between
    # CPUs; beside this epsilon it does not count.
    optimizer = training.AdamW(epsilon=1e-5)
    trainer = training.Trainer(task, optimizer, 1e-3, steps_per_call=10, **arguments)
    history = trainer.fit(data_of(output, mixed=True), steps, progress=False, log_every=1)
    return [w.numpy() for w in task.model.weights], [row["loss"] for row in history.train]


@pytest.mark.slow
@pytest.mark.parametrize("output", ["tag", "span"])
def test_parts_of_similar_length_give_the_numbers_of_the_whole_batch(output):
    """Twelve updates, several of them in a call, as fine-tuning makes them."""
    (whole, losses), (parts, other) = trained(output), trained(output, accumulation=4)
    np.testing.assert_allclose(other, losses, rtol=1e-4)
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=2e-4)


@pytest.mark.parametrize("output", ["tag", "choice"])
def test_trimming_takes_padding_alone(output):
    task = task_of(output)
    dataset = data_of(output, mixed=True).dataset().take(6)
    spec = {n: tf.TensorSpec([4, *x.shape[1:]], x.dtype) for n, x in dataset.element_spec.items()}
    trim = tf.function(lambda batch: task.trimmed(batch), input_signature=[spec], autograph=False)
    taken = 0
    for batch in dataset:
        part = {name: x[12:] for name, x in batch.items()}  # the shortest ones
        found = trim(part)
        longest = int(tf.reduce_max(tf.reduce_sum(part["input_mask"], -1)))
        taken += part["input_mask"].shape[-1] - longest
        for name, x in part.items():
            ends = x.shape[-1] == part["input_mask"].shape[-1] and x.shape.rank > 1
            np.testing.assert_array_equal(found[name], x[..., :longest] if ends else x)
            assert not ends or not np.any(x[..., longest:])
    assert taken > 0


def test_padding_on_the_left_is_kept():
    task, mask = task_of("class"), np.array([[0, 0, 1, 1, 0], [0, 1, 1, 0, 0]], "int32")
    batch = {name: tf.constant(mask) for name in task.model.input}
    spec = {name: tf.TensorSpec([2, None], tf.int32) for name in batch}
    trimmed = tf.function(
        lambda batch: task.trimmed(batch), input_signature=[spec], autograph=False
    )(batch)
    for x in trimmed.values():
        np.testing.assert_array_equal(x, mask[:, :4])
    assert task.trimmed(batch) is batch  # static shapes stay


def test_the_default_depends_on_batch_and_device():
    def found(batch_size, features=None, strategy=None, **given):
        config = TASKS["classify"][0].make(
            output="run", model="m", train="rows.tsv", batch_size=batch_size, **given
        )
        return micro_batches(config, strategy or tf.distribute.get_strategy(), features)

    assert [found(n) for n in (8, 16, 24, 32, 48, 64)] == [1, 2, 1, 4, 2, 4]
    assert found(32, features="last") == found(32, jit=True) == 1
    assert found(32, strategy=two_replicas()) == 1

"""Label smoothing against the sum over an explicit one-hot, and the translation task."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.models.transformer_reference import V, padded, pairs, small, transformer_reference
from tfnlp import tasks, training
from tfnlp.models import bert, transformer
from tfnlp.tasks import smoothed_cross_entropy


def log_softmax(z):
    z = np.asarray(z, "float64")
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def smoothed(ids, size, epsilon):
    return (1 - epsilon) * np.eye(size)[ids] + epsilon / size


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("compiled", [None, True])
def test_smoothing_is_the_formula(epsilon, scale, compiled):
    rng = np.random.default_rng(0)
    z = (scale * rng.standard_normal((3, 4, 50)) - 7).astype("float32")
    z[0, 0] = 3.0  # all equal
    ids = rng.integers(0, 50, (3, 4)).astype("int32")
    weights = rng.standard_normal((3, 4)).astype("float32")

    @tf.function(jit_compile=compiled)
    def run(z):
        with tf.GradientTape() as tape:
            tape.watch(z)
            losses = smoothed_cross_entropy(z, ids, epsilon)
            total = tf.reduce_sum(losses * weights)
        return losses, tape.gradient(total, z)

    losses, gradient = run(tf.constant(z))
    q = smoothed(ids, 50, epsilon)
    assert losses.dtype == tf.float32
    np.testing.assert_allclose(losses, -(q * log_softmax(z)).sum(-1), rtol=1e-5, atol=2e-5)
    want = weights[..., None] * (np.exp(log_softmax(z)) - q)
    np.testing.assert_allclose(gradient, want, atol=2e-6)


def test_half_precision_logits_are_taken_as_float32():
    z = tf.cast(tf.random.stateless_normal((5, 9), (0, 1)), "bfloat16")
    ids = np.array([0, 8, 3, 3, 1], "int32")
    with tf.GradientTape() as tape:
        tape.watch(z)
        losses = smoothed_cross_entropy(z, ids, 0.1)
    assert losses.dtype == tf.float32 and tape.gradient(losses, z).dtype == tf.bfloat16
    want = -(smoothed(ids, 9, 0.1) * log_softmax(tf.cast(z, "float32"))).sum(-1)
    np.testing.assert_allclose(losses, want, rtol=1e-5)


@pytest.fixture(scope="module")
def task():
    return tasks.Translation(small(), label_smoothing=0.2)


def batch_of(lengths, seed=0):
    """A batch and, of each row, its source and target with the start token."""
    sources, targets = pairs(lengths, seed)
    batch = padded(sources, [row[:-1] for row in targets], (1, 2), noise=V - 1)
    shape = batch["target_word_ids"].shape
    ids = np.random.default_rng(1).integers(0, V, shape).astype("int32")
    weights = np.zeros(shape, "float32")
    for row, target in enumerate(targets):
        ids[row, : len(target) - 1] = target[1:]
        weights[row, : len(target) - 1] = 1
    return {**batch, "target_ids": ids, "weights": weights}, sources, targets


def by_hand(model, sources, targets, epsilon):
    """Sums over all targets of smoothed loss, plain loss and right guesses; the number of them."""
    sums = np.zeros(4)
    for source, target in zip(sources, targets, strict=True):
        if len(target) > 1:
            z = transformer_reference(source, target[:-1], model)["lm_logits"]
            log_p, ids = log_softmax(z), np.array(target[1:])
            plain = -log_p[np.arange(len(ids)), ids].sum()
            loss = -(smoothed(ids, V, epsilon) * log_p).sum()
            sums += [loss, plain, (z.argmax(-1) == ids).sum(), len(ids)]
    return sums


def test_sums_and_counts(task):
    batch, sources, targets = batch_of([(5, 7), (1, 2), (3, 4), (2, 9)], 7)
    outputs = task.model(task.inputs(batch))
    loss, plain, right, count = by_hand(task.model, sources, targets, 0.2)
    assert 0 < right < count
    np.testing.assert_allclose(task.losses(batch, outputs)["translation"], loss, rtol=1e-4)
    metrics = task.metrics(batch, outputs)
    assert {name: part for name, (part, _) in metrics.items()} == {
        "token_accuracy": "translation", "nll": "translation"
    }  # fmt: skip
    np.testing.assert_allclose(metrics["nll"][1], plain, rtol=1e-4)
    assert float(metrics["token_accuracy"][1]) == right
    assert float(task.targets(batch)["translation"]) == count == 18
    assert float(task.tokens(batch)) == 11 + 18
    assert task.tokens(batch).dtype == tf.float32


def test_an_evaluation_is_the_mean_over_all_targets(task):
    batches, sums = [], 0
    for lengths, seed in (([(5, 7), (2, 3)], 1), ([(3, 2), (6, 4)], 2)):
        batch, sources, targets = batch_of(lengths, seed)
        batches.append({name: tf.constant(x) for name, x in batch.items()})
        sums = sums + by_hand(task.model, sources, targets, 0.2)
    got = training.Trainer(task, training.adam(), 0.0).evaluate(batches)
    loss, plain, right = sums[:3] / sums[3]
    np.testing.assert_allclose([got["loss"], got["translation_loss"]], loss, rtol=1e-4)
    np.testing.assert_allclose(got["nll"], plain, rtol=1e-4)
    np.testing.assert_allclose(got["perplexity"], math.exp(plain), rtol=1e-3)
    np.testing.assert_allclose(got["token_accuracy"], right, rtol=1e-6)


@pytest.mark.slow
def test_a_toy_language_is_learnt():
    """Targets are reversed sources: this needs the encoder and its order."""
    rng = np.random.default_rng(0)

    class Batches:
        batch_size = 64

        def batch(self):
            source = rng.integers(3, 8, (64, 4))
            target = np.concatenate([source[:, ::-1], np.full((64, 1), 2)], 1)
            read = np.concatenate([np.full((64, 1), 1), target[:, :-1]], 1)
            batch = dict(input_word_ids=source, input_mask=np.ones_like(source))
            batch.update(target_word_ids=read, target_ids=target)
            batch = {name: x.astype("int32") for name, x in batch.items()}
            return {**batch, "weights": np.ones(target.shape, "float32")}

        def dataset(self, first_step=0):
            spec = {k: tf.TensorSpec(v.shape, v.dtype) for k, v in self.batch().items()}
            return tf.data.Dataset.from_generator(
                lambda: iter(self.batch, None), output_signature=spec
            )

    task = tasks.Translation(transformer(8, 1, 32, 4, 64, dropout=0.0, norm_first=True))
    trainer = training.Trainer(task, training.adam(), training.noam(32, 60, scale=0.5))
    trainer.fit(Batches(), 200, progress=False)
    got = trainer.evaluate([Batches().batch()])
    assert got["token_accuracy"] > 0.95 and got["perplexity"] < 1.5


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="no output `lm_logits`; build it with .*transformer"):
        tasks.Translation(bert(V, 1, 8, 2, 8))
    for epsilon in (-0.1, 1.0):
        with pytest.raises(ValueError, match=f"label_smoothing={epsilon}"):
            tasks.Translation(small(), label_smoothing=epsilon)
        with pytest.raises(ValueError, match=f"epsilon={epsilon}"):
            smoothed_cross_entropy(tf.zeros((1, 2)), tf.zeros((1,), "int32"), epsilon)

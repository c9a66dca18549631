"""Fine-tuning with a teacher: the loss against numpy, its invariants, and its columns."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.tasks.fine_tuning_test import constant_model, cross_entropy
from tfnlp import models, training
from tfnlp.data import PackedTaskBatches, TaskBatches
from tfnlp.tasks import FineTuning, Similarity, Tag, TaskDistillation
from tfnlp.tasks.sequences import EncodedExamples, same_windows

VOCAB, K, A, T = 30, 3, 0.3, 2.5
SIZE = dict(
    vocab_size=VOCAB, num_layers=1, hidden_size=16, num_heads=2, intermediate_size=32,
    max_positions=16, dropout=0.0, attention_dropout=0.0, initializer_range=0.3,
)  # fmt: skip
OUTPUTS = {"class": "class_logits", "choice": "choice_logits", "tag": "tag_logits"}


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(logits, soft):
    p, q = log_softmax(soft / T), log_softmax(logits / T)
    return T * T * (np.exp(p) * (p - q)).sum(-1)


def means(task, batch, outputs):
    """The mean of each loss, and the counts."""
    batch, outputs = (
        {name: tf.constant(x, "int32" if np.asarray(x).dtype.kind == "i" else "float32")
         for name, x in values.items()}
        for values in (batch, outputs)
    )  # fmt: skip
    counts = task.targets(batch)
    found = {name: float(x / counts[name]) for name, x in task.losses(batch, outputs).items()}
    return found, {name: float(n) for name, n in counts.items()}


@pytest.mark.parametrize("kind", ["class", "choice", "tag", "score"])
def test_losses_are_the_formulas(kind):
    rng = np.random.default_rng(0)
    shape = (5, 4) if kind == "tag" else (5,)
    real = (np.arange(np.prod(shape)) % 5 > 0).astype("float32").reshape(shape)
    known = real * (rng.random(shape) < 0.6)  # where the label is known
    assert 0 < known.sum() < real.sum()
    if kind == "score":
        logits, soft, labels = rng.normal(size=(3, 5))
        hard, taught = (logits - labels) ** 2, (logits - soft) ** 2
        output, name = "score", "soft_scores"
    else:
        logits, soft = rng.normal(size=(2, *shape, K)) * 2
        labels = rng.integers(0, K, shape)
        hard, taught = cross_entropy(logits, labels), divergence(logits, soft)
        output, name = OUTPUTS[kind], "soft_logits"
    task = FineTuning(constant_model(output))
    batch = {"labels": labels, "weights": known.astype("float32"), "soft_weights": real}
    batch[name] = np.swapaxes(soft, 1, 2) if kind == "tag" else soft
    found, counts = means(TaskDistillation(task, A, T), batch, {output: logits})
    assert counts == {kind: known.sum(), "distillation": real.sum()}
    np.testing.assert_allclose(found[kind], (1 - A) * (hard * known).sum() / known.sum(), rtol=1e-5)
    expected = A * (taught * real).sum() / real.sum()
    np.testing.assert_allclose(found["distillation"], expected, rtol=1e-5)


def test_reports_are_free_of_the_weights():
    task = FineTuning(constant_model("class_logits"))
    given = {"loss": 1.0, "class_loss": 1 - A, "distillation_loss": A}
    want = {"loss": 1.0, "class_loss": 1.0, "distillation_loss": 1.0}
    assert TaskDistillation(task, A, T).report(given) == pytest.approx(want)
    alone = TaskDistillation(task, 1.0, T).report(given)  # no labels are learnt
    assert alone == {"loss": 1.0, "distillation_loss": A}


def test_spans_are_compared_at_real_positions():
    rng = np.random.default_rng(1)
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    student, teacher = rng.normal(size=(2, 2, 3, 4)) * 2  # start and end
    ends = ("start", "end")
    outputs = {f"{e}_logits": np.where(mask, x, -1e9) for e, x in zip(ends, student, strict=True)}
    batch = {f"soft_{e}_logits": x for e, x in zip(ends, teacher, strict=True)}
    batch |= {"start_positions": np.array([0, 1, 0]), "end_positions": np.array([3, 1, 1])}
    batch |= {"weights": np.ones(3), "soft_weights": np.ones(3), "input_mask": mask}
    task = TaskDistillation(FineTuning(constant_model("start_logits", "end_logits")), A, T)
    found, _ = means(task, batch, outputs)
    losses = [
        divergence(student[e, row, :n], teacher[e, row, :n])
        for e in (0, 1)
        for row, n in enumerate(mask.sum(1))
    ]
    np.testing.assert_allclose(found["distillation"], A * np.mean(losses), rtol=1e-5)


def bert_task(kind):
    keras.utils.set_random_seed(3)
    model = models.bert_task(
        models.bert(**SIZE), kind, K if kind != "span" else None, dropout=0.0,
        initializer_range=0.5,
    )  # fmt: skip
    return TaskDistillation(FineTuning(model), A, T)


def columns(kind, count=24):
    rng = np.random.default_rng(4)
    sizes = rng.integers(2, 9, count)
    tokens = {
        "input_word_ids": [rng.integers(2, VOCAB, n) for n in sizes],
        "input_mask": [np.ones(n, int) for n in sizes],
        "input_type_ids": [np.zeros(n, int) for n in sizes],
    }
    known = (np.arange(count) % 3 > 0).astype("float32")  # every third has no label
    fixed = {"weights": known, "soft_weights": np.ones(count, "float32")}
    if kind == "class":
        fixed |= {"labels": rng.integers(0, K, count), "soft_logits": rng.normal(size=(count, K))}
    elif kind == "tag":
        fixed = {}
        tokens["labels"] = [rng.integers(0, K, n) for n in sizes]
        tokens["weights"] = [np.full(n, w) for n, w in zip(sizes, known, strict=True)]
        tokens["soft_weights"] = [(np.arange(n) > 0).astype("float32") for n in sizes]
        tokens["soft_logits"] = [rng.normal(size=(K, n)) for n in sizes]
    else:
        fixed |= {f"{end}_positions": rng.integers(0, 2, count) for end in ("start", "end")}
        for end in ("start", "end"):
            tokens[f"soft_{end}_logits"] = [rng.normal(size=n) for n in sizes]
    return tokens, fixed


def batches(kind, **options):
    return TaskBatches(*columns(kind), **{"batch_size": 8, "lengths": [4, 8], **options})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["class", "tag", "span"])
def test_padding_changes_nothing(kind):
    task = bert_task(kind)
    run = training.Trainer(task, training.AdamW(), 1e-3)
    short, long = (
        run.evaluate(batches(kind, pad_all=pad).evaluation_batches()) for pad in (False, True)
    )
    for name, value in short.items():
        np.testing.assert_allclose(long[name], value, rtol=1e-5, err_msg=name)


def test_packed_rows_have_the_soft_targets_of_their_tokens():
    tokens, fixed = columns("tag")
    packed = PackedTaskBatches(tokens, fixed, batch_size=3, length=10)
    pairs = {}
    for step in range(packed.steps_per_epoch):
        batch = packed.batch(step)
        for row in range(3):
            for at in np.flatnonzero(batch["sequence_ids"][row]):
                logits = tuple(batch["soft_logits"][row, :, at])
                pairs[logits] = batch["input_word_ids"][row, at]
    expected = {
        tuple(soft[:, at].astype("float32")): ids[at]
        for ids, soft in zip(tokens["input_word_ids"], tokens["soft_logits"], strict=True)
        for at in range(len(ids))
    }
    assert pairs == expected


def encoded(words, heads, lengths=(2, 1)):
    """Windows of examples of `lengths` words, all with most context; -1 for special tokens."""
    words = [np.array(row) for row in words]
    windows = {
        "token_word": words,
        "is_head": [np.array(row, bool) for row in heads],
        "is_best": [np.ones(len(row), bool) for row in words],
    }
    inputs = {"input_mask": [np.ones(len(row), "int32") for row in words]}
    splits = np.cumsum([0, *lengths])
    row = np.arange(len(words))
    return EncodedExamples(inputs, np.zeros(len(words), int), row, windows, splits)


def test_tags_of_other_pieces_are_those_of_their_words():
    """The teacher splits word 0 in two and says it at the second piece, the student says word 1."""
    theirs = encoded([[-1, 0, 0, 1], [-1, 2]], [[0, 0, 1, 1], [0, 1]])
    mine = encoded([[0, 1, 1, -1], [2, -1]], [[1, 1, 0, 0], [1, 0]])
    task = Tag(labels=("a", "b"))
    said = [np.arange(10.0).reshape(5, 2) + 1, -np.arange(6.0).reshape(3, 2) - 1]  # padded
    soft = task.soft_outputs(theirs, {"tag_logits": [x.astype("float32") for x in said]})
    np.testing.assert_array_equal(soft["soft_logits"], [[5, 6], [7, 8], [-3, -4]])
    tokens, fixed = task.soft_columns(mine, soft, labelled=2)
    assert fixed == {}
    np.testing.assert_array_equal(tokens["soft_logits"][0], [[5, 7, 0, 0], [6, 8, 0, 0]])
    np.testing.assert_array_equal(tokens["soft_weights"][0], [1, 1, 0, 0])
    np.testing.assert_array_equal(tokens["soft_logits"][1], [[-3, 0], [-4, 0]])
    assert same_windows(mine, mine) and not same_windows(mine, theirs)


def test_scores_keep_their_scale_and_labels_that_are_not_known_weigh_nothing():
    both = EncodedExamples({}, np.zeros(3, int), np.arange(3))
    theirs = Similarity(texts=2, mean=2.0, deviation=4.0)
    mine = Similarity(texts=2, mean=1.0, deviation=2.0)
    soft = theirs.soft_outputs(both, {"score": np.array([0.0, 1.0, -1.0], "float32")})
    _, fixed = mine.soft_columns(both, soft, labelled=2)
    np.testing.assert_allclose(fixed["soft_scores"], [0.5, 2.5, -1.5])
    np.testing.assert_array_equal(fixed["weights"], [1, 1, 0])
    np.testing.assert_array_equal(fixed["soft_weights"], [1, 1, 1])

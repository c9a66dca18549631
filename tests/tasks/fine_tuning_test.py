"""Fine-tuning: losses and metrics against numpy and torch, and parts of a batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.utils.class_weight import compute_class_weight

from tests.training.mixed_batches_test import data_of, task_of
from tests.training.toy import two_replicas
from tfnlp import training
from tfnlp.data import TaggedSentence, TaskBatches, TaskExample
from tfnlp.layers import CRF
from tfnlp.models import gpt_task, gpt_with_extra_tokens
from tfnlp.runs.finetune_recipe import loss_settings
from tfnlp.settings.tables import TASKS
from tfnlp.tasks import Classify, FineTuning, GPTFineTuning, Tag

TAGS = 3


def test_loss_of_a_crf_is_that_of_the_chain_of_targets():
    """Between targets are positions without one, such as pieces within words."""
    rng = np.random.default_rng(4)
    inputs = keras.Input((5, TAGS), name="input_mask")  # any name
    logits = CRF(TAGS, rate=2.0, name="crf")(inputs)
    task = FineTuning(keras.Model({"input_mask": inputs}, {"tag_logits": logits}))
    task.crf.set_weights([rng.normal(size=w.shape) for w in task.crf.weights])
    weights = np.array([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], "float32")
    batch = {"labels": rng.integers(0, TAGS, (3, 5)).astype("int32"), "weights": weights}
    values = rng.normal(size=(3, 5, TAGS)).astype("float32")
    loss, hits = 0.0, 0
    for row in range(2):
        chosen = weights[row] > 0
        alone, labels = values[row : row + 1, chosen], batch["labels"][row : row + 1, chosen]
        loss -= task.crf.log_likelihood(alone, labels).numpy()[0]
        hits += (task.crf.decode(alone)[0].numpy() == labels).sum()
    got = sums(task, batch, {"tag_logits": values})
    np.testing.assert_allclose([got["loss"], got["count"]], [loss, 8], rtol=1e-5)
    assert got["metrics"] == {"tag_accuracy": hits}


@pytest.mark.parametrize("weights, epsilon", [(None, 0.0), (None, 0.2), ([1.0, 4.0, 2.0], 0.2)])
@pytest.mark.parametrize("kind", ["class", "choice", "tag"])
def test_losses_and_accuracies_are_the_formulas(kind, weights, epsilon):
    rng, weights = np.random.default_rng(0), None if kind == "choice" else weights
    logits = rng.normal(size=(5, 4, TAGS) if kind == "tag" else (5, TAGS))
    labels = rng.integers(0, TAGS, logits.shape[:-1]).astype("int32")
    real = rng.integers(0, 2, labels.shape).astype("float32")
    model = constant_model(f"{kind}_logits", shape=logits.shape[1:])
    task = FineTuning(model, weights, epsilon)
    batch = {"labels": labels, "weights": real}
    got = sums(task, batch, {f"{kind}_logits": logits.astype("float32")})
    c = np.array(weights or [1.0] * TAGS)
    q = np.eye(TAGS)[labels] * (1 - epsilon) + epsilon / TAGS
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    counted = c[labels] * real
    np.testing.assert_allclose(got["loss"], (-(c * q * log_p).sum(-1) * real).sum(), rtol=1e-5)
    right = (counted * (logits.argmax(-1) == labels)).sum()
    assert (got["count"], got["metrics"]) == (counted.sum(), {f"{kind}_accuracy": right})


def test_loss_of_scores_and_their_correlation():
    rng, task = np.random.default_rng(0), FineTuning(constant_model("score"))
    x, y = rng.normal(size=5), rng.integers(0, 3, 5)
    batch = {"labels": y.astype("float32"), "weights": np.array([1, 1, 0, 1, 1], "float32")}
    got, real = sums(task, batch, {"score": x.astype("float32")}), batch["weights"] > 0
    np.testing.assert_allclose(got["loss"], ((x - y)[real] ** 2).sum(), rtol=1e-5)
    means = {name: value / 4 for name, value in got["metrics"].items()}
    want = np.corrcoef(x[real], y[real])[0, 1]
    found = task.report({"loss": 1.0, **means})["score_pearson"]
    np.testing.assert_allclose(found, want, rtol=1e-4)
    assert got["count"] == 4


def test_loss_and_scores_of_spans():
    rng = np.random.default_rng(1)
    task = FineTuning(constant_model("start_logits", "end_logits", "sequence_output"))
    start, end = rng.normal(size=(2, 6, 5))
    start[:, 4] = end[:, 4] = -1e9  # padding
    starts, ends = start.argmax(-1), end.argmax(-1)
    starts[1], ends[1:3] = (starts[1] + 1) % 4, (ends[1:3] + 1) % 4
    weights = np.array([1, 1, 1, 1, 1, 0], "float32")
    batch = {"start_positions": starts.astype("int32"), "end_positions": ends.astype("int32")}
    outputs = {"start_logits": start.astype("float32"), "end_logits": end.astype("float32")}
    got = sums(task, {**batch, "weights": weights}, outputs)
    assert task.kind == "span" and got["count"] == 5
    losses = (cross_entropy(start, starts) + cross_entropy(end, ends)) / 2
    np.testing.assert_allclose(got["loss"], losses[:5].sum(), rtol=1e-5)
    assert got["metrics"] == {"start_accuracy": 4, "end_accuracy": 3, "span_accuracy": 3}


def constant_model(*names, shape=(4,)):
    x = keras.Input(shape, name="x")
    return keras.Model({"x": x}, {name: x + 1.0 for name in names})


def cross_entropy(logits, labels):
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, labels[..., None], -1)[..., 0]


def sums(task, batch, outputs):
    """Loss, count and sums of the metrics; all are over the targets of the kind's name."""
    batch, outputs = (
        {name: keras.ops.convert_to_tensor(value) for name, value in values.items()}
        for values in (batch, outputs)
    )
    losses, counts = task.losses(batch, outputs), task.targets(batch)
    metrics = task.metrics(batch, outputs)
    assert set(losses) == set(counts) == {target for target, _ in metrics.values()} == {task.kind}
    return {
        "loss": float(losses[task.kind]),
        "count": float(counts[task.kind]),
        "metrics": {name: float(value) for name, (_, value) in metrics.items()},
    }


def test_what_has_no_loss_is_refused():
    for names in (("class_logits", "score"), ("start_logits",), ("y",)):
        with pytest.raises(ValueError, match="model must have"):
            FineTuning(constant_model(*names))


VOCAB = 12
CONFIG = dict(
    vocab_size=VOCAB,
    num_layers=1,
    hidden_size=16,
    num_heads=2,
    intermediate_size=32,
    max_positions=16,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.2,
)
KINDS = {"class": 1, "score": 2, "choice": 3}


def toy(kind, count=23):
    """The right choice holds the token 7; so do texts of class 1 and score 0.5."""
    rng = np.random.default_rng(0)
    tokens = {"input_word_ids": [], "input_mask": []}
    ends, labels = [], []
    for _ in range(count):
        texts = [rng.choice([1, 2, 3, 4, 5], rng.integers(1, 7)) for _ in range(KINDS[kind])]
        label = int(rng.integers(KINDS[kind] if kind == "choice" else 2))
        marked = texts[label if kind == "choice" else 0]
        if kind == "choice" or label:
            marked[rng.integers(len(marked))] = 7
        sizes = np.array([len(text) + 2 for text in texts])
        mask = np.arange(sizes.max()) < sizes[:, None]
        ids = np.zeros(mask.shape, int)
        ids[mask] = np.concatenate([[VOCAB, *text, VOCAB + 2] for text in texts])
        tokens["input_word_ids"].append(ids)
        tokens["input_mask"].append(mask)
        ends.append(sizes - 1)
        labels.append(label - 0.5 if kind == "score" else label)
    fixed = {"extract_positions": np.array(ends), "labels": np.array(labels)}
    return TaskBatches(tokens, fixed, batch_size=4, lengths=[5, 8])


def toy_task(kind, lm_weight=0.5):
    keras.utils.set_random_seed(3)
    encoder = gpt_with_extra_tokens(None, CONFIG)
    classes = 2 if kind == "class" else None
    model = gpt_task(encoder, kind, classes, KINDS[kind], dropout=0.0, initializer_range=0.5)
    return GPTFineTuning(model, lm_weight)


@pytest.mark.slow
def test_losses_are_means_over_real_targets():
    task, batches = toy_task("choice", 0.3), toy("choice")
    (encoder,) = [layer for layer in task.model.layers if isinstance(layer, keras.Model)]
    table = encoder.get_layer("token_embedding").embeddings.numpy().astype("float64")
    losses, lm = [], []
    for batch in batches.evaluation_batches():
        outputs = task.model(task.inputs(batch))
        outputs = {k: v.numpy().astype("float64") for k, v in outputs.items()}
        batch = {k: v.numpy() for k, v in batch.items()}
        for row in np.flatnonzero(batch["weights"]):
            values = outputs["choice_logits"][row]
            losses.append(np.log(np.exp(values).sum()) - values[batch["labels"][row]])
            for c in range(KINDS["choice"]):
                ids = batch["input_word_ids"][row, c]
                for t in range(batch["input_mask"][row, c].sum() - 1):
                    scores = table @ outputs["sequence_output"][row, c, t]
                    lm.append(np.log(np.exp(scores).sum()) - scores[ids[t + 1]])
    assert len(losses) == 23 and batches.steps_per_epoch * 4 > 23  # some rows are padding
    logs = training.Trainer(task, training.AdamW(), 0.0).evaluate(batches.evaluation_batches())
    np.testing.assert_allclose(logs["choice_loss"], np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(logs["lm_loss"], np.mean(lm), rtol=1e-5)
    np.testing.assert_allclose(logs["lm_perplexity"], np.exp(np.mean(lm)), rtol=1e-5)
    np.testing.assert_allclose(logs["loss"], np.mean(losses) + 0.3 * np.mean(lm), rtol=1e-5)


def test_without_a_weight_there_is_no_language_model():
    task = toy_task("class", 0.0)
    (batch, *_) = toy("class").evaluation_batches()
    losses = task.losses(batch, task.model(task.inputs(batch)))
    assert list(losses) == list(task.targets(batch)) == ["class"]


def test_the_language_model_of_tags_is_that_of_examples_with_a_target():
    keras.utils.set_random_seed(3)
    encoder = gpt_with_extra_tokens(None, CONFIG)
    task = GPTFineTuning(gpt_task(encoder, "tag", 3), 0.5)
    rng = np.random.default_rng(0)
    mask = (np.arange(5) < np.array([[5], [3], [4]])).astype("int32")
    batch = {
        "input_word_ids": (rng.integers(1, VOCAB, (3, 5)) * mask)[:, None].astype("int32"),
        "input_mask": mask[:, None],
        "labels": rng.integers(0, 3, (3, 5)).astype("int32"),
        "weights": (mask * [[0, 1, 0, 1, 0], [0, 1, 1, 1, 0], [0] * 5]).astype("float32"),
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    counts = task.targets(batch)
    assert {name: float(n) for name, n in counts.items()} == {"tag": 4.0, "lm": 6.0}
    outputs = task.model(task.inputs(batch))
    hidden = outputs["sequence_output"].numpy()[:, 0]
    ids, table = batch["input_word_ids"].numpy()[:, 0], encoder.get_layer("token_embedding")
    scores = hidden @ table.embeddings.numpy().T
    log_p = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    want = -sum(log_p[b, t, ids[b, t + 1]] for b, n in ((0, 5), (1, 3)) for t in range(n - 1))
    np.testing.assert_allclose(task.losses(batch, outputs)["lm"], 0.5 * want, rtol=1e-5)


def test_report():
    task = toy_task("score", lm_weight=0.5)
    means = {"loss": 1.5, "score_loss": 1.0, "lm_loss": 0.5}
    flat = {f"score_{name}": 1.0 for name in ("x", "y", "xx", "yy", "xy")}
    report = task.report({**means, **flat})
    want = {"loss": 1.5, "score_loss": 1.0, "lm_loss": 1.0, "lm_perplexity": np.e}
    assert report == want  # equal labels correlate with nothing
    assert task.report({**means, **flat, "score_yy": 2.0}) == {**want, "score_pearson": 0.0}
    assert task.report({**means, **flat, "lm_loss": 400.0})["lm_perplexity"] == float("inf")


LOGITS = np.array(
    [[4.08, -5.11, 0.84, -1.14], [-0.91, -0.43, -4.04, -0.46], [-1.73, 6.65, 0.45, -0.71],
     [-0.56, -1.34, -2.11, -0.78], [0.96, -0.48, 1.92, -0.4], [0.05, 3.09, 1.09, -1.01]]
)  # fmt: skip
# A class of each example, and sets of labels; the last example is padding.
LABELS = {
    "class": np.array([0, 3, 2, 2, 0, 1, 3], "int32"),
    "label": np.float32(
        [
            [0, 1, 0, 1],
            [1, 0, 0, 1],
            [0, 1, 0, 0],
            [1, 0, 0, 0],
            [0, 0, 0, 0],
            [1, 0, 1, 0],
            [1] * 4,
        ]
    ),
}
WEIGHTS = [0.5, 2.0, 1.0, 3.0]
# torch 2.14: CrossEntropyLoss(weight=, label_smoothing=) and BCEWithLogitsLoss(pos_weight=)
TORCH = {
    ("class", None, 0.0): 1.8813721771399095,
    ("class", True, 0.0): 1.5907322673991857,
    ("class", None, 0.1): 1.990205510473243,
    ("class", True, 0.1): 1.8131700247481937,
    ("label", None, 0.0): 1.1053418071378271,
    ("label", True, 0.0): 1.4547895342827364,
}


@pytest.mark.parametrize("kind, weighted, epsilon", TORCH)
def test_the_loss_of_a_batch_is_torchs(kind, weighted, epsilon):
    weights, labels = WEIGHTS if weighted else None, LABELS[kind]
    task = FineTuning(constant_model(f"{kind}_logits"), weights, epsilon)
    logits = np.append(LOGITS, [[9] * 4], 0).astype("float32")
    batch = {"labels": labels, "weights": np.float32([1] * 6 + [0])}
    got = sums(task, batch, {f"{kind}_logits": logits})
    expected = TORCH[kind, weighted, epsilon]
    np.testing.assert_allclose(got["loss"] / got["count"], expected, rtol=1e-6)
    if kind == "class":
        right = LOGITS.argmax(-1) == labels[:6]
        weights = None if weights is None else np.take(weights, labels[:6])
        assert got["count"] >= 6  # the trainer raises a smaller count than 1 to 1
    else:
        right, weights = ((LOGITS > 0) == (labels[:6] > 0)).mean(1), None
        assert got["count"] == 6
    found = got["metrics"][f"{kind}_accuracy"] / got["count"]
    np.testing.assert_allclose(found, np.average(right, weights=weights), rtol=1e-6)


def trained(strategy=None, **arguments):
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        task = FineTuning(task_of("tag").model, [0.2, 1.0, 5.0], 0.1)
    trainer = training.Trainer(
        task, training.AdamW(epsilon=1e-5), 1e-3, strategy=strategy, **arguments
    )
    history = trainer.fit(data_of("tag", mixed=True), 6, progress=False, log_every=1)
    return [row["loss"] for row in history.train], [w.numpy() for w in task.model.weights]


@pytest.mark.slow
def test_parts_of_a_batch_give_the_numbers_of_the_whole():
    """Classes are spread unevenly over the parts: a mean of their means would be another."""
    losses, weights = trained()
    for other, more in (trained(accumulation=4), trained(two_replicas())):
        np.testing.assert_allclose(other, losses, rtol=1e-4)
        for one, two in zip(weights, more, strict=True):
            np.testing.assert_allclose(two, one, rtol=0, atol=2e-4)


TASK = Classify(labels=("a", "b", "c"))
ROWS = [TaskExample(("x",), label) for label in "aaaaabbc"]


def test_balanced_weights_are_those_of_scikit_learn():
    labels = [row.label for row in ROWS]
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=labels)
    assert list(TASK.balanced(ROWS).values()) == pytest.approx(list(expected))
    tags = Tag(labels=("O", "X"))
    found = tags.balanced([TaggedSentence(("a", "b", "c"), ("O", "O", "X"))])
    assert found == {"O": 0.75, "X": 1.5}


def config(task="classify", **more):
    return TASKS[task][0].make(model="m", train="t", output="o", **more)


def test_weights_are_given_as_text_or_as_a_dict():
    for asked in ("c=4, a=0.5", {"c": 4, "a": 0.5}):
        found = loss_settings(config(class_weights=asked), TASK, ROWS)
        assert found == {"class_weights": {"a": 0.5, "b": 1.0, "c": 4.0}}
    assert loss_settings(config(), TASK, ROWS) == {}
    assert loss_settings(config(label_smoothing=0.1), TASK, ROWS) == {"label_smoothing": 0.1}


@pytest.mark.parametrize("asked", ["d=1", "a=0", "a=inf", "a=1,a=2", "heavy", "a=much", [1, 2, 3]])
def test_weights_that_make_no_sense_are_refused(asked):
    with pytest.raises(ValueError, match="`class_weights`"):
        loss_settings(config(class_weights=asked), TASK, ROWS)


def test_tasks_without_classes_are_refused():
    for name, value in (("class_weights", "balanced"), ("label_smoothing", 0.1)):
        with pytest.raises(ValueError, match=name):
            config("similarity", **{name: value})
        with pytest.raises(ValueError, match=f"`{name}`"):
            crf = Tag(labels=("O", "X"), crf=1.0)
            loss_settings(config("tag", crf=True, **{name: value}), crf, ROWS)

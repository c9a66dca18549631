"""GPT's fine-tuning: losses against numpy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import training
from tfnlp.data import TaskBatches
from tfnlp.models import gpt_task, gpt_with_extra_tokens
from tfnlp.tasks import GPTFineTuning

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

"""Fine-tuning: losses and scores against numpy, and that something is learnt."""

import keras
import numpy as np
import pytest

from tests.support import shared_data
from tfnlp import training
from tfnlp.data import LabelledBatches, index_labels, index_words, read_labelled_text, word_ids
from tfnlp.models import elmo_classifier, elmo_tagger
from tfnlp.tasks import FineTuning

VOCAB, TAGS, LAYERS, SIZE = 30, 3, 3, 4
ARGUMENTS = dict(
    embedding_size=8, units=8, dropout=0.0, elmo_dropout=0.0, num_lm_layers=LAYERS, lm_size=SIZE
)


def toy(tags, batch_size=8, count=60, seed=0):
    """Sentences whose labels only the layers tell: the tag is where layer 1 is largest."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, count)
    words = [rng.integers(2, VOCAB, n) for n in sizes]
    layers = rng.normal(size=[sizes.sum(), LAYERS, SIZE])
    labels = np.split(layers[:, 1, :TAGS].argmax(-1), np.cumsum(sizes)[:-1])
    if not tags:
        labels = [int(tag[0]) for tag in labels]
    return LabelledBatches(words, labels, batch_size=batch_size, lengths=[4, 8], layers=layers)


def model(tags, elmo_at):
    keras.utils.set_random_seed(0)
    return (elmo_tagger if tags else elmo_classifier)(
        VOCAB, TAGS, elmo_at=elmo_at, **ARGUMENTS
    )


@pytest.mark.parametrize("tags", [True, False])
def test_loss_and_accuracy_are_means_over_real_targets(tags):
    task = FineTuning(model(tags, "both"))
    data = toy(tags)
    loss, hits, count = 0.0, 0, 0
    for batch in data.evaluation_batches():
        outputs = task.model(task.inputs(batch))
        (logits,) = (value.numpy().astype("float64") for value in outputs.values())
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for where in zip(*np.nonzero(batch["weights"].numpy()), strict=True):
            label = int(batch["labels"].numpy()[where])
            loss -= log_p[where][label]
            hits += logits[where].argmax() == label
            count += 1
    logs = training.Trainer(task, training.AdamW(), 1e-3).evaluate(data.evaluation_batches())
    kind = "tag" if tags else "class"
    np.testing.assert_allclose(logs["loss"], loss / count, rtol=1e-5)
    np.testing.assert_allclose(logs[f"{kind}_loss"], loss / count, rtol=1e-5)
    np.testing.assert_allclose(logs[f"{kind}_accuracy"], hits / count, rtol=1e-6)


@pytest.mark.parametrize("elmo_at", ["input", "output"])
def test_the_layers_are_learnt_from(elmo_at):
    scores = {}
    for place in (None, elmo_at):
        trainer = training.Trainer(
            FineTuning(model(True, place)),
            training.AdamW(weight_decay=0.0, bias_correction=True),
            0.02,
            steps_per_call=20,
        )
        trainer.fit(toy(True, count=200), 200, progress=False)
        scores[place] = trainer.evaluate(toy(True, seed=1).evaluation_batches())["tag_accuracy"]
    # Random words tell nothing of the tags; the mix finds layer 1.
    assert scores[None] < 0.5 and scores[elmo_at] > 0.85
    mix = trainer.task.model.get_layer(f"elmo_{elmo_at}")
    assert np.argmax(mix.scalars.numpy()) == 1


def test_losses_and_scores_of_each_kind():
    rng = np.random.default_rng(0)
    weights = np.array([1, 1, 0, 1, 1], "float32")
    scores = {
        "class": ("class_logits", rng.normal(size=(5, 3))),
        "choice": ("choice_logits", rng.normal(size=(5, 3))),
        "tag": ("tag_logits", rng.normal(size=(5, 4, 3))),
        "score": ("score", rng.normal(size=5)),
    }
    for kind, (name, values) in scores.items():
        task = FineTuning(constant_model(name))
        assert task.kind == kind
        shape = values.shape[:-1] if values.ndim > 1 else values.shape
        labels, tokens = rng.integers(0, 3, shape), rng.integers(0, 2, (5, 4)) * weights[:, None]
        batch = {
            "labels": (labels.astype("float32") if kind == "score" else labels.astype("int32")),
            "weights": (tokens if kind == "tag" else weights).astype("float32"),
        }
        got = sums(task, batch, {name: values.astype("float32")})
        real = batch["weights"] > 0
        assert got["count"] == real.sum()
        x, y = values[real], labels[real]
        if kind == "score":
            np.testing.assert_allclose(got["loss"], ((x - y) ** 2).sum(), rtol=1e-5)
            means = {name: value / real.sum() for name, value in got["metrics"].items()}
            np.testing.assert_allclose(
                task.report({"loss": 1.0, **means})["score_pearson"],
                np.corrcoef(x, y)[0, 1],
                rtol=1e-4,
            )
        else:
            np.testing.assert_allclose(got["loss"], cross_entropy(x, y).sum(), rtol=1e-5)
            assert got["metrics"] == {f"{kind}_accuracy": (x.argmax(-1) == y).sum()}


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


def constant_model(*names):
    x = keras.Input((4,), name="x")
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


def test_a_model_of_no_kind_or_of_two_is_refused():
    with pytest.raises(ValueError, match=r"model must have .* got \['class_logits', 'score'\]"):
        FineTuning(constant_model("class_logits", "score"))
    with pytest.raises(ValueError, match=r"model must have .* got \['start_logits'\]"):
        FineTuning(constant_model("start_logits"))
    with pytest.raises(ValueError, match=r"model must have one of the outputs .* got \['y'\]"):
        FineTuning(constant_model("y"))


def test_sentiment_is_learnt_from_films():
    sentences = read_labelled_text(shared_data("cls/sst2/train.txt"))
    index = index_words((words for words, _ in sentences), 2, True)
    labels = index_labels(label for _, label in sentences)
    rng = np.random.default_rng(0)
    sentences = [sentences[i] for i in rng.permutation(len(sentences))]

    def batches(part):
        ids = [word_ids(words, index, True) for words, _ in part]
        return LabelledBatches(
            ids, [labels[label] for _, label in part], batch_size=50, lengths=[20, 60]
        )

    keras.utils.set_random_seed(0)
    network = elmo_classifier(len(index) + 2, 2, embedding_size=32, units=16, dropout=0.2)
    trainer = training.Trainer(
        FineTuning(network),
        training.AdamW(weight_decay=0.0, bias_correction=True),
        5e-3,
        steps_per_call=20,
    )
    trainer.fit(batches(sentences[:4000]), 160, progress=False)
    logs = trainer.evaluate(batches(sentences[6000:]).evaluation_batches())
    assert logs["class_accuracy"] > 0.65  # either label alone gives 0.52

import keras
import numpy as np
import pytest

from tests.support import shared_data
from tfnlp import training
from tfnlp.data import LabelledBatches, index_labels, index_words, read_labelled_text, word_ids
from tfnlp.models import elmo_classifier, elmo_tagger
from tfnlp.tasks import Labelling

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
    task = Labelling(model(tags, "both"))
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
            Labelling(model(True, place)),
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


def test_a_model_without_labels_is_refused():
    x = keras.Input((4,), name="x")
    with pytest.raises(ValueError, match="model must have one of the outputs .* got \\['y'\\]"):
        Labelling(keras.Model({"x": x}, {"y": x + 1.0}))


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
        Labelling(network),
        training.AdamW(weight_decay=0.0, bias_correction=True),
        5e-3,
        steps_per_call=20,
    )
    trainer.fit(batches(sentences[:4000]), 160, progress=False)
    logs = trainer.evaluate(batches(sentences[6000:]).evaluation_batches())
    assert logs["class_accuracy"] > 0.65  # either label alone gives 0.52

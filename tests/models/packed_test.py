"""Rows of several sequences: outputs, losses and gradients are those of the sequences alone."""

import numpy as np
import pytest

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import randomize
from tests.models import bert_test, electra_test, gpt_reference
from tfnlp import models
from tfnlp.objectives import BertPretraining, GPTPretraining
from tfnlp.tasks import FineTuning

BERT = dict(bert_test.SMALL, dropout=0.0, attention_dropout=0.0)
GPT = dict(gpt_reference.SMALL, dropout=0.0, attention_dropout=0.0)
ENCODERS = {
    "bert": (models.bert, dict(BERT, pooler=False)),
    "albert": (models.albert, dict(BERT, embedding_size=5, pooler=False)),
    "distilbert": (models.distilbert, BERT),
    "electra": (models.electra, dict(electra_test.SMALL, max_positions=12)),
    "roberta": (models.roberta, BERT),
    "mpnet": (models.mpnet, BERT),
    "gpt": (models.gpt, GPT),
    "gpt2": (models.gpt, dict(GPT, norm_first=True)),
}
T = 12
ROWS = [[5, 4, 2], [3, 3, 6], [12], [1, 1, 1, 8]]  # the lengths of sequences; the rest is padding
CLOSE = dict(rtol=1e-5, atol=1e-5)


def pair(name):
    """The same weights for packed rows and for others."""
    make, sizes = ENCODERS[name]
    packed, alone = make(**sizes, packed=True), make(**sizes)
    randomize(packed, np.random.default_rng(3), 0.3)
    alone.set_weights(packed.get_weights())
    return packed, alone


def packed_rows():
    """Rows as in `ROWS`, with noise at padding; the numbers of sequences are arbitrary."""
    rng = np.random.default_rng(4)
    shape = (len(ROWS), T)
    mask, sequences = np.zeros(shape, int), rng.integers(0, 2, shape)
    for row, lengths in enumerate(ROWS):
        end = sum(lengths)
        mask[row, :end] = 1
        sequences[row, :end] = np.repeat([4, 9, 0, 7], [*lengths, 0, 0, 0][:4])
    batch = {
        "input_word_ids": rng.integers(1, gpt_reference.V, shape),
        "input_mask": mask,
        "input_type_ids": rng.integers(0, 2, shape),
        "sequence_ids": sequences,
    }
    return {key: x.astype("int32") for key, x in batch.items()}


def pieces():
    """Where each sequence is: `(row, its places)`."""
    for row, lengths in enumerate(ROWS):
        ends = np.cumsum(lengths)
        yield from ((row, slice(end - n, end)) for end, n in zip(ends, lengths, strict=True))


def unpacked(batch):
    """A row for each sequence, padded on the right to T."""
    found = {key: [] for key in batch if key != "sequence_ids"}
    for row, places in pieces():
        for key, rows in found.items():
            piece = batch[key][row, places]
            rows.append(np.pad(piece, (0, T - len(piece))))
    return {key: np.stack(rows) for key, rows in found.items()}


def call(model, batch):
    return model({key: batch[key] for key in model.input})


@pytest.mark.parametrize("name", ENCODERS)
def test_each_sequence_has_the_outputs_that_it_has_alone(name):
    packed, alone = pair(name)
    batch = packed_rows()
    together, single = (call(m, b) for m, b in ((packed, batch), (alone, unpacked(batch))))
    for key in ("embedding_output", "sequence_output"):
        for number, (row, places) in enumerate(pieces()):
            length = places.stop - places.start
            expected = np.asarray(single[key])[number, :length]
            np.testing.assert_allclose(np.asarray(together[key])[row, places], expected, **CLOSE)


def step(task, batch):
    """The mean loss and its gradients by path."""
    variables, counts = task.model.trainable_variables, task.targets(batch)

    def mean():
        losses = task.losses(batch, call(task.model, batch))
        return sum(total / counts[name] for name, total in losses.items())

    loss, found = gradients(mean, variables)
    found = (g.numpy() for g in without_rows(found))
    return loss, dict(zip((v.path for v in variables), found, strict=True))


def assert_same_step(tasks, batch, single):
    (loss, found), (expected, wanted) = step(tasks[0], batch), step(tasks[1], single)
    np.testing.assert_allclose(loss, expected, **CLOSE)
    for path, gradient in wanted.items():
        scale = max(1.0, np.abs(gradient).max())
        np.testing.assert_allclose(found[path] / scale, gradient / scale, **CLOSE, err_msg=path)


def test_loss_and_gradients_of_a_language_model():
    batch = packed_rows()
    rng = np.random.default_rng(5)
    batch["targets"] = rng.integers(0, gpt_reference.V, (len(ROWS), T)).astype("int32")
    batch["weights"] = batch["input_mask"].astype("float32")
    tasks = [GPTPretraining(models.gpt_pretrainer(encoder)) for encoder in pair("gpt2")]
    assert_same_step(tasks, batch, unpacked(batch))


def masked(batch, places):
    """Add masked positions: of each row these, by row."""
    slots = max(map(len, places))
    rng = np.random.default_rng(6)
    found = {key: np.zeros((len(places), slots)) for key in ("positions", "ids", "weights")}
    for row, chosen in enumerate(places):
        found["positions"][row, : len(chosen)] = chosen
        found["weights"][row, : len(chosen)] = 1
        found["ids"][row, : len(chosen)] = rng.integers(0, bert_test.V, len(chosen))
    types = {"positions": "int32", "ids": "int32", "weights": "float32"}
    return {**batch, **{f"masked_lm_{key}": x.astype(types[key]) for key, x in found.items()}}


def masked_pair():
    """The same masks and answers in packed rows and in rows of a sequence each."""
    batch = packed_rows()
    together = masked(batch, [[1, 4, 6], [2, 7, 8], [0, 5], [3, 10]])
    alone = masked(unpacked(batch), [[1, 4], [1], [], [2], [], [1, 2], [0, 5], [], [], [], [0, 7]])
    # The same answers at the same tokens.
    weights = (b["masked_lm_weights"] > 0 for b in (together, alone))
    together_at, alone_at = weights
    alone["masked_lm_ids"][alone_at] = together["masked_lm_ids"][together_at]
    return together, alone


def firsts(batch):
    """Where sequences begin, padded with 0, and the weights of these places."""
    found = [[p.start for r, p in pieces() if r == row] for row in range(len(ROWS))]
    slots = max(map(len, found)) + 1
    positions = np.array([[*x, *[0] * (slots - len(x))] for x in found], "int32")
    weights = np.array([[n < len(x) for n in range(slots)] for x in found], "float32")
    return {**batch, "first_positions": positions, "weights": weights}


def with_pooler(name, monkeypatch):
    make, sizes = ENCODERS[name]
    monkeypatch.setitem(ENCODERS, name, (make, {**sizes, "pooler": True}))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("bert", dict()),
        ("roberta", dict(hidden="tanh")),
    ],
)
def test_loss_and_gradients_of_sequences_with_one_output_each(name, head, monkeypatch):
    if name == "bert":
        with_pooler(name, monkeypatch)
    head = dict(head, num_classes=3, dropout=0.0)
    tasks = [FineTuning(models.bert_task(encoder, "class", **head)) for encoder in pair(name)]
    tasks[1].model.set_weights(tasks[0].model.get_weights())
    together, alone = firsts(packed_rows()), unpacked(packed_rows())
    labels = np.random.default_rng(8).integers(0, 3, len(alone["input_mask"]))
    labels = labels.astype("int32")
    alone.update(labels=labels, weights=np.ones(len(labels), "float32"))
    together["labels"] = np.zeros(together["weights"].shape, labels.dtype)
    together["labels"][together["weights"] > 0] = labels
    assert_same_step(tasks, together, alone)

    unpacked_model = models.unpacked_task(tasks[0].model)
    found, expected = (call(m, alone)["class_logits"] for m in (unpacked_model, tasks[1].model))
    np.testing.assert_allclose(found, expected, **CLOSE)
    paths = [[v.path for v in m.weights] for m in (unpacked_model, tasks[1].model)]
    assert paths[0] == paths[1]


def test_loss_and_gradients_of_pairs_of_segments(monkeypatch):
    with_pooler("albert", monkeypatch)
    tasks = [BertPretraining(models.albert_pretrainer(encoder)) for encoder in pair("albert")]
    tasks[1].model.set_weights(tasks[0].model.get_weights())
    together, alone = masked_pair()
    together = firsts(together)
    weights = together.pop("weights")
    labels = np.random.default_rng(8).integers(0, 2, int(weights.sum())).astype("int32")
    alone["sentence_order_labels"] = labels
    together["sentence_order_labels"] = np.zeros(weights.shape, "int32")
    together["sentence_order_labels"][weights > 0] = labels
    together["sentence_order_weights"] = weights
    assert_same_step(tasks, together, alone)

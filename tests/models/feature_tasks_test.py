"""Tasks on frozen features, recomputed example by example in float64 numpy."""

import keras
import numpy as np
import pytest

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import dense, inside, randomize, sigmoid
from tests.models.encoder_tasks_test import run
from tfnlp.models import feature_task, select_layers

B, T, L, D, C, K, V, U = 4, 7, 3, 5, 2, 3, 11, 4
KINDS = {"class": (K, 1), "score": (None, 1), "choice": (None, C), "tag": (K, 1), "span": (None, 1)}
# Each kind of output and each argument at least once.
WAYS = [
    ("class", dict(mix="concat", vocab_size=V, lstm_layers=2)),
    ("class", dict(pairs=True, vocab_size=V)),
    ("score", dict(pairs=True, mix="concat")),
    ("choice", dict(pairs=True)),
    ("choice", dict(vocab_size=V)),
    ("tag", dict(vocab_size=V)),
    ("span", dict(pairs=True)),
]
ways = pytest.mark.parametrize(
    "output, arguments", WAYS, ids=["-".join([output, *map(str, a)]) for output, a in WAYS]
)


def build(output, seed=1, layers=L, **arguments):
    keras.utils.set_random_seed(seed)
    num_classes, sequences = KINDS[output]
    model = feature_task(
        output,
        layers,
        D,
        num_classes=num_classes,
        sequences=sequences,
        embedding_size=4,
        units=U,
        **arguments,
    )
    randomize(model, np.random.default_rng(seed), 0.7)
    for variable in model.trainable_variables:
        if variable.path in ("alignment_projection/bias", "alignment/bias", "pair/bias"):
            variable.assign_add(keras.ops.ones(variable.shape))  # most ReLUs let something through
    return model


def inputs(output, layers=L, seed=0):
    """special A special B: no features at the special ones, none beyond the end."""
    rng = np.random.default_rng(seed)
    shape = (B, C) if output == "choice" else (B,)
    sizes = rng.integers(5, T + 1, shape)
    sizes[0] = T
    sizes[1] = 5
    at, middle = np.arange(T), rng.integers(2, 4, shape)[..., None]
    mask = at < sizes[..., None]
    words = mask & (at > 0) & (at != middle)
    return {
        "lm_layers": (rng.normal(size=(*mask.shape, layers, D)) * words[..., None, None]).astype(
            "float32"
        ),
        "input_mask": mask.astype("int32"),
        "input_type_ids": (mask & (at > middle)).astype("int32"),
        "word_ids": (rng.integers(1, V, mask.shape) * words).astype("int32"),
    }


def lstm(x, kernel, recurrent, bias):
    """Outputs `[T, U]` of a sequence without padding; Keras's gates are i, f, c, o."""
    c = h = np.zeros(recurrent.shape[0])
    outputs = []
    for row in x:
        i, f, g, o = np.split(row @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def bilstm(x, get):
    """`[T, 2U]`; `get(way, name)` is a weight, with way "forward" or "backward"."""
    forward, backward = (
        [get(way, name) for name in ("kernel", "recurrent_kernel", "bias")]
        for way in ("forward", "backward")
    )
    return np.concatenate([lstm(x, *forward), lstm(x[::-1], *backward)[::-1]], -1)


def reference(weights, used, layers, types, word_ids, output, mix="weighted", pairs=False, **more):
    """One sequence without padding: h_t and h'_t for tags and spans, else v."""

    def get(path):
        used.update(p for p in weights if p.startswith(f"{path}/"))
        return inside(weights, path)

    def rnn(x, name):
        found = get(name)
        return bilstm(x, lambda way, w: found[f"{way}_lstm/lstm_cell/{w}"])

    layers = layers.astype("float64")  # [T, L, D]
    if mix == "concat":
        x = np.concatenate([layers[:, j] for j in range(layers.shape[1])], -1)
    elif layers.shape[1] == 1:
        x = layers[:, 0]
    else:
        scalars = np.exp(get("mix")["scalars"])
        x = get("mix")["gamma"] * np.einsum("j,tjd->td", scalars / scalars.sum(), layers)
    if more.get("vocab_size"):
        x = np.concatenate([get("word_embedding")["embeddings"][word_ids], x], -1)
    if pairs:
        f = np.maximum(dense(x, get("alignment_projection")), 0)
        a = np.zeros_like(x)
        for t, kind in enumerate(types):
            others = [s for s, other in enumerate(types) if other != kind]
            scores = np.array([f[t] @ f[s] for s in others]) / np.sqrt(f.shape[1])
            p = np.exp(scores) / np.exp(scores).sum()
            a[t] = sum(share * x[s] for share, s in zip(p, others, strict=True))
        x = np.maximum(dense(np.concatenate([x, a, x * a], -1), get("alignment")), 0)
    for index in range(more.get("lstm_layers", 1)):
        x = rnn(x, f"rnn_{index}")
    if output == "tag":
        return x, None
    if output == "span":
        return x, rnn(x, "end_rnn_0")

    def pool(h):
        return np.concatenate([h.max(0), h.mean(0)])

    if not pairs:
        return pool(x)
    p, q = pool(x[types == 0]), pool(x[types == 1])
    v = np.concatenate([p, q, np.abs(p - q), p * q])
    return np.maximum(dense(v, get("pair")), 0)


def expected(model, batch, output, arguments):
    weights = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    used, results = set(), []
    heads = ("start", "end") if output == "span" else ("classifier",)
    head = {name: inside(weights, name) for name in heads}
    used.update(f"{name}/{path}" for name in heads for path in head[name])
    for row in range(B):
        one = []
        for place in [(row, c) for c in range(C)] if output == "choice" else [(row,)]:
            size = int(batch["input_mask"][place].sum())
            parts = [batch[n][place][:size] for n in ("lm_layers", "input_type_ids", "word_ids")]
            one.append(reference(weights, used, *parts, output, **arguments))
        if output == "choice":
            results.append(np.array(one) @ head["classifier"]["kernel"][:, 0])
        elif output == "span":
            ((h, above),) = one
            results.append((h @ head["start"]["kernel"], above @ head["end"]["kernel"]))
        else:
            h = one[0][0] if output == "tag" else one[0]
            results.append(dense(h, head["classifier"]))
    assert used == set(weights)  # nothing is left over
    return results


@ways
def test_outputs_are_those_of_the_formulas(output, arguments):
    model, batch = build(output, **arguments), inputs(output)
    got = run(model, batch)
    assert all(value.reshape(B, -1)[:, 0].std() > 1e-3 for value in got.values())
    for row, want in enumerate(expected(model, batch, output, arguments)):
        size = batch["input_mask"][row].sum()
        if output == "span":
            for name, value in zip(("start_logits", "end_logits"), want, strict=True):
                np.testing.assert_allclose(got[name][row, :size], value[:, 0], atol=1e-5)
                assert (got[name][row, size:] == -1e9).all()
        elif output == "tag":
            np.testing.assert_allclose(got["tag_logits"][row, :size], want, atol=1e-5)
        elif output == "score":
            np.testing.assert_allclose(got["score"][row], want[0], atol=1e-5)
        else:
            np.testing.assert_allclose(got[f"{output}_logits"][row], want, atol=1e-5)


def test_one_layer_is_taken_as_it_is():
    model, batch = build("tag", layers=1), inputs("tag", layers=1)
    assert not any("mix" in v.path for v in model.weights)
    (got,) = run(model, batch).values()
    for row, want in enumerate(expected(model, batch, "tag", {})):
        np.testing.assert_allclose(got[row, : len(want)], want, atol=1e-5)


def test_what_has_no_second_segment_stays_finite():
    batch = inputs("class")
    batch["input_type_ids"][1:] = 0
    batch["input_mask"][2] = 0  # fills up
    model = build("class", pairs=True, dropout=0.0, lm_dropout=0.0)
    given = {name: batch[name] for name in model.input}
    squares, found = gradients(lambda: model(given)["class_logits"] ** 2, model.trainable_variables)
    assert all(np.isfinite(g).all() for g in without_rows(found)) and np.max(squares) < 1e6


@pytest.mark.parametrize("dropped", ["dropout", "lm_dropout"])
def test_dropout_only_while_training(dropped):
    rates = {"dropout": 0.0, "lm_dropout": 0.0, dropped: 0.5}
    model, batch = build("class", pairs=True, vocab_size=V, **rates), inputs("class")
    (plain,), (noisy,) = run(model, batch).values(), run(model, batch, True).values()
    assert np.abs(plain - noisy).max() > 1e-2
    (again,) = run(model, batch).values()
    np.testing.assert_array_equal(plain, again)


def test_features_are_the_rows_of_the_table():
    assert select_layers("embeddings", 12) == ([0], "weighted")
    assert select_layers("second-to-last", 12) == ([11], "weighted")
    assert select_layers("last", 12) == ([12], "weighted")
    assert select_layers("sum-last-four", 12) == ([9, 10, 11, 12], "weighted")
    assert select_layers("concat-last-four", 4) == ([1, 2, 3, 4], "concat")
    assert select_layers("sum-all", 3) == ([1, 2, 3], "weighted")
    assert select_layers("sum-all", 2, embeddings=True) == ([0, 1, 2], "weighted")

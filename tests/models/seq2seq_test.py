"""A tiny encoder-decoder, and its formulas in float64 numpy, a pair of sentences at a time."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize, sigmoid
from tfnlp.models import Seq2SeqDecoder, seq2seq

V, H, START = 13, 8, 1


def small(seed=0, scale=0.5, **arguments):
    """A model with random numbers in every weight."""
    model = seq2seq(**{"vocab_size": V, "hidden_size": H, "dropout": 0.0, **arguments})
    randomize(model, np.random.default_rng(seed), scale)
    return model


def pairs(count, source=6, target=5, seed=0):
    """Lists of source ids, and of what the decoder reads, of different lengths."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(count):
        lengths = max(1, source - 2 * index), max(1, target - index)
        ids, read = (rng.integers(2, V, n).tolist() for n in lengths)
        rows.append((ids, [START, *read[1:]]))
    return rows


def batch(rows, noise=0):
    """The model's inputs for `pairs`, filled up with ids below `noise + 1`."""
    rng = np.random.default_rng(9)
    source, target = (max(map(len, part)) for part in zip(*rows, strict=True))
    ids = rng.integers(0, noise + 1, (len(rows), source))
    read = rng.integers(0, noise + 1, (len(rows), target))
    mask = np.zeros_like(ids)
    for i, (s, t) in enumerate(rows):
        ids[i, : len(s)], mask[i, : len(s)], read[i, : len(t)] = s, 1, t
    inputs = {"input_word_ids": ids, "input_mask": mask, "target_word_ids": read}
    return {name: value.astype("int32") for name, value in inputs.items()}


def softmax(x):
    x = np.exp(x - x.max())
    return x / x.sum()


def cell(gates, c):
    i, j, f, o = np.split(gates, 4)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    return c, sigmoid(o) * np.tanh(c)


def lstm(xs, w, name, c, h):
    """All h `[T, U]`, and the last c and h."""
    outputs = []
    for x in xs:
        gates = x @ w[f"{name}/kernel"] + h @ w[f"{name}/recurrent_kernel"] + w[f"{name}/bias"]
        c, h = cell(gates, c)
        outputs.append(h)
    return np.array(outputs), c, h


def energy(score, w, name, q, k):
    if score == "additive":
        hidden = np.tanh(q @ w[f"{name}/query_kernel"] + k @ w[f"{name}/key_kernel"])
        return hidden @ w[f"{name}/vector"]
    if score == "general":
        return q @ w[f"{name}/kernel"] @ k
    if score == "cosine":
        return w[f"{name}/scale"] * (q @ k) / np.linalg.norm(q) / np.linalg.norm(k)
    return q @ k


def attend(score, w, name, q, memory):
    weights = softmax(np.array([energy(score, w, name, q, k) for k in memory]))
    return sum(a * k for a, k in zip(weights, memory, strict=True)), weights


def encoder(xs, w, num_layers, bidirectional, reverse):
    """Outputs `[S, H]`, and lists of the layers' last c and h."""
    cells, states = [], []
    ways = ("forward", "backward") if bidirectional else ("backward" if reverse else "forward",)
    for layer in range(num_layers):
        found, c, h = [], [], []
        for way in ways:
            name = f"encoder_{layer}_{way}"
            zero = np.zeros(w[f"{name}/recurrent_kernel"].shape[0])
            step = -1 if way == "backward" else 1
            y, last_c, last_h = lstm(xs[::step], w, name, zero, zero)
            found, c, h = [*found, y[::step]], [*c, last_c], [*h, last_h]
        xs = np.concatenate(found, -1)
        cells.append(np.concatenate(c))
        states.append(np.concatenate(h))
    return xs, cells, states


def seq2seq_reference(
    model,
    source,
    target,
    attention="additive",
    input_feeding=False,
    num_layers=1,
    bidirectional=True,
    reverse_source=False,
):
    """Dict of the model's outputs for one pair of lists of ids."""
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    shared = w.get("token_embedding/embeddings")
    read = w.get("source_embedding/embeddings", shared)
    written = w.get("target_embedding/embeddings", shared)
    softmax_table = w.get("softmax/embeddings", written)
    memory, c, h = encoder(read[source], w, num_layers, bidirectional, reverse_source)
    outputs = {"encoder_output": memory}
    outputs["encoder_state"] = np.array([np.concatenate(pair) for pair in zip(c, h, strict=True)])
    xs = written[target]
    if not (input_feeding or attention == "additive"):
        for layer in range(num_layers):
            xs, *_ = lstm(xs, w, f"decoder_{layer}", c[layer], h[layer])
        if attention:
            looked = [attend(attention, w, "attention", q, memory) for q in xs]
            outputs["attention"] = np.array([weights for _, weights in looked])
            kernel = w["attentional_vector/kernel"]
            xs = [
                np.tanh(np.concatenate([context, q]) @ kernel)
                for (context, _), q in zip(looked, xs, strict=True)
            ]
    else:
        found, seen, o = [], [], np.zeros(H)
        for x in xs:
            if input_feeding:
                x = np.concatenate([x, o])
            else:
                context, weights = attend(attention, w, "decoder/attention", h[-1], memory)
                x = np.concatenate([x, context])
            for layer in range(num_layers):
                kernel = w[f"decoder/recurrent_kernel_{layer}"]
                if layer == 0:
                    kernel = np.concatenate([w["decoder/kernel"], kernel])
                gates = np.concatenate([x, h[layer]]) @ kernel + w[f"decoder/bias_{layer}"]
                c[layer], h[layer] = cell(gates, c[layer])
                x = h[layer]
            if input_feeding:
                context, weights = attend(attention, w, "decoder/attention", h[-1], memory)
            o = np.tanh(np.concatenate([context, h[-1]]) @ w["decoder/output_kernel"])
            found.append(o)
            seen.append(weights)
        xs, outputs["attention"] = found, np.array(seen)
    outputs["sequence_output"] = np.array(xs)
    outputs["lm_logits"] = np.array(xs) @ softmax_table.T + w["logit_bias/bias"]
    return outputs


STOP, PAD = 2, 0
CASES = {
    "none": dict(attention=None, num_layers=2),
    "sutskever": dict(attention=None, bidirectional=False, reverse_source=True, num_layers=2),
    "additive": dict(attention="additive"),
    "additive-deep": dict(attention="additive", num_layers=2, bidirectional=False),
    "dot": dict(attention="dot"),
    "cosine": dict(attention="cosine"),
    "general-deep": dict(attention="general", num_layers=2),
    "feeding-general": dict(attention="general", input_feeding=True, num_layers=2),
    "feeding-cosine": dict(attention="cosine", input_feeding=True),
    "feeding-additive": dict(attention="additive", input_feeding=True),
}
# Of each way through the decoder one.
FEW = {name: CASES[name] for name in ("sutskever", "additive", "general-deep", "feeding-general")}
cases = pytest.mark.parametrize("name", CASES)
few = pytest.mark.parametrize("name", FEW)


@pytest.fixture(scope="module")
def models():
    """A model of each case, made once."""
    made = {}

    def model(name):
        if name not in made:
            made[name] = small(seed=3, **CASES[name])
        return made[name]

    return model


def close(got, want, tolerance=1e-4):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@cases
def test_formula(models, name):
    """Every row of a padded batch equals plain numpy on that pair alone."""
    rows = pairs(3)
    outputs = models(name)(batch(rows))
    for index, (source, target) in enumerate(rows):
        want = seq2seq_reference(models(name), source, target, **CASES[name])
        assert set(outputs) == set(want)
        for key, value in want.items():
            got = outputs[key][index].numpy()
            if value.ndim == 2 and key != "encoder_state":
                rows_of = len(source) if key == "encoder_output" else len(target)
                if key == "attention":
                    assert not got[:, len(source) :].any()
                    got = got[:, : len(source)]
                got = got[:rows_of]
            close(got, value)
    spread = np.ptp(outputs["lm_logits"], axis=1)  # what is predicted differs from place to place
    assert spread.max() > 0.5


def test_tables_of_their_own():
    arguments = dict(shared_embeddings=False, tied=False, embedding_size=5)
    model = small(seed=4, **arguments)
    tables = {w.path: tuple(w.shape) for w in model.weights if "embeddings" in w.path}
    assert tables == {
        "source_embedding/embeddings": (V, 5),
        "target_embedding/embeddings": (V, 5),
        "softmax/embeddings": (V, H),
    }
    ((source, target),) = rows = pairs(1)
    want = seq2seq_reference(model, source, target)
    close(model(batch(rows))["lm_logits"][0], want["lm_logits"])


@few
def test_step_by_step_equals_the_whole_model(models, name):
    inputs = batch(pairs(3), noise=V - 1)
    want = models(name)(inputs)["lm_logits"]
    decoder = Seq2SeqDecoder(models(name), START, vocab_size=V - 1)
    assert decoder.vocab_size == V - 1
    ids, mask = tf.constant(inputs["input_word_ids"]), tf.constant(inputs["input_mask"] > 0)
    source, target = ids.shape[1], want.shape[1]
    logits, cache = decoder.prefill(ids, mask, source + target)
    for t in range(target):
        close(logits, want[:, t, : V - 1], 1e-5)
        assert all(part.shape[0] == len(ids) for part in cache)
        if t + 1 < target:
            tokens = tf.constant(inputs["target_word_ids"][:, t + 1])
            logits, cache = decoder.step(tokens, source + t, mask, cache)


@few
def test_attention_of_a_finished_translation(models, name):
    rows = pairs(3)
    inputs = batch(rows)
    ids, mask = tf.constant(inputs["input_word_ids"]), tf.constant(inputs["input_mask"] > 0)
    decoder = Seq2SeqDecoder(models(name), START)
    made = np.concatenate([inputs["target_word_ids"][:, 1:], np.full((3, 1), 7)], 1)
    if CASES[name]["attention"] is None:
        with pytest.raises(ValueError, match="attention=None"):
            decoder.attention(ids, mask, tf.constant(made, "int32"))
        return
    got = decoder.attention(ids, mask, tf.constant(made, "int32"))
    close(got, models(name)(inputs)["attention"], 1e-6)
    close(np.sum(got, -1), 1.0, 1e-5)

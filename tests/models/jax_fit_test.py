"""Every model with plain Keras: `compile`, `fit`, `predict`, `save`, under JAX and TensorFlow."""

import keras
import numpy as np
import pytest

from tests import backends
from tests.layers.reference import randomize
from tests.models import conformance_test as table
from tests.models import elmo_test
from tfnlp import layers, models

BATCH = table.B
rng = np.random.default_rng(5)


def elmo_lstm():
    return models.elmo_lstm(elmo_test.small())


def elmo_pretrainer():
    return models.elmo_pretrainer(elmo_test.small(), vocab_size=11, num_samples=4)


def copied_bert():
    return models.bert_for_tasks(models.bert(**table.BERT), table.BERT, dropout=0.3)


def copied_roberta():
    encoder = models.roberta(**table.BERT)
    return models.encoder_for_tasks(models.roberta, encoder, table.BERT, dropout=0.3)


def low_rank():
    model = table.MODELS["bert class"][0]()
    randomize(model, np.random.default_rng(0), 0.3)  # what is not trained, too
    models.add_low_rank(model, layers.LowRank(2))
    return model


def longer_gpt():
    return models.gpt_with_extra_tokens(models.gpt(**table.GPT), table.GPT)


LSTM = {
    "word_embeddings": rng.standard_normal((BATCH, 6, elmo_test.P)).astype("float32"),
    "word_mask": np.arange(6) < [[6], [4], [5]],
    "state": rng.uniform(-0.5, 0.5, (BATCH, 2 * elmo_test.L, elmo_test.U + elmo_test.P)).astype(
        "float32"
    ),
}
# Those of the conformance table, and functions that return a part or a copy of another model.
MODELS = {
    **table.MODELS,
    "elmo pretrainer": (elmo_pretrainer, elmo_test.pretraining_batch()),
    "elmo lstm": (elmo_lstm, LSTM),
    "nnlm encoder": (lambda: models.nnlm(9, 4, 5, 6), {"input_word_ids": table.ids(BATCH, 4)}),
    "bert copied": (copied_bert, table.ONE),
    "roberta copied": (copied_roberta, table.ONE),
    "gpt with extra tokens": (longer_gpt, table.TEXT),
    "bert low rank": (low_rank, table.ONE),
}


def made(name):
    """A model with random weights, and its inputs."""
    make, inputs = MODELS[name]
    model = make()
    randomize(model, np.random.default_rng(1), 0.3)
    return model, {key: inputs[key] for key in model.input}


def predicted(model, inputs):
    """The outputs by path; without ELECTRA's samples, which each backend draws otherwise."""
    outputs = keras.tree.flatten_with_path(model.predict_on_batch(inputs))
    sampled = "replaced" in model.output
    return {
        "/".join(map(str, path)): np.asarray(y)
        for path, y in outputs
        if not (sampled and path[0] in table.SAMPLED)
    }


def fit(model, inputs, targets):
    """Train with two batches; return the mean loss."""
    if len({len(x) for x in inputs.values()}) > 1:  # `fit` cuts arrays of equal lengths only
        batches = ((inputs, targets) for _ in range(2))
        return model.fit(batches, steps_per_epoch=2, verbose=0).history["loss"][-1]
    both = [{k: np.concatenate([x, x]) for k, x in part.items()} for part in (inputs, targets)]
    size = len(next(iter(inputs.values())))
    return model.fit(*both, batch_size=size, verbose=0).history["loss"][-1]


def values(name, folder):
    """What one model predicts before and after `fit`, and from its file, MODEL.keras."""
    model, inputs = made(name)
    before = model.get_weights()
    learnt = [name for name, y in model.output.items() if not isinstance(y, list)]
    model.compile("adam", loss=dict.fromkeys(learnt, "mse"))
    found = {f"before/{path}": y for path, y in predicted(model, inputs).items()}
    outputs = model.predict_on_batch(inputs)
    targets = {name: rng.standard_normal(outputs[name].shape) for name in learnt}
    found["loss"] = np.array(fit(model, inputs, targets))
    found["moved"] = np.array(
        [np.abs(a - b).max() for a, b in zip(model.get_weights(), before, strict=True)]
    )
    found.update({f"after/{path}": y for path, y in predicted(model, inputs).items()})
    model.save(folder / f"{name}.keras")
    loaded = keras.models.load_model(folder / f"{name}.keras")
    found.update({f"loaded/{path}": y for path, y in predicted(loaded, inputs).items()})
    return found


pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a process with JAX writes its predictions and its models."""
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(scope="module")
def computed(request, folder):
    names = {params["name"] for params in backends.tested(request)}
    return backends.computed(__name__, "jax", names, folder)


@pytest.fixture
def in_jax(request, computed):
    """The values of the model of this test by key."""
    return backends.of_row(computed, request.getfixturevalue("name"))


def part(values, name):
    return {
        key.removeprefix(f"{name}/"): y for key, y in values.items() if key.startswith(f"{name}/")
    }


def assert_close(found, expected, tolerance=1e-4):
    assert found.keys() == expected.keys() and found
    for path, y in expected.items():
        size = max(1.0, np.abs(y[np.abs(y) < 1e8]).max(initial=0))
        np.testing.assert_allclose(found[path], y, rtol=tolerance, atol=tolerance * size)


@each_model
def test_predictions_are_those_of_tensorflow(name, in_jax):
    assert_close(part(in_jax, "before"), predicted(*made(name)))


@each_model
def test_fit_trains(name, in_jax):
    assert np.isfinite(in_jax["loss"])
    assert in_jax["moved"].max() > 1e-4
    before, after = part(in_jax, "before"), part(in_jax, "after")
    assert any(np.abs(after[path] - y).max() > 1e-4 for path, y in before.items())
    assert all(np.isfinite(y).all() for y in after.values())


@each_model
def test_files_are_read_under_both_backends(name, in_jax, folder):
    after = part(in_jax, "after")
    assert_close(part(in_jax, "loaded"), after, 1e-6)
    model = keras.models.load_model(folder / f"{name}.keras")
    assert_close(predicted(model, made(name)[1]), after)

import numpy as np

from tests.convert import elmo_reference
from tests.layers.reference import randomize
from tests.models.elmo_test import OPTIONS, L, P, U, arrays_of, float64, small
from tfnlp.models import elmo_pretrainer


def pretraining_batch(resets=False):
    rng = np.random.default_rng(3)
    words = elmo_reference.sentence_ids(["a", "sea", "of", "words", "."])
    inputs = {"word_characters": words, "state": rng.uniform(-0.5, 0.5, (2, 2 * L, U + P))}
    inputs["state"] = inputs["state"].astype("float32")
    for direction in ("forward", "backward"):
        inputs[f"{direction}_words"] = rng.integers(0, len(words), (2, 6)).astype("int32")
        inputs[f"{direction}_targets"] = rng.integers(0, 11, (2, 6)).astype("int32")
    if resets:
        inputs["resets"] = rng.random((2, 6)) < 0.3
    return inputs


def test_pretrainer_formula():
    encoder = small()
    model, inputs = elmo_pretrainer(encoder, vocab_size=11, num_samples=4), pretraining_batch()
    softmax = model.get_layer("softmax")
    randomize(softmax, np.random.default_rng(4))
    assert {id(w) for w in model.weights} - {id(w) for w in encoder.weights} == {
        id(w) for w in softmax.weights
    }
    outputs, arrays = model(inputs), arrays_of(encoder)
    vectors = [
        elmo_reference.token_vector(arrays, OPTIONS, row) for row in inputs["word_characters"]
    ]
    for row in range(2):
        for side, direction in enumerate(("forward", "backward")):
            x = np.array([vectors[w] for w in inputs[f"{direction}_words"][row]])
            for layer in range(L):
                state = inputs["state"][row, 2 * layer + side].astype("float64")
                x, (c, h) = elmo_reference.lstm(
                    arrays, OPTIONS, side, layer, x, (state[:U], state[U:])
                )
                got = outputs["state"][row, 2 * layer + side]
                np.testing.assert_allclose(got, np.concatenate([c, h]), rtol=1e-5, atol=1e-5)
            scores = x @ float64(softmax.kernel).T + float64(softmax.bias)
            targets = inputs[f"{direction}_targets"][row]
            expected = np.log(np.exp(scores).sum(-1)) - scores[np.arange(6), targets]
            np.testing.assert_allclose(
                outputs[f"{direction}_losses"][row], expected, rtol=1e-5, atol=1e-5
            )


def test_pretrainer_resets_and_static_batch():
    model = elmo_pretrainer(small(), 11, num_samples=None, batch_size=2, resets=True)
    inputs = pretraining_batch(resets=True)
    assert model.input["resets"].shape == (2, None)
    inputs["resets"][:, 0] = True
    first = model(inputs)
    second = model({**inputs, "state": inputs["state"] + 1})  # forgotten before it is read
    np.testing.assert_array_equal(first["forward_losses"], second["forward_losses"])
    inputs["resets"][:] = False
    assert not np.allclose(model(inputs)["backward_losses"], first["backward_losses"])

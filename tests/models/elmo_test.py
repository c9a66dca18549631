import numpy as np
import pytest

from tests.checkpoints import elmo_reference
from tests.layers.reference import randomize
from tfnlp.models import elmo, elmo_lstm, elmo_pretrainer

L, U, P, E = 2, 7, 4, 3
SMALL = dict(
    num_layers=L,
    units=U,
    projection_size=P,
    embedding_size=E,
    filters=((1, 2), (3, 5)),
    num_highway=1,
)
OPTIONS = elmo_reference.small_options()  # the same sizes, in bilm-tf's words
SENTENCES = [["It", "seems", "so"], ["Mo"], [], ["naïve", "北京", ".", "x" * 60, "a"]]
LENGTHS = [len(sentence) for sentence in SENTENCES]
T = max(LENGTHS)


def small(seed=0, **arguments):
    model = elmo(**{**SMALL, **arguments})
    rng = np.random.default_rng(seed)
    for layer in model.layers:
        randomize(layer, rng, 0.6)
    return model


def batch(sentences=SENTENCES, length=T):
    ids = np.zeros((len(sentences), length, 50), "int32")
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = elmo_reference.sentence_ids(sentence)
    return {"character_ids": ids}


def float64(weight):
    return np.asarray(weight, "float64")


def arrays_of(model):
    """The weights by bilm-tf's names, as the reference reads them."""
    cnn, bilm = model.get_layer("char_cnn"), model.get_layer("bilm")
    arrays = {"char_embed": float64(cnn.character_embedding)}
    for i, (kernel, bias) in enumerate(zip(cnn.kernels, cnn.biases, strict=True)):
        arrays[f"CNN/W_cnn_{i}"], arrays[f"CNN/b_cnn_{i}"] = float64(kernel)[None], float64(bias)
    for i, highway in enumerate(cnn.highways):
        arrays[f"CNN_high_{i}/W_carry"] = float64(highway.carry_kernel)
        arrays[f"CNN_high_{i}/b_carry"] = float64(highway.carry_bias_weight)
        arrays[f"CNN_high_{i}/W_transform"] = float64(highway.transform_kernel)
        arrays[f"CNN_high_{i}/b_transform"] = float64(highway.transform_bias)
    arrays["CNN_proj/W_proj"] = float64(cnn.projection_kernel)
    arrays["CNN_proj/b_proj"] = float64(cnn.projection_bias)
    for direction, lstms in enumerate((bilm.forward_lstms, bilm.backward_lstms)):
        for i, lstm in enumerate(lstms):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell/"
            kernels = [float64(lstm.kernel), float64(lstm.recurrent_kernel)]
            arrays[cell + "W_0"] = np.concatenate(kernels)
            arrays[cell + "B"] = float64(lstm.bias)
            arrays[cell + "W_P_0"] = float64(lstm.projection_kernel)
    return arrays


def mixed(model, layers, normalized=False):
    """`gamma sum_j softmax(s)_j h_j`, the token vectors twice as h_0."""
    mix = model.get_layer("scalar_mix")
    share = np.exp(float64(mix.scalars))
    layers = [np.concatenate([layers[0], layers[0]], -1), *layers[1:]]
    if normalized:
        layers = [(h - h.mean()) / h.std() for h in layers]
    return float64(mix.gamma) * sum(s * h for s, h in zip(share / share.sum(), layers, strict=True))


def reference(model, keep_boundaries=False, normalized=False):
    """Outputs by name, sentence by sentence from bilm-tf's formulas."""
    places = T + 2 if keep_boundaries else T
    names = ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"]
    expected = {n: np.zeros((len(SENTENCES), places, 2 * P)) for n in names}
    expected["word_emb"] = expected["word_emb"][..., :P]
    expected["default"] = np.zeros((len(SENTENCES), 2 * P))
    arrays = arrays_of(model)
    for row, sentence in enumerate(SENTENCES):
        ids = elmo_reference.with_boundaries(elmo_reference.sentence_ids(sentence))
        layers, _ = elmo_reference.layers(arrays, OPTIONS, ids)
        if not keep_boundaries:
            layers = [x[1:-1] for x in layers]
        if not len(layers[0]):
            continue
        layers.append(mixed(model, layers, normalized))
        for name, x in zip(names, layers, strict=True):
            expected[name][row, : len(x)] = x
        expected["default"][row] = layers[-1].mean(0)
    return expected


def assert_close(got, expected, tolerance=2e-5):
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("keep_boundaries, layer_norm", [(False, True), (True, False)])
def test_formula(keep_boundaries, layer_norm):
    model = small(keep_sentence_boundaries=keep_boundaries, layer_norm=layer_norm)
    outputs = model(batch())
    assert_close(outputs, reference(model, keep_boundaries, layer_norm))
    for name, value in outputs.items():
        if name != "default":
            for row, length in zip(np.asarray(value), LENGTHS, strict=True):
                count = length + 2 if keep_boundaries else length
                assert not row[count:].any()  # zeros, not small numbers
                assert (row[:count] != 0).all(-1).all()


def test_no_words_at_all():
    outputs = small()({"character_ids": np.zeros((2, 0, 50), "int32")})
    assert outputs["elmo"].shape == (2, 0, 2 * P)
    np.testing.assert_array_equal(outputs["default"], np.zeros((2, 2 * P)))


def with_boundaries():
    """Ids with boundaries `[B, T + 2, 50]` and which are real."""
    ids = np.zeros((len(SENTENCES), T + 2, 50), "int32")
    for row, sentence in zip(ids, SENTENCES, strict=True):
        words = elmo_reference.with_boundaries(elmo_reference.sentence_ids(sentence))
        row[: len(words)] = words
    return ids, ids[:, :, 0] > 0


def vectors(encoder, ids):
    return np.asarray(encoder.get_layer("char_cnn")(ids))


def test_lstm_part_carries_a_state():
    encoder = small()
    recurrent, arrays = elmo_lstm(encoder), arrays_of(encoder)
    ids, mask = with_boundaries()
    rng = np.random.default_rng(5)
    state = rng.uniform(-1, 1, (len(SENTENCES), 2 * L, U + P)).astype("float32")
    outputs = recurrent(
        {"word_embeddings": vectors(encoder, ids), "word_mask": mask, "state": state}
    )
    for row, length in enumerate(LENGTHS):
        layers, after = elmo_reference.layers(
            arrays, OPTIONS, ids[row, : length + 2], state[row].astype("float64")
        )
        np.testing.assert_allclose(outputs["state"][row], after, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            outputs["lstm_outputs2"][row, :length], layers[2][1:-1], rtol=1e-5, atol=1e-5
        )


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

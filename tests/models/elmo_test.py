import numpy as np
import pytest

from tests.checkpoints import elmo_reference
from tests.layers.reference import randomize
from tfnlp.models import elmo, elmo_pretrainer

L, U, P, E = 2, 7, 4, 3
SMALL = dict(
    num_layers=L,
    units=U,
    projection_size=P,
    embedding_size=E,
    filters=((1, 2), (3, 5)),
    num_highway=1,
)
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


@pytest.mark.parametrize("layer_norm", [False, True])
def test_boundaries_are_kept_or_not_and_padding_is_zero(layer_norm):
    """What the layers of words are is compared with bilm-tf's in tests/checkpoints."""
    plain, kept = (
        small(keep_sentence_boundaries=keep, layer_norm=layer_norm) for keep in (False, True)
    )
    names = ("word_emb", "lstm_outputs1", "lstm_outputs2")
    inside, whole = ({k: float64(x) for k, x in m(batch()).items()} for m in (plain, kept))
    for row, length in enumerate(LENGTHS):
        for name in names:
            words = whole[name][row, 1 : length + 1]
            np.testing.assert_array_equal(inside[name][row, :length], words)
    mix = plain.get_layer("scalar_mix")
    share = np.exp(float64(mix.scalars)) / np.exp(float64(mix.scalars)).sum()
    for outputs, more in ((inside, 0), (whole, 2)):
        assert set(outputs) == {*names, "elmo", "default"}
        for row, length in enumerate(LENGTHS):
            count, mixed = length + more, 0
            for name, s in zip(names, share, strict=True):
                h = outputs[name][row, :count]
                assert (h != 0).all() and not outputs[name][row, count:].any()
                h = np.concatenate([h, h], -1) if name == "word_emb" else h
                h = (h - h.mean()) / h.std() if layer_norm and count else h
                mixed = mixed + float64(mix.gamma) * s * h
            close = dict(rtol=2e-5, atol=2e-5)
            np.testing.assert_allclose(outputs["elmo"][row, :count], mixed, **close)
            assert not outputs["elmo"][row, count:].any()
            mean = mixed.mean(0) if count else 0
            np.testing.assert_allclose(outputs["default"][row], mean + np.zeros(2 * P), **close)


def test_no_words_at_all():
    outputs = small()({"character_ids": np.zeros((2, 0, 50), "int32")})
    assert outputs["elmo"].shape == (2, 0, 2 * P)
    np.testing.assert_array_equal(outputs["default"], np.zeros((2, 2 * P)))


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

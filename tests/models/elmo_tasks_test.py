import keras
import numpy as np
import pytest

from tests.models.lstm_reference import bilstm
from tfnlp.models import elmo_classifier, elmo_tagger

VOCAB, LABELS, LAYERS, SIZE = 20, 5, 3, 6
ARGUMENTS = dict(embedding_size=4, units=3, num_lm_layers=LAYERS, lm_size=SIZE)
BUILDERS = {"tag_logits": elmo_tagger, "class_logits": elmo_classifier}


def inputs(batch=4, length=7, sizes=(7, 3, 1, 5), seed=0):
    rng = np.random.default_rng(seed)
    real = np.arange(length) < np.array(sizes)[:, None]
    return {
        "word_ids": (rng.integers(1, VOCAB, (batch, length)) * real).astype("int32"),
        "lm_layers": rng.normal(size=(batch, length, LAYERS, SIZE)).astype("float32"),
    }


def build(output, elmo_at, **arguments):
    keras.utils.set_random_seed(3)
    model = BUILDERS[output](VOCAB, LABELS, elmo_at=elmo_at, **{**ARGUMENTS, **arguments})
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        if variable.path.startswith("elmo_"):  # an uneven mix, so that its weights matter
            variable.assign(rng.normal(size=variable.shape) + 1.0)
    return model


def run(model, batch, training=False):
    (value,) = model({name: batch[name] for name in model.input}, training=training).values()
    return keras.ops.convert_to_numpy(value)


def reference(model, batch, output, elmo_at, num_layers):
    """The same, sentence by sentence, from the formulas of the paper."""
    weights = {v.path: v.numpy().astype("float64") for v in model.trainable_variables}
    used = set()

    def get(*parts):
        (path,) = [p for p in weights if all(f"/{part}/" in f"/{p}/" for part in parts)]
        used.add(path)
        return weights[path]

    def elmo(place, layers):  # [T, L+1, D] -> [T, D]
        scalars = np.exp(get(f"elmo_{place}", "scalars"))
        mixed = np.einsum("j,tjd->td", scalars / scalars.sum(), layers)
        return get(f"elmo_{place}", "gamma") * mixed

    results = []
    for ids, layers in zip(batch["word_ids"], batch["lm_layers"], strict=True):
        size = int((ids > 0).sum())
        layers = layers[:size].astype("float64")
        x = get("word_embedding", "embeddings")[ids[:size]]
        if elmo_at in ("input", "both"):
            x = np.concatenate([x, elmo("input", layers)], -1)
        for index in range(num_layers):
            rnn = f"rnn_{index}"
            x = bilstm(x, lambda way, name, rnn=rnn: get(rnn, f"{way}_lstm", name))
        if elmo_at in ("output", "both"):
            x = np.concatenate([x, elmo("output", layers)], -1)
        if output == "class_logits":
            x = np.concatenate([x.max(0), x.mean(0)])
        results.append(x @ get(output, "kernel") + get(output, "bias"))
    assert used == set(weights)  # nothing is left over
    return results


@pytest.mark.parametrize("output", BUILDERS)
@pytest.mark.parametrize("elmo_at", [None, "input", "output", "both"])
def test_follows_the_paper_sentence_by_sentence(output, elmo_at):
    num_layers = 2 if elmo_at == "both" else 1
    model, batch = build(output, elmo_at, num_layers=num_layers), inputs()
    assert set(model.input) == {"word_ids"} | ({"lm_layers"} if elmo_at else set())
    assert set(model.output) == {output}
    got = run(model, batch)
    for row, want in zip(got, reference(model, batch, output, elmo_at, num_layers), strict=True):
        row = row[: len(want)] if output == "tag_logits" else row
        np.testing.assert_allclose(row, want, atol=2e-6)


@pytest.mark.parametrize("output", BUILDERS)
def test_what_stands_at_padding_does_not_matter(output):
    model, batch = build(output, "both"), inputs()
    longer = {
        "word_ids": np.pad(batch["word_ids"], [(0, 0), (0, 4)]),
        "lm_layers": np.pad(
            batch["lm_layers"] * (batch["word_ids"] > 0)[..., None, None],
            [(0, 0), (0, 4), (0, 0), (0, 0)],
            constant_values=7.0,
        ),
    }
    a, b = run(model, batch), run(model, longer)
    if output == "tag_logits":
        real = batch["word_ids"] > 0
        a, b = a[real], b[:, :7][real]
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_dropout_on_elmo_only_while_training():
    model, batch = build("tag_logits", "output", dropout=0.0, elmo_dropout=0.5), inputs()
    np.testing.assert_array_equal(run(model, batch), run(model, batch))
    first, second = run(model, batch, True), run(model, batch, True)
    assert np.abs(first - second).max() > 0.1  # as nothing else is dropped
    plain = build("tag_logits", "output", dropout=0.0, elmo_dropout=0.0)
    np.testing.assert_allclose(run(plain, batch, True), run(plain, batch), atol=1e-6)


def test_l2_is_on_the_mixing_weights_alone():
    model, batch = build("tag_logits", "both", elmo_l2=0.01), inputs()
    scalars = [v for v in model.trainable_variables if v.path.endswith("scalars")]
    assert sorted(v.path.split("/")[0] for v in scalars) == ["elmo_input", "elmo_output"]
    run(model, batch)
    want = 0.01 * sum((v.numpy() ** 2).sum() for v in scalars)
    np.testing.assert_allclose(float(sum(model.losses)), want, rtol=1e-6)
    assert not build("tag_logits", "both", elmo_l2=0.0).losses


def test_static_length_and_saving(tmp_path):
    model, batch = build("class_logits", "both", seq_length=7), inputs()
    assert model.input["lm_layers"].shape == (None, 7, LAYERS, SIZE)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(run(again, batch), run(model, batch), atol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(elmo_at="middle"), 'elmo_at=\'middle\' must be "input", "output", "both" or None'),
        (dict(units=0), "units=0 must be at least 1"),
        (dict(num_lm_layers=0, elmo_at="input"), "num_lm_layers=0 must be at least 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        elmo_tagger(VOCAB, LABELS, **arguments)


def test_one_label_is_refused():
    with pytest.raises(ValueError, match="num_classes=1 must be at least 2"):
        elmo_classifier(VOCAB, 1)

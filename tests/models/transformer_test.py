import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models.transformer_reference import (
    CLOSE,
    SMALL,
    H,
    L,
    V,
    padded,
    pairs,
    small,
    transformer_reference,
)
from tests.support import without_values
from tfnlp.models import TRANSFORMER_BASE, TRANSFORMER_BIG, TRANSFORMER_MINI, transformer

SOURCES, TARGETS = pairs([(6, 4), (1, 7), (4, 1), (5, 5)])
OF_SOURCE = ("encoder_output", "encoder_outputs")
both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    return small(norm_first=request.param)


def pre_norm(model):
    return "decoder_norm" in [layer.name for layer in model.layers]


def assert_real_places(outputs, model, **kind):
    """All outputs at real places, against the formula of each pair alone."""
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        want = transformer_reference(source, target, model, pre_norm(model), **kind)
        assert set(want) == set(outputs)
        for name, value in want.items():
            got = outputs[name]
            if name == "attention":
                seen = np.asarray(got)[row, :, : len(target)]
                np.testing.assert_allclose(seen[..., : len(source)], value, **CLOSE)
                assert not seen[..., len(source) :].any()
                continue
            length = len(source if name in OF_SOURCE else target)
            got = [np.asarray(x)[row, :length] for x in (got if isinstance(got, list) else [got])]
            value = value if isinstance(value, list) else [value]
            assert len(got) == len(value)
            for a, b in zip(got, value, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("more, noise", [((0, 0), 0), ((3, 2), V - 1)])
def test_formula_whatever_stands_on_the_padding(model, more, noise):
    assert_real_places(model(padded(SOURCES, TARGETS, more, noise)), model)


def test_formula_of_other_settings():
    model = small(norm_first=True, activation="gelu", norm_epsilon=0.1)
    assert_real_places(model(padded(SOURCES, TARGETS)), model, activation="gelu", epsilon=0.1)


def test_the_decoder_sees_nothing_that_follows_and_all_of_the_source(model):
    sources, targets = pairs([(5, 8)], seed=3)
    before = model(padded(sources, targets))
    for place in (0, 3, 7):
        changed = [[*targets[0]]]
        changed[0][place] = (targets[0][place] + 1) % V
        after = model(padded(sources, changed))
        a, b = (np.asarray(x["lm_logits"])[0] for x in (before, after))
        np.testing.assert_array_equal(a[:place], b[:place])
        assert (np.abs(a - b)[place:].max(-1) > 1e-4).all()
        np.testing.assert_array_equal(before["encoder_output"], after["encoder_output"])
    for place in range(5):
        changed = [[*sources[0]]]
        changed[0][place] = (sources[0][place] + 1) % V
        after = model(padded(changed, targets))
        for name in ("encoder_output", "lm_logits"):
            a, b = (np.asarray(x[name])[0] for x in (before, after))
            assert (np.abs(a - b).max(-1) > 1e-4).all()


def parameter_count(vocab_size, num_layers, hidden_size, intermediate_size, norm_first=False, **_):
    """Table 3's architecture counted by hand; one table serves source, target and softmax."""
    h, f = hidden_size, intermediate_size
    attention, feed_forward, norm = 4 * (h * h + h), (h * f + f) + (f * h + h), 2 * h
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocab_size * h + num_layers * (encoder + decoder) + 2 * norm * norm_first


@pytest.mark.parametrize(
    "size, count, published",
    [(TRANSFORMER_BASE, 63_082_496, 65e6), (TRANSFORMER_BIG, 214_245_376, 213e6)],
)
def test_parameter_counts(size, count, published):
    assert parameter_count(**size) == count
    assert abs(count / published - 1) < 0.03  # the paper rounds, and so does its 37,000
    with without_values():
        model = transformer(**size)
        assert model.count_params() == count
    assert model.get_layer("encoder_dropout").rate == size["dropout"]


def test_the_defaults_are_the_base_model():
    with without_values():
        model = transformer()
        assert model.count_params() == 63_082_496
    assert model.get_layer("decoder_layer_5").cross_attention.num_heads == 8
    assert model.get_layer("decoder_layer_5").attention.causal
    assert not model.get_layer("encoder_layer_5").attention.causal
    assert not pre_norm(model)


@both_orders
def test_small_sizes_are_counted_alike(norm_first):
    for size in (SMALL, dict(TRANSFORMER_MINI, vocab_size=50)):
        model = transformer(**size, norm_first=norm_first)
        assert model.count_params() == parameter_count(**size, norm_first=norm_first)


def test_names_and_shapes_of_inputs_and_outputs():
    for source, target in ((7, 5), (None, None)):
        model = transformer(**SMALL, source_length=source, target_length=target)
        assert {k: (v.shape, v.dtype) for k, v in model.input.items()} == {
            "input_word_ids": ((None, source), "int32"),
            "input_mask": ((None, source), "int32"),
            "target_word_ids": ((None, target), "int32"),
        }
        outputs = dict(model.output)
        assert [y.shape for y in outputs.pop("encoder_outputs")] == [(None, source, H)] * L
        assert [y.shape for y in outputs.pop("decoder_outputs")] == [(None, target, H)] * L
        assert {k: v.shape for k, v in outputs.items()} == {
            "lm_logits": (None, target, V),
            "sequence_output": (None, target, H),
            "encoder_output": (None, source, H),
            "attention": (None, 3, target, source),
        }
        assert outputs["lm_logits"].dtype == outputs["attention"].dtype == "float32"


def test_initial_weights():
    model = transformer(300, 1, 64, 2, 128)
    for variable in model.trainable_variables:
        value, name = variable.numpy(), variable.path
        if name.endswith("embeddings"):
            np.testing.assert_allclose(value.std(), 64**-0.5, rtol=0.05)
        elif name.endswith("kernel"):  # uniform within sqrt(6 / (in + out))
            bound = (6 / sum(value.shape)) ** 0.5
            assert 0.98 * bound < np.abs(value).max() <= bound, name
        else:
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name


def test_every_weight_gets_a_gradient(model):
    inputs = padded(SOURCES, TARGETS)
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)["lm_logits"]
        loss = tf.reduce_sum(tf.math.log_softmax(logits)[..., 0])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 1e-4, variable.path


def test_dropout_only_while_training(model):
    inputs = padded(SOURCES, TARGETS)
    still = np.asarray(model(inputs)["lm_logits"])
    np.testing.assert_array_equal(model(inputs, training=False)["lm_logits"], still)
    moved = [np.asarray(model(inputs, training=True)["lm_logits"]) for _ in range(2)]
    assert np.abs(moved[0] - moved[1]).max() > 1e-2
    none = small(dropout=0.0)
    np.testing.assert_allclose(
        none(inputs, training=True)["lm_logits"], none(inputs)["lm_logits"], **CLOSE
    )


def test_keras_file_round_trip(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = padded(SOURCES, TARGETS)
    got, expected = loaded(inputs), model(inputs)
    for name in ("lm_logits", "encoder_output", "attention"):
        np.testing.assert_array_equal(got[name], expected[name])
    table = loaded.get_layer("token_embedding").embeddings
    table.assign(0 * table)
    assert not np.asarray(loaded(inputs)["lm_logits"]).any()  # tied still


def test_bf16_is_near_float32():
    whole, half = small(scale=0.2), small(scale=0.2, dtype="mixed_bfloat16")
    inputs = padded(SOURCES, TARGETS)
    got, expected = half(inputs), whole(inputs)
    assert got["sequence_output"].dtype == half.output["sequence_output"].dtype == "bfloat16"
    assert got["lm_logits"].dtype == half.output["lm_logits"].dtype == "float32"
    for name in ("sequence_output", "encoder_output", "lm_logits"):
        a, b = np.asarray(got[name]).astype("float32"), np.asarray(expected[name])
        assert 0 < np.abs(a - b).max() < 0.05 * max(1, np.abs(b).max()), name


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(num_layers=0), "num_layers=0"),
        (dict(num_heads=5), "hidden_size=12 .*num_heads=5"),
        (dict(activation="elu"), "activation='elu'"),
        (dict(vocab_size=0), "vocab_size=0"),
    ],
)
def test_errors_name_the_argument(wrong, message):
    with pytest.raises(ValueError, match=message):
        transformer(**{**SMALL, **wrong})

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models.gpt_reference import (
    CLOSE,
    POSITIONS,
    SMALL,
    H,
    L,
    V,
    gpt_reference,
    padded,
    real,
    sequences,
    small,
)
from tests.support import without_values
from tfnlp.models import (
    GPT,
    GPT2_LARGE,
    GPT2_MEDIUM,
    GPT2_SMALL,
    GPT2_XL,
    GPT_MINI,
    gpt,
    gpt_pretrainer,
)

ROWS = sequences((9, 1, 5, 7))
both_orders = pytest.mark.parametrize("norm_first", [False, True])


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    return small(norm_first=request.param)


def pre_norm(model):
    return "final_norm" in [layer.name for layer in model.layers]


def assert_real_places(outputs, inputs, rows, model, **kind):
    """All outputs, layer by layer, against the formula of each row alone."""
    logits = real(outputs["lm_logits"], inputs)
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    layers = [real(x, inputs) for x in layers]
    for i, row in enumerate(rows):
        expected, expected_logits = gpt_reference(row, model, pre_norm(model), **kind)
        assert len(expected) == len(layers) == 1 + L
        for got, want in zip(layers, expected, strict=True):
            np.testing.assert_allclose(got[i], want, **CLOSE)
        np.testing.assert_allclose(logits[i], expected_logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("left", [False, True])
def test_formula_with_padding_on_either_side(model, left):
    inputs = padded(ROWS, 12, left, noise=V - 1)
    assert_real_places(model(inputs), inputs, ROWS, model)


@pytest.mark.parametrize("activation, epsilon", [("gelu", 1e-5), ("gelu_tanh", 0.1)])
@both_orders
def test_formula_of_other_settings(norm_first, activation, epsilon):
    model = small(norm_first=norm_first, activation=activation, norm_epsilon=epsilon)
    inputs = padded(ROWS)
    assert_real_places(model(inputs), inputs, ROWS, model, activation=activation, epsilon=epsilon)


def test_what_stands_on_padding_does_not_matter(model):
    for left in (False, True):
        clean, noisy = (padded(ROWS, 12, left, noise) for noise in (0, V - 1))
        assert (clean["input_word_ids"] != noisy["input_word_ids"]).any()
        clean, noisy = (
            np.concatenate(real(model(x)["lm_logits"], x)) for x in (clean, noisy)
        )
        np.testing.assert_array_equal(clean, noisy)


def test_no_token_sees_what_follows(model):
    (row,) = sequences((POSITIONS,), seed=3)
    before = model(padded([row]))
    for place in (0, 6, POSITIONS - 1):
        changed = [*row]
        changed[place] = (row[place] + 1) % V
        after = model(padded([changed]))
        for name in ("lm_logits", "sequence_output"):
            a, b = (np.asarray(x[name])[0] for x in (before, after))
            np.testing.assert_array_equal(a[:place], b[:place])
            assert (np.abs(a - b)[place:].max(-1) > 1e-4).all()  # all that follows sees it


def parameter_count(
    vocab_size, max_positions, num_layers, hidden_size, num_heads, intermediate_size, norm_first
):
    """The published architecture, counted by hand (`num_heads` makes no difference)."""
    h, f = hidden_size, intermediate_size
    layer = 4 * (h * h + h) + (h * f + f) + (f * h + h) + 4 * h
    return (vocab_size + max_positions) * h + num_layers * layer + (2 * h if norm_first else 0)


@pytest.mark.parametrize(
    "size, published",
    [
        (GPT, 116_534_784),
        (GPT2_SMALL, 124_439_808),
        (GPT2_MEDIUM, 354_823_168),
        (GPT2_LARGE, 774_030_080),
        (GPT2_XL, 1_557_611_200),
    ],
)
def test_published_sizes(size, published):
    assert parameter_count(**size) == published
    assert size["hidden_size"] % size["num_heads"] == 0
    assert size["hidden_size"] // size["num_heads"] == 64
    assert size["norm_first"] == (size is not GPT)


@both_orders
def test_parameters_are_as_counted(norm_first):
    size = {**SMALL, "norm_first": norm_first}
    model = gpt_pretrainer(gpt(**size))
    assert model.count_params() == parameter_count(**size)
    assert len(model.trainable_variables) == 2 + 12 * L + 2 * norm_first


def test_the_defaults_are_gpt():
    with without_values():
        model = gpt()
        assert model.count_params() == 116_534_784
    assert model.get_layer("layer_11").attention.num_heads == 12
    assert model.get_layer("layer_0").dropout == 0.1
    shapes = {v.path: tuple(v.shape) for v in model.weights}
    assert shapes["token_embedding/embeddings"] == (40478, 768)
    assert shapes["position_embedding/embeddings"] == (512, 768)
    assert shapes["layer_11/intermediate/kernel"] == (768, 3072)
    assert not pre_norm(model)


def test_names_and_shapes_of_inputs_and_outputs():
    for length, seen in ((7, 7), (None, None)):
        model = gpt_pretrainer(gpt(**SMALL, seq_length=length))
        assert {k: (v.shape, v.dtype) for k, v in model.input.items()} == {
            "input_word_ids": ((None, seen), "int32"),
            "input_mask": ((None, seen), "int32"),
        }
        outputs = dict(model.output)
        assert [y.shape for y in outputs.pop("encoder_outputs")] == [(None, seen, H)] * L
        assert {k: v.shape for k, v in outputs.items()} == {
            "sequence_output": (None, seen, H),
            "embedding_output": (None, seen, H),
            "lm_logits": (None, seen, V),
        }
        assert outputs["lm_logits"].dtype == "float32"


def test_last_encoder_output_is_the_sequence_output(model):
    outputs = model(padded(ROWS))
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    assert np.abs(outputs["encoder_outputs"][-1] - outputs["encoder_outputs"][0]).max() > 0.1


def test_mini_is_a_model():
    model = gpt(**GPT_MINI, vocab_size=50, max_positions=8)
    assert model.count_params() == parameter_count(**GPT_MINI, vocab_size=50, max_positions=8)
    assert pre_norm(model)


@both_orders
def test_initial_weights(norm_first):
    model = gpt(300, 3, 64, 2, 128, max_positions=64, norm_first=norm_first, initializer_range=0.05)
    residual = 0.05 / 6**0.5 if norm_first else 0.05
    drawn = []
    for variable in model.trainable_variables:
        value, name = variable.numpy(), variable.path
        if not name.endswith(("kernel", "embeddings")):
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
            continue
        drawn.append(value)
        std = residual if name.endswith("output/kernel") else 0.05
        np.testing.assert_allclose(value.std(), std, rtol=0.05, err_msg=name)
        assert abs(value.mean()) < 5 * std / value.size**0.5, name
        assert np.abs(value).max() > 3 * std, name  # a whole normal, not one that is cut off
    assert len(drawn) == 2 + 3 * 4
    for i, one in enumerate(drawn):
        for other in drawn[i + 1 :]:
            size = min(one.size, other.size)
            correlation = np.corrcoef(one.ravel()[:size], other.ravel()[:size])[0, 1]
            assert abs(correlation) < 0.1


def test_every_weight_gets_a_gradient(model):
    inputs = padded(ROWS, 12, left=True)
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)["lm_logits"]
        loss = tf.reduce_sum(tf.math.log_softmax(logits)[..., 0] * inputs["input_mask"])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 1e-4, variable.path


def test_dropout_only_while_training(model):
    inputs = padded(ROWS)
    still = np.asarray(model(inputs)["sequence_output"])
    np.testing.assert_array_equal(model(inputs, training=False)["sequence_output"], still)
    moved = [np.asarray(model(inputs, training=True)["sequence_output"]) for _ in range(2)]
    assert np.abs(moved[0] - moved[1]).max() > 1e-2
    none = small(dropout=0.0, attention_dropout=0.0)
    np.testing.assert_allclose(
        none(inputs, training=True)["lm_logits"], none(inputs)["lm_logits"], **CLOSE
    )


def test_keras_file_round_trip(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = padded(ROWS, left=True)
    got, expected = loaded(inputs), model(inputs)
    for name in ("lm_logits", "sequence_output", "embedding_output"):
        np.testing.assert_array_equal(got[name], expected[name])
    assert len(got["encoder_outputs"]) == L
    table = loaded.get_layer("token_embedding").embeddings
    table.assign(0 * table)
    assert not np.asarray(loaded(inputs)["lm_logits"]).any()  # tied still


@both_orders
def test_bf16_is_near_float32(norm_first):
    whole = small(norm_first=norm_first, scale=0.2)
    half = small(norm_first=norm_first, scale=0.2, dtype="mixed_bfloat16")
    inputs = padded(ROWS)
    got, expected = half(inputs), whole(inputs)
    assert {w.dtype for w in half.trainable_variables} == {"float32"}
    assert got["lm_logits"].dtype == half.output["lm_logits"].dtype == "float32"
    for name in ("sequence_output", "embedding_output", "lm_logits"):
        assert name == "lm_logits" or got[name].dtype == half.output[name].dtype == "bfloat16"
        for a, b in zip(
            real(tf.cast(got[name], "float32"), inputs), real(expected[name], inputs), strict=True
        ):
            assert 0 < np.abs(a - b).max() < 0.03 * max(1, np.abs(expected[name]).max()), name
    weights = gpt(**SMALL, norm_first=norm_first, dtype="bfloat16").trainable_variables
    for weight in weights:  # all but those of the layer norms
        normal = weight.path.endswith(("gamma", "beta"))
        assert weight.dtype == ("float32" if normal else "bfloat16"), weight.path


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(num_layers=0), "num_layers=0"),
        (dict(num_heads=5), "hidden_size=16 .*num_heads=5"),
        (dict(num_heads=0), "hidden_size=16 .*num_heads=0"),
        (dict(max_positions=0), "max_positions=0"),
        (dict(seq_length=17), "seq_length=17 .*max_positions=16"),
        (dict(activation="elu"), "activation='elu'"),
        (dict(vocab_size=0), "vocab_size=0"),
    ],
)
def test_errors_name_the_argument(wrong, message):
    with pytest.raises(ValueError, match=message):
        gpt(**{**SMALL, **wrong})


def test_too_long_a_sequence(model):
    with pytest.raises(ValueError, match="17 tokens.*max_positions=16"):
        model(padded(sequences((POSITIONS + 1,))))

import numpy as np
import pytest
import tensorflow as tf

from tests.models.transformer_reference import (
    CLOSE,
    START,
    STOP,
    V,
    padded,
    pairs,
    small,
    talkative,
    transformer_reference,
)
from tfnlp.models import TransformerDecoder, beam_search, transformer

SOURCES, TARGETS = pairs([(6, 4), (1, 7), (4, 1), (5, 5)])
DECODED = pairs([(6, 5), (1, 5), (4, 5)])
OF_SOURCE = ("encoder_output", "encoder_outputs")


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


@pytest.mark.slow
def test_formula_of_other_settings():
    model = small(norm_first=True, activation="gelu", norm_epsilon=0.1)
    assert_real_places(model(padded(SOURCES, TARGETS)), model, activation="gelu", epsilon=0.1)


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


def sources(rows, more=0):
    batch = padded(rows, [[START]] * len(rows), (more, 0), noise=V - 1)
    return tf.constant(batch["input_word_ids"]), tf.constant(batch["input_mask"] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("norm_first, more", [(False, 0), (True, 3)])
def test_step_by_step_equals_the_whole_model(norm_first, more):
    model = small(norm_first=norm_first)
    want = np.asarray(model(padded(*DECODED))["lm_logits"])
    decoder, (ids, mask) = TransformerDecoder(model, START), sources(DECODED[0], more)
    length = ids.shape[1]
    logits, cache = decoder.prefill(ids, mask, length + 4)
    constant = cache[-decoder.constant_parts :]
    for made in range(5):
        np.testing.assert_allclose(logits, want[:, made], rtol=1e-4, atol=1e-4)
        if made < 4:
            tokens = tf.constant([row[made + 1] for row in DECODED[1]])
            logits, cache = decoder.step(tokens, length + made, mask, cache)
    for before, after in zip(constant, cache[-decoder.constant_parts :], strict=True):
        assert before is after
    assert len(cache) == 2 * len(constant)


@pytest.mark.slow
def test_beams_of_a_row_are_those_of_its_source_alone():
    decoder = TransformerDecoder(talkative(seed=4), START)
    settings = dict(pad_id=0, length_penalty=0.6, stop_ids=(STOP,))
    signature = [tf.TensorSpec([None, None], dtype) for dtype in ("int32", "bool")]
    search = tf.function(
        lambda ids, mask: beam_search(decoder, ids, mask, 5, 3, **settings),
        input_signature=signature,
    )
    found, scores = search(*sources(DECODED[0], more=1))
    for source, texts, got in zip(DECODED[0], found.numpy(), scores.numpy(), strict=True):
        (alone,), (want,) = search(*sources([source]))
        np.testing.assert_array_equal(texts, alone)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        assert len({tuple(text) for text in texts}) == 3 and (np.diff(got) <= 0).all()

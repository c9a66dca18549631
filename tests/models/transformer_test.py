"""A tiny Transformer, and its formula in float64 numpy, a pair at a time and without padding."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import reference
from tests.layers.embeddings_test import sinusoid
from tfnlp.models import TransformerDecoder, beam_search, transformer

V, L, H, HEADS, START, STOP = 17, 2, 12, 3, 1, 2
SMALL = dict(vocab_size=V, num_layers=L, hidden_size=H, num_heads=HEADS, intermediate_size=20)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def small(seed=0, scale=0.3, **arguments):
    """A model with random numbers in every weight."""
    model = transformer(**{**SMALL, **arguments})
    reference.randomize(model, np.random.default_rng(seed), scale)
    return model


def talkative(seed=0, **arguments):
    """A model that does not say the same again and again, as one with a tied table will.

    What the blocks add outweighs the token itself, and their biases are small.
    """
    model = small(seed, 0.8, norm_first=True, **arguments)
    for variable in model.trainable_variables:
        if variable.path.endswith(("bias", "beta")):
            variable.assign(0.1 * variable)
        elif variable.path.endswith("embeddings"):
            variable.assign(0.4 * variable)
    return model


def pairs(lengths, seed=0, vocab_size=V):
    """Sources and what the decoder reads for each, lists of ids."""
    rng = np.random.default_rng(seed)
    sources = [rng.integers(3, vocab_size, n).tolist() for n, _ in lengths]
    targets = [[START, *rng.integers(3, vocab_size, n - 1).tolist()] for _, n in lengths]
    return sources, targets


def padded(sources, targets, more=(0, 0), noise=0):
    """The model's inputs, with ids below `noise + 1` on the padding."""
    rng = np.random.default_rng(9)
    batch = {}
    for name, rows, extra in zip(("input", "target"), (sources, targets), more, strict=True):
        length = max(map(len, rows)) + extra
        ids = rng.integers(0, noise + 1, (len(rows), length))
        mask = np.zeros((len(rows), length))
        for row, i, m in zip(rows, ids, mask, strict=True):
            i[: len(row)], m[: len(row)] = row, 1
        batch[f"{name}_word_ids"] = ids.astype("int32")
        if name == "input":
            batch["input_mask"] = mask.astype("int32")
    return batch


def transformer_reference(source, target, model, norm_first=False, activation="relu", epsilon=1e-6):
    """Outputs of one pair, by the names that the model gives them."""
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    table = w["token_embedding/embeddings"]
    kind = dict(activation=activation, norm_first=norm_first, epsilon=epsilon)

    def embedded(ids):
        return (table[ids] * np.sqrt(H) + sinusoid(range(len(ids)), H))[None]

    def normed(x, part):
        return reference.layer_norm(x, reference.inside(w, f"{part}_norm"), epsilon)

    encoder, x = [], embedded(source)
    for index in range(L):
        x = reference.block(x, reference.inside(w, f"encoder_layer_{index}"), HEADS, **kind)
        encoder.append(x)
    if norm_first:
        encoder[-1] = normed(x, "encoder")
    decoder, y = [], embedded(target)
    for index in range(L):
        part = reference.inside(w, f"decoder_layer_{index}")
        y, scores = reference.block_and_map(y, part, HEADS, encoder[-1], **kind)
        decoder.append(y)
    if norm_first:
        decoder[-1] = normed(y, "decoder")
    return {
        "encoder_outputs": [x[0] for x in encoder],
        "encoder_output": encoder[-1][0],
        "decoder_outputs": [x[0] for x in decoder],
        "sequence_output": decoder[-1][0],
        "lm_logits": decoder[-1][0] @ table.T,
        "attention": scores[0],
    }


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

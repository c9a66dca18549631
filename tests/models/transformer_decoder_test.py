import numpy as np
import pytest
import tensorflow as tf

from tests.models.transformer_reference import START, STOP, V, padded, pairs, small, talkative
from tfnlp.models import TransformerDecoder, beam_search

SOURCES, TARGETS = pairs([(6, 5), (1, 5), (4, 5)])
PAD = 0


def sources(rows, more=0):
    batch = padded(rows, [[START]] * len(rows), (more, 0), noise=V - 1)
    return tf.constant(batch["input_word_ids"]), tf.constant(batch["input_mask"] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("norm_first, more", [(False, 0), (True, 3)])
def test_step_by_step_equals_the_whole_model(norm_first, more):
    model = small(norm_first=norm_first)
    want = np.asarray(model(padded(SOURCES, TARGETS))["lm_logits"])
    decoder, (ids, mask) = TransformerDecoder(model, START), sources(SOURCES, more)
    length = ids.shape[1]
    logits, cache = decoder.prefill(ids, mask, length + 4)
    constant = cache[-decoder.constant_parts :]
    for made in range(5):
        np.testing.assert_allclose(logits, want[:, made], rtol=1e-4, atol=1e-4)
        if made < 4:
            tokens = tf.constant([row[made + 1] for row in TARGETS])
            logits, cache = decoder.step(tokens, length + made, mask, cache)
    for before, after in zip(constant, cache[-decoder.constant_parts :], strict=True):
        assert before is after
    assert len(cache) == 2 * len(constant)


@pytest.mark.slow
def test_beams_of_a_row_are_those_of_its_source_alone():
    decoder = TransformerDecoder(talkative(seed=4), START)
    settings = dict(pad_id=PAD, length_penalty=0.6, stop_ids=(STOP,))
    signature = [tf.TensorSpec([None, None], dtype) for dtype in ("int32", "bool")]
    search = tf.function(
        lambda ids, mask: beam_search(decoder, ids, mask, 5, 3, **settings),
        input_signature=signature,
    )
    found, scores = search(*sources(SOURCES, more=1))
    for source, texts, got in zip(SOURCES, found.numpy(), scores.numpy(), strict=True):
        (alone,), (want,) = search(*sources([source]))
        np.testing.assert_array_equal(texts, alone)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        assert len({tuple(text) for text in texts}) == 3 and (np.diff(got) <= 0).all()

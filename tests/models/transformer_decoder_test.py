import numpy as np
import pytest
import tensorflow as tf

from tests.models.gpt_reference import log_softmax
from tests.models.transformer_reference import START, STOP, V, padded, pairs, small, talkative
from tfnlp.models import TransformerDecoder, beam_search

SOURCES, TARGETS = pairs([(6, 5), (1, 5), (4, 5)])
PAD = 0


def sources(rows, more=0):
    batch = padded(rows, [[START]] * len(rows), (more, 0), noise=V - 1)
    return tf.constant(batch["input_word_ids"]), tf.constant(batch["input_mask"] > 0)


def search(decoder, rows, count, beams, more=0, **settings):
    """`beam_search`, compiled: a list of hypotheses for each row, and their scores."""
    run = tf.function(lambda *x: beam_search(decoder, *x, count, beams, pad_id=PAD, **settings))
    found, scores = run(*sources(rows, more))
    return found.numpy().tolist(), scores.numpy()


class LogP:
    """`log p(y_t | source, y_<t)` `[V]` from the whole model, all prefixes of a text at once."""

    def __init__(self, model, source, size=V):
        self.model, self.source, self.size = model, source, size

    def __call__(self, texts):
        """`log p` of each text, a list of tuples that end where they end."""
        inputs = padded([self.source] * len(texts), [[START, *text[:-1]] for text in texts])
        logits = np.asarray(self.model(inputs)["lm_logits"], "float64")[..., : self.size]
        return [
            sum(log_softmax(x)[token] for x, token in zip(row, text, strict=False))
            for row, text in zip(logits, texts, strict=True)
        ]


def ended(tokens):
    """Without what fills a hypothesis up."""
    return tuple(tokens[: tokens.index(STOP) + 1] if STOP in tokens else tokens)


def penalised(log_p, length, alpha):
    return log_p / ((5 + length) / 6) ** alpha


@pytest.fixture(scope="module")
def model():
    return talkative(seed=4)


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
def test_beams_do_not_mix_up_rows_and_hypotheses(model):
    decoder = TransformerDecoder(model, START)
    found, scores = search(decoder, SOURCES, 5, 3, more=1, length_penalty=0.6, stop_ids=(STOP,))
    for source, texts, got in zip(SOURCES, found, scores, strict=True):
        texts = [ended(text) for text in texts]
        log_p = LogP(model, source)(texts)
        want = [penalised(p, len(text), 0.6) for p, text in zip(log_p, texts, strict=True)]
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
        assert len(set(texts)) == 3 and (np.diff(got) <= 0).all()

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.models.gpt_reference import log_softmax
from tests.models.transformer_reference import START, STOP, V, padded, pairs, small, talkative
from tfnlp.models import TransformerDecoder, beam_search, generate

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


@pytest.mark.parametrize("arguments", [{}, {"norm_first": True}], ids=["post", "pre"])
@pytest.mark.parametrize("more", [0, 3])
def test_step_by_step_equals_the_whole_model(arguments, more):
    model = small(**arguments)
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


def greedy_by_hand(model, rows, count):
    """The likeliest next token each time, with the whole model."""
    texts = [[START] for _ in rows]
    for _ in range(count):
        logits = np.asarray(model(padded(rows, texts))["lm_logits"])
        for text, row in zip(texts, logits, strict=True):
            text.append(PAD if STOP in text else int(row[-1].argmax()))
    return [text[1:] for text in texts]


@pytest.mark.slow
def test_generate_and_one_beam_are_greedy(model):
    decoder = TransformerDecoder(model, START)
    want = greedy_by_hand(model, SOURCES, 5)
    run = tf.function(lambda *x: generate(decoder, *x, 5, stop_ids=(STOP,), pad_id=PAD))
    assert run(*sources(SOURCES, 2)).numpy().tolist() == want
    assert len({token for row in want for token in row}) > 3
    found, _ = search(decoder, SOURCES, 5, 1, stop_ids=(STOP,))
    assert [row[0] for row in found] == want


@pytest.mark.slow
def test_wide_beams_find_what_trying_everything_finds(model):
    size, count, alpha, source = 4, 3, 0.6, SOURCES[0]
    decoder = TransformerDecoder(model, START, vocab_size=size)
    texts = {ended(text) for text in itertools.product(range(size), repeat=count)}
    log_p = LogP(model, source, size)(texts := sorted(texts))
    scores = [penalised(p, len(text), alpha) for p, text in zip(log_p, texts, strict=True)]
    want = sorted(zip(scores, texts, strict=True), reverse=True)
    (found,), (scores,) = search(
        decoder, [source], count, len(want), length_penalty=alpha, stop_ids=(STOP,)
    )
    np.testing.assert_allclose(scores, [score for score, _ in want], rtol=1e-3, atol=1e-3)
    assert [ended(text) for text in found[:2]] == [text for _, text in want[:2]]


def test_beams_do_not_mix_up_rows_and_hypotheses(model):
    decoder = TransformerDecoder(model, START)
    found, scores = search(decoder, SOURCES, 5, 3, more=1, length_penalty=0.6, stop_ids=(STOP,))
    for source, texts, got in zip(SOURCES, found, scores, strict=True):
        texts = [ended(text) for text in texts]
        log_p = LogP(model, source)(texts)
        want = [penalised(p, len(text), 0.6) for p, text in zip(log_p, texts, strict=True)]
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
        assert len(set(texts)) == 3 and (np.diff(got) <= 0).all()


@pytest.mark.slow
def test_a_graph_of_any_batch_and_length(model):
    decoder = TransformerDecoder(model, START)

    @tf.function(input_signature=[tf.TensorSpec([None, None], d) for d in ("int32", "bool")])
    def run(ids, mask):
        return beam_search(decoder, ids, mask, tf.shape(ids)[1] + 2, 2, pad_id=PAD)

    for rows in (SOURCES[:2], SOURCES[2:]):
        tokens, scores = run(*sources(rows))
        want, want_scores = search(decoder, rows, max(map(len, rows)) + 2, 2)
        assert tokens.numpy().tolist() == want
        np.testing.assert_allclose(scores, want_scores, rtol=1e-4)

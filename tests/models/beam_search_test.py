import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import log_softmax
from tests.models.gpt_reference import next_logits, padded, talkative
from tfnlp.models import GPTDecoder, beam_search

PAD = 4


def prompts(rows):
    batch = padded(rows, left=True)
    return tf.constant(batch["input_word_ids"]), tf.constant(batch["input_mask"] > 0)


def search(model, rows, count, beams, **settings):
    """Lists of tokens and scores, the best first."""
    tokens, scores = beam_search(
        GPTDecoder(model), *prompts(rows), count, beams, pad_id=PAD, **settings
    )
    assert tokens.dtype == tf.int32 and scores.dtype == tf.float32
    assert tokens.shape == (len(rows), beams, count) and scores.shape == (len(rows), beams)
    return tokens.numpy().tolist(), scores.numpy()


def cut(tokens, stop_ids):
    """Without what fills a hypothesis up; and that must be padding."""
    ends = [i + 1 for i, token in enumerate(tokens) if token in stop_ids]
    end = min([*ends, len(tokens)])
    assert tokens[end:] == [PAD] * (len(tokens) - end)
    return tuple(tokens[:end])


def score(log_p, length, alpha):
    return log_p / ((5 + length) / 6) ** alpha


class LogP:
    """`log p(y_t | prompt, y_<t)` `[V]` from the whole model, remembered."""

    def __init__(self, model, prompt):
        self.logits, self.prompt, self.known = next_logits(model), prompt, {}

    def __call__(self, tokens):
        if tokens not in self.known:
            self.known[tokens] = log_softmax(self.logits([*self.prompt, *tokens]))
        return self.known[tokens]

    def all(self, tokens):
        return sum(self(tokens[:i])[token] for i, token in enumerate(tokens))


@pytest.fixture(scope="module")
def tiny():
    """Five tokens, so that all sequences can be listed."""
    return talkative(seed=5, norm_first=True, vocab_size=5)


@pytest.mark.slow
@pytest.mark.parametrize("stop_ids, alpha", [((), 0.0), ((2,), 0.0), ((2,), 0.8), ((0, 3), 3.0)])
def test_wide_beams_find_what_trying_everything_finds(tiny, stop_ids, alpha):
    prompt, count = [1, 4, 0], 3
    log_p = LogP(tiny, prompt)
    everything = {cut_at(y, stop_ids) for y in itertools.product(range(5), repeat=count)}
    want = sorted(((score(log_p.all(y), len(y), alpha), y) for y in everything), reverse=True)
    (tokens,), (scores,) = search(
        tiny, [prompt], count, len(want), length_penalty=alpha, stop_ids=stop_ids
    )
    np.testing.assert_allclose(scores, [s for s, _ in want], rtol=1e-4, atol=1e-4)
    tokens = [cut(y, stop_ids) for y in tokens]
    assert sorted(tokens) == sorted(everything)
    assert tokens[:3] == [y for _, y in want[:3]]


def cut_at(tokens, stop_ids):
    for i, token in enumerate(tokens):
        if token in stop_ids:
            return tokens[: i + 1]
    return tokens

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.models import gpt_reference as reference
from tests.models.gpt_reference import POSITIONS, V, next_logits, padded, sequences, talkative
from tests.support import GOLDENS
from tfnlp.checkpoints import load_gpt
from tfnlp.models import GPTDecoder, beam_search, generate, gpt, gpt_pretrainer
from tfnlp.models.generation import advance, start

pytestmark = pytest.mark.slow

NEW = 6
ROWS = sequences((5, 1, 3, 8), seed=2)
SEEDS = [3, 14, 3, 2**31 - 1]


def prompts(rows=ROWS, length=None):
    batch = padded(rows, length, left=True, noise=V - 1)
    return tf.constant(batch["input_word_ids"]), tf.constant(batch["input_mask"] > 0)


SIGNATURE = [
    *(tf.TensorSpec([None, None], dtype) for dtype in ("int32", "bool")),
    tf.TensorSpec([None], "int32"),
]


def graph(model, **settings):
    """Prompts of any number and length, and seeds, to `NEW` tokens each."""
    decoder = GPTDecoder(model)
    return tf.function(
        lambda ids, mask, seeds: generate(decoder, ids, mask, NEW, seeds=seeds, **settings),
        input_signature=SIGNATURE,
    )


def continuation(logits, prompt, seed=0, count=NEW, stop_ids=(), temperature=0.0, **settings):
    """What follows a prompt, with the whole model for each token and numpy's choice."""
    ids = list(prompt)
    for step in range(count):
        now = logits(ids)
        if temperature:
            u = reference.uniform(seed, step)
            ids.append(reference.sample(now, u, temperature, **settings)[0])
        else:
            ids.append(int(now.argmax()))
        if ids[-1] in stop_ids:
            break
    return ids[len(prompt) :]


@pytest.fixture(scope="module")
def pre():
    """A model, and its logits token by token without a cache."""
    model = talkative(norm_first=True)
    return model, next_logits(model)


DRAWN = dict(temperature=2.0, top_k=9, top_p=0.9)


@pytest.fixture(scope="module")
def drawn(pre):
    """The graph that draws, and what it draws in a batch."""
    run = graph(pre[0], **DRAWN)
    return run, run(*prompts(), SEEDS).numpy()


@pytest.fixture(scope="module")
def greedily(pre):
    run = graph(pre[0])
    return run, run(*prompts(), SEEDS).numpy()


def test_drawn_is_what_the_whole_model_says_each_time(pre, drawn):
    want = [continuation(pre[1], r, s, **DRAWN) for r, s in zip(ROWS, SEEDS, strict=True)]
    assert drawn[1].tolist() == want


def test_a_row_depends_on_its_prompt_and_seed_alone(drawn, greedily):
    for run, whole in (drawn, greedily):  # each of one trace, whatever comes in
        for row, (ids, seed) in enumerate(zip(ROWS, SEEDS, strict=True)):
            assert run(*prompts([ids]), [seed]).numpy().tolist() == [whole[row].tolist()]
            wider = run(*prompts([ids], POSITIONS - NEW), [seed])  # more padding on the left
            assert wider.numpy().tolist() == [whole[row].tolist()]
    order = [2, 0, 3, 1]
    got = drawn[0](*prompts([ROWS[i] for i in order]), [SEEDS[i] for i in order]).numpy()
    np.testing.assert_array_equal(got, drawn[1][order])


def test_xla_makes_no_difference(pre, drawn):
    stop, decoder = int(drawn[1][1, 2]), GPTDecoder(pre[0])
    settings = dict(stop_ids=(stop,), pad_id=V - 1, **DRAWN)

    @tf.function(jit_compile=True)
    def compiled(ids, mask, seeds):
        return generate(decoder, ids, mask, NEW, seeds=seeds, **settings)

    want = ended(drawn[1].tolist(), (stop,), V - 1)
    assert (want[1, 3:] == V - 1).all()
    np.testing.assert_array_equal(compiled(*prompts(), SEEDS), want)


def test_chunks_are_the_whole(pre, drawn):
    decoder, (ids, mask) = GPTDecoder(pre[0]), prompts()
    state, parts = start(decoder, ids, mask, NEW), []
    for count in (1, 3, 2):
        part, state = advance(decoder, state, count, seeds=SEEDS, **DRAWN)
        assert part.shape == (4, count)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), drawn[1])
    assert int(state["made"]) == NEW and not state["done"].numpy().any()


def ended(rows, stops, pad):
    """Rows of `NEW` tokens as they are with these stop tokens."""
    result = np.full((len(rows), NEW), pad)
    for new, row in zip(result, rows, strict=True):
        places = [i for i, token in enumerate(row) if token in stops]
        count = min([*places, NEW - 1]) + 1
        new[:count] = row[:count]
    return result


def test_stop_tokens_end_a_row_and_are_kept(pre, drawn):
    decoder, (ids, mask) = GPTDecoder(pre[0]), prompts()
    whole = drawn[1]
    for stops, pad in (((int(whole[0, 2]),), 0), ((int(whole[1, 0]), int(whole[2, 4])), 11)):
        want = ended(whole.tolist(), stops, pad)
        assert (want != whole).any()
        got = generate(decoder, ids, mask, NEW, seeds=SEEDS, stop_ids=stops, pad_id=pad, **DRAWN)
        np.testing.assert_array_equal(got, want)
    # In chunks, of which the later ones start with rows that have ended.
    state, parts = start(decoder, ids, mask, NEW), []
    for count in (2, 4):
        part, state = advance(
            decoder, state, count, seeds=SEEDS, stop_ids=stops, pad_id=pad, **DRAWN
        )
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), want)


GOLDEN = GOLDENS / "generation"
NAMES = {
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "min_new_tokens": "min_new_tokens",
}


@pytest.fixture(scope="module")
def golden():
    """What transformers makes of prompts, see tests/goldens/generation.py."""
    return json.loads((GOLDEN / "expected.json").read_text()), load_gpt(str(GOLDEN)).pretrainer


@pytest.mark.parametrize("case", ["greedy", "repetition penalty", "no repeated pair", "all"])
def test_tokens_are_those_of_hugging_face(golden, case):
    found, model = golden
    arguments, stops = found["cases"][case], found["stops"]
    changes = {NAMES[name]: value for name, value in arguments.items() if name in NAMES}
    decoder, inputs, count = GPTDecoder(model), prompts(found["prompts"]), 12
    tokens, log_p = generate(decoder, *inputs, count, stop_ids=stops, scores=True, **changes)
    state, parts = start(decoder, *inputs, count), []
    for part in (5, 7):
        new, state = advance(decoder, state, part, stop_ids=stops, **changes)
        parts.append(new)
    np.testing.assert_array_equal(np.concatenate(parts, 1), tokens)
    for row, p, want in zip(tokens.numpy(), log_p.numpy(), found["expected"][case], strict=True):
        (text,), size = want["texts"], len(want["scores"])
        assert row[:size].tolist() == text and (p[size:] == 0).all()
        np.testing.assert_allclose(p[:size], want["scores"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["beams", "beams, short", "beams, long", "beams, all"])
def test_beams_are_those_of_hugging_face(golden, case):
    found, model = golden
    arguments, stops = found["cases"][case], found["stops"]
    tokens, scores = beam_search(
        GPTDecoder(model), *prompts(found["prompts"]), 9, arguments["num_beams"], shifted=False,
        stop_ids=stops, length_penalty=arguments.get("length_penalty", 1.0),
        **{NAMES[name]: value for name, value in arguments.items() if name in NAMES},
    )  # fmt: skip
    for rows, p, want in zip(tokens.numpy(), scores.numpy(), found["expected"][case], strict=True):
        for row, text in zip(rows, want["texts"], strict=True):
            assert row[: len(text)].tolist() == text and (row[len(text) :] == 0).all()
        np.testing.assert_allclose(p, want["scores"], rtol=1e-4)


def test_the_loop_ends_when_all_rows_have(pre):
    decoder, (ids, mask) = GPTDecoder(pre[0]), prompts()
    steps, step = [], decoder.step
    decoder.step = lambda *arguments: steps.append(1) or step(*arguments)
    every = tuple(range(V))
    tokens, state = advance(decoder, start(decoder, ids, mask, NEW), NEW, stop_ids=every, pad_id=5)
    assert (tokens.numpy()[:, 1:] == 5).all() and state["done"].numpy().all()
    assert len(steps) == int(state["made"]) == 1
    more, _ = advance(decoder, state, 2, stop_ids=every, pad_id=5)
    assert (more.numpy() == 5).all() and len(steps) == 1


def test_models_of_a_static_length_and_encoders_generate_too(pre, greedily):
    model = pre[0]
    encoder = gpt(**reference.SMALL, norm_first=True, seq_length=4)
    encoder.set_weights(model.get_weights())
    for other in (encoder, gpt_pretrainer(encoder)):
        got = generate(GPTDecoder(other), *prompts(), 2)
        np.testing.assert_array_equal(got, greedily[1][:, :2])


def test_rows_beyond_the_vocabulary_are_never_given(pre):
    whole, part = GPTDecoder(pre[0]), GPTDecoder(pre[0], V - 3)
    ids, mask = prompts()
    expected, cache = whole.prefill(ids, mask, ids.shape[1] + 1)
    logits, _ = part.prefill(ids, mask, ids.shape[1] + 1)
    np.testing.assert_array_equal(logits, expected[:, : V - 3])
    expected, _ = whole.step(tf.constant([1] * len(ROWS)), ids.shape[1], mask, cache)
    logits, _ = part.step(tf.constant([1] * len(ROWS)), ids.shape[1], mask, cache)
    np.testing.assert_array_equal(logits, expected[:, : V - 3])

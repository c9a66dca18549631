"""Texts continued: whatever is done with tokens is checked in tests/models/generation_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from tests.hub.gpt_toy import POSITIONS, model, tokenizer
from tests.models.gpt_reference import talkative
from tfnlp.hub import TextGenerator
from tfnlp.hub.modules.text_generation import pad_prompts
from tfnlp.models import GPTDecoder, beam_search, generate
from tfnlp.text.pipeline.gpt2_words import byte_characters

PROMPTS = ["the cat", "", "北京 naïve"]
DRAWN = dict(temperature=2.0, top_k=40, top_p=0.95)


@pytest.fixture(scope="module")
def pretrainer():
    return model(num_layers=1)


@pytest.fixture(scope="module")
def generator(pretrainer):
    return TextGenerator(pretrainer, tokenizer())


def decoded(rows, stop=None):
    """Tokens to strings, by the tokens' bytes and Python's own decoder."""
    texts = []
    for row in np.asarray(rows).tolist():
        row = row[: row.index(stop)] if stop in row else row
        data = b"".join(tokenizer().detokenize([[token]]).numpy()[0] for token in row)
        texts.append(data.decode("utf-8", "replace"))
    return texts


@pytest.mark.slow
def test_prompts_are_padded_on_the_left():
    ids, mask = pad_prompts(tokenizer(), tf.constant(PROMPTS))
    assert ids.dtype == tf.int32 and mask.dtype == tf.bool
    rows = tokenizer().tokenize(PROMPTS).to_list()
    rows[1] = [tokenizer().end_id]  # a text begins where one has ended
    for i, m, row in zip(ids.numpy(), mask.numpy(), rows, strict=True):
        assert m.sum() == len(row) and m[-len(row) :].all()
        assert i[-len(row) :].tolist() == row
    ids, mask = pad_prompts(tokenizer(), tf.constant(PROMPTS), tf.constant(2))
    for i, m, row in zip(ids.numpy(), mask.numpy(), rows, strict=True):
        assert i[m].tolist() == row[-2:]
    ids, mask = pad_prompts(tokenizer(), tf.constant(["", ""]))
    assert ids.numpy().tolist() == [[tokenizer().end_id]] * 2 and mask.numpy().all()


@pytest.mark.slow
def test_a_call_is_generate_between_strings(pretrainer, generator):
    ids, mask = pad_prompts(tokenizer(), tf.constant(PROMPTS))
    for seeds, given in ((5, [5, 6, 7]), ([9, 9, -3], [9, 9, -3])):
        tokens = generate(GPTDecoder(pretrainer), ids, mask, 4, seeds=tf.constant(given), **DRAWN)
        got = generator(PROMPTS, 4, seeds=seeds, **DRAWN)
        assert got == decoded(tokens)
    tokens = generate(GPTDecoder(pretrainer), ids, mask, 4)
    assert generator(PROMPTS, 4, temperature=0) == decoded(tokens)


@pytest.mark.slow
def test_a_text_ends_before_a_stop_token(generator):
    free = generator(["the cat"], 4, temperature=0, stop_tokens=())[0]
    ids = pad_prompts(tokenizer(), tf.constant(["the cat"]))
    tokens = generate(generator._decoder, *ids, 4).numpy()
    assert free == decoded(tokens)[0]
    stop = int(tokens[0, 2])
    want = decoded(tokens, stop)[0]
    assert generator(["the cat"], 4, temperature=0, stop_tokens=[stop]) == [want] != [free]
    pieces = generator.stream("the cat", 4, temperature=0, stop_tokens=[stop])
    assert "".join(pieces) == want


@pytest.mark.slow
def test_the_end_token_ends_a_text_unless_told_otherwise(pretrainer):
    # A table in which the end of a text is what follows everything.
    other = model(num_layers=1)
    other.set_weights(pretrainer.get_weights())
    end, norm = tokenizer().end_id, other.get_layer("final_norm")
    norm.beta.assign(norm.beta * 0 + 10)
    table = other.get_layer("token_embedding").embeddings
    rows = np.arange(tokenizer().vocab_size)[:, None]
    table.assign(np.where(rows == end, 1.0, table))
    generator = TextGenerator(other, tokenizer())
    assert generator(["the cat", "a"], 3, temperature=0) == ["", ""]
    assert "".join(generator.stream("the cat", 3, temperature=0)) == ""


@pytest.mark.slow
def test_a_stream_is_the_call_in_pieces(generator):
    for seed in range(6):
        whole = generator(["naïve"], 10, seeds=seed, **DRAWN)[0]
        assert "".join(generator.stream("naïve", 10, seed=seed, **DRAWN)) == whole


class Script:
    """Stands for the graphs: makes these tokens, whatever it is asked."""

    def __init__(self, tokens):
        self.tokens, self.made = tokens, 0

    def __call__(self, function, count, **settings):
        if function.__name__ == "start":
            return lambda *_: {"done": tf.constant([False])}
        new = self.tokens[self.made : self.made + count]
        self.made += count
        if function.__name__ == "generate":
            self.made = 0
        return lambda *_, **__: (
            tf.constant([new]) if function.__name__ == "generate" else
            (tf.constant([new]), {"done": tf.constant([self.made >= len(self.tokens)])})
        )  # fmt: skip


@pytest.mark.parametrize(
    "data, pieces",
    [
        ("é€🙂a".encode(), ["", "é", "", "", "€", "", "", "", "🙂", "a"]),
        (b"a\xc3b\xff!", ["a", "", "\ufffdb", "\ufffd", "!"]),
        ("a€".encode()[:-1], ["a", "", "\ufffd"]),  # it ends within a character
    ],
)
def test_characters_are_not_split(generator, monkeypatch, data, pieces):
    names = tokenizer().vocabulary
    tokens = [names.index(byte_characters()[byte]) for byte in data]
    monkeypatch.setattr(generator, "_graph", Script(tokens))
    assert list(generator.stream("a", len(tokens))) == pieces
    monkeypatch.setattr(generator, "_graph", Script(tokens))
    assert generator(["a"], len(tokens)) == ["".join(pieces)]


@pytest.mark.slow
def test_beams(pretrainer, generator):
    ids, mask = pad_prompts(tokenizer(), tf.constant(PROMPTS))
    settings = dict(length_penalty=0.7, shifted=False, stop_ids=(tokenizer().end_id,))
    tokens, scores = beam_search(GPTDecoder(pretrainer), ids, mask, 3, 3, **settings)
    got = generator(PROMPTS, 3, beams=3, length_penalty=0.7)
    assert got == decoded(tokens[:, 0], tokenizer().end_id)
    several = generator(PROMPTS, 3, beams=3, length_penalty=0.7, samples=2, scores=True)
    for row, texts in enumerate(several):
        assert [text for text, _ in texts] == decoded(tokens[row, :2], tokenizer().end_id)
        np.testing.assert_allclose([p for _, p in texts], scores[row, :2], rtol=1e-5)


@pytest.mark.slow
def test_several_texts_and_what_they_score(pretrainer, generator):
    found = generator(PROMPTS, 5, seeds=7, samples=2, scores=True, **DRAWN)
    one = [generator(PROMPTS, 5, seeds=seeds, **DRAWN) for seeds in ([7, 8, 9], [10, 11, 12])]
    assert [[text for text, _ in texts] for texts in found] == [
        list(texts) for texts in zip(*one, strict=True)
    ]
    prompt, end = tokenizer().tokenize([PROMPTS[0]]).to_list()[0], tokenizer().end_id
    ids, mask = pad_prompts(tokenizer(), tf.constant(PROMPTS[:1]))
    new = generate(
        GPTDecoder(pretrainer), ids, mask, 5, seeds=tf.constant([7]), stop_ids=(end,), **DRAWN
    ).numpy()[0]
    new = new[: new.tolist().index(end) + 1] if end in new else new
    whole = np.array([[*prompt, *new]], "int32")
    logits = pretrainer({"input_word_ids": whole, "input_mask": np.ones_like(whole)})["lm_logits"]
    log_p = tf.nn.log_softmax(logits[0, len(prompt) - 1 : -1]).numpy()
    want = sum(row[token] for row, token in zip(log_p, new, strict=True))
    np.testing.assert_allclose(found[0][0][1], want, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
def test_a_text_ends_before_a_stop_string(generator, size):
    settings = dict(temperature=2.0, seeds=3, stop_tokens=())
    whole = generator(PROMPTS, 12, **settings)
    free = whole[0]
    stop = free[4 : 4 + size]
    assert len(stop) == size
    for other in (["never there"], []):
        got = generator(PROMPTS, 12, stop_strings=[stop, *other], **settings)
        assert got == [text.partition(stop)[0] for text in whole]
    pieces = list(
        generator.stream(
            PROMPTS[0], 12, temperature=2.0, seed=3, stop_tokens=(), stop_strings=[stop]
        )
    )
    assert "".join(pieces) == free.partition(stop)[0]
    ((_, scored),) = generator(PROMPTS[:1], 12, stop_strings=[stop], scores=True, **settings)
    ((_, unstopped),) = generator(PROMPTS[:1], 12, scores=True, **settings)
    assert unstopped < scored < 0


@pytest.mark.slow
def test_the_whole_of_the_positions_can_be_used(generator):
    prompt = "the " * 30
    ids = tokenizer().tokenize([prompt]).to_list()[0][: POSITIONS - 4]
    prompt = tokenizer().detokenize([ids]).numpy()[0].decode()
    assert tokenizer().tokenize([prompt]).to_list() == [ids]
    assert len(generator([prompt], 4, temperature=0)) == 1
    with pytest.raises(ValueError, match="a prompt of 20 tokens and max_new_tokens=5 .*24 pos"):
        generator([prompt], 5)


def test_errors_name_the_argument(generator):
    for arguments, message in (
        (dict(prompts=[]), "prompts"),
        (dict(max_new_tokens=0), "max_new_tokens=0"),
        (dict(temperature=float("nan")), "temperature=nan"),
        (dict(top_k=2.5), "top_k=2.5"),
        (dict(top_p=1.5), "top_p=1.5"),
        (dict(beams=0), "beams=0"),
        (dict(beams=2, stop_strings=["a"]), "beams=2 .* without stop_strings"),
        (dict(beams=2, samples=3), "samples=3"),
        (dict(samples=0), "samples=0"),
        (dict(stop_strings=[""]), "stop_strings must not be empty"),
        (dict(repetition_penalty=0.0), "repetition_penalty=0.0"),
        (dict(no_repeat_ngram=-1), "no_repeat_ngram=-1"),
        (dict(min_new_tokens=0.5), "min_new_tokens=0.5"),
        (dict(seeds=[[1]]), "seeds"),
    ):
        with pytest.raises(ValueError, match=message):
            generator(**{"prompts": ["the cat"], "max_new_tokens": 4, **arguments})


def test_vocabulary_and_model_must_agree():
    with pytest.raises(ValueError, match=f"vocabulary of {tokenizer().vocab_size} tokens"):
        TextGenerator(talkative(), tokenizer())

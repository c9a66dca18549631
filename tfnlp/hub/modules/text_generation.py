"""Prompts to text with a GPT: strings in, strings out."""

import codecs

import numpy as np
import tensorflow as tf

from tfnlp.models import GPTDecoder
from tfnlp.models.beam_search import beam_search
from tfnlp.models.generation import advance, generate, start


class TextGenerator:
    """Continues texts.

    `generator(prompts, max_new_tokens=64, ...)` returns the continuations, `stream` one of them
    bit by bit as it is made. Each is one compiled graph with a cache of keys and values, made at
    the first call with such settings. A prompt's continuation depends on the prompt, the settings
    and the seed alone, not on the batch.

    Args:
        model: from `tfnlp.models.gpt` or `gpt_pretrainer`.
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
        jit_compile: compile with XLA, for each new length of prompts anew: tens of seconds, after
            which a float32 model runs faster on a CPU.

    Raises:
        ValueError: if the vocabulary has more tokens than the model.
    """

    def __init__(self, model, tokenizer, jit_compile=False):
        self.tokenizer = tokenizer
        size = model.get_layer("token_embedding").vocab_size
        if tokenizer.vocab_size > size:
            raise ValueError(
                f"vocabulary of {tokenizer.vocab_size} tokens, but the model has {size}; give the "
                "vocabulary that the model was trained with"
            )
        # A table may have more rows than there are tokens.
        self._decoder = GPTDecoder(model, tokenizer.vocab_size)
        self._jit = jit_compile
        self._graphs = {}

    def __call__(
        self,
        prompts,
        max_new_tokens=64,
        *,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        seeds=0,
        beams=None,
        length_penalty=0.0,
        stop_tokens=None,
    ):
        """Continuations of `prompts`.

        Args:
            prompts: list of strings; one that is empty starts a text.
            max_new_tokens: 1 or more; prompt and continuation must fit the model's positions.
            temperature: 0: the most probable token each time; above: drawn, see
                `tfnlp.models.sample`.
            top_k, top_p: draw from the k most probable tokens, from the fewest with probability p.
            seeds: an int, prompt i then has `seeds + i`, or an int for each prompt.
            beams: search with so many beams instead, and take the best; see
                `tfnlp.models.beam_search`, also for `length_penalty`.
            stop_tokens: ids that end a text; None: the tokenizer's `end_id`.

        Returns:
            list of strings, without the prompts.

        Raises:
            ValueError: for arguments out of range, or a prompt that is too long.
        """
        ids, mask = self._prompts(prompts, max_new_tokens)
        stops = self._stops(stop_tokens)
        if beams is None:
            check_sampling(temperature, top_k, top_p)
            settings = dict(temperature=float(temperature), top_k=int(top_k), top_p=float(top_p))
            tokens = self._graph(generate, max_new_tokens, stop_ids=stops, **settings)(
                ids, mask, _row_seeds(seeds, len(prompts))
            )
        else:
            if beams < 1:
                raise ValueError(f"beams={beams} must be at least 1")
            settings = dict(beams=beams, length_penalty=float(length_penalty))
            tokens = self._graph(beam_search, max_new_tokens, stop_ids=stops, **settings)(ids, mask)
        texts = self.tokenizer.detokenize(_until_stop(tokens, stops))
        return [text.decode("utf-8", "replace") for text in texts.numpy()]

    def stream(
        self,
        prompt,
        max_new_tokens=64,
        *,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        seed=0,
        stop_tokens=None,
        tokens_a_call=1,
    ):
        """Yields the pieces of one continuation; joined they are what a call returns.

        Arguments as of a call; the graph is run for `tokens_a_call` tokens at a time. A character
        is held back until its last byte is there, so that a piece may be empty.
        """
        check_sampling(temperature, top_k, top_p)
        if tokens_a_call < 1:
            raise ValueError(f"tokens_a_call={tokens_a_call} must be at least 1")
        ids, mask = self._prompts([prompt], max_new_tokens)
        stops, seeds = self._stops(stop_tokens), _row_seeds(seed, 1)
        settings = dict(temperature=float(temperature), top_k=int(top_k), top_p=float(top_p))
        state = self._graph(start, max_new_tokens)(ids, mask)
        shown, tokens, ended = "", [], False
        while not ended:
            count = min(tokens_a_call, max_new_tokens - len(tokens))
            new, state = self._graph(advance, count, stop_ids=stops, **settings)(state, seeds)
            tokens += _until_stop(new, stops)[0].numpy().tolist()
            ended = len(tokens) == max_new_tokens or bool(state["done"][0])
            # From the start each time: what a piece adds may depend on those before it.
            whole = self.tokenizer.detokenize(tf.constant([tokens], "int32"))[0].numpy()
            text = codecs.getincrementaldecoder("utf-8")("replace").decode(whole, final=ended)
            yield text[len(shown) :]
            shown = text

    def _prompts(self, prompts, max_new_tokens):
        if isinstance(prompts, str | bytes) or not len(prompts):
            raise ValueError("prompts must be a list of one string or more")
        for prompt in prompts:
            if not isinstance(prompt, str | bytes):
                raise ValueError(f"prompts must hold strings, but one is {prompt!r}")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={max_new_tokens} must be at least 1")
        ids, mask = pad_prompts(self.tokenizer, tf.constant(list(prompts)))
        longest, positions = ids.shape[1], self._decoder.max_positions
        if longest + max_new_tokens > positions:
            raise ValueError(
                f"a prompt of {longest} tokens and max_new_tokens={max_new_tokens} are more than "
                f"the model's {positions} positions; shorten one of them"
            )
        return ids, mask

    def _stops(self, stop_tokens):
        if stop_tokens is None:
            return () if self.tokenizer.end_id is None else (self.tokenizer.end_id,)
        return tuple(int(token) for token in stop_tokens)

    def _graph(self, function, count, **settings):
        """`function(decoder, ..., count, **settings)` as a graph of tensors."""
        key = (function, count, *settings.items())
        if key not in self._graphs:

            def run(*tensors):
                first, more = tensors[:2], tensors[2:]
                if function is advance:
                    first, more = tensors[:1], tensors[1:]
                named = {"seeds": more[0]} if more else {}
                return function(self._decoder, *first, count, **settings, **named)

            self._graphs[key] = tf.function(
                run, jit_compile=self._jit or None, reduce_retracing=not self._jit, autograph=False
            )
        return self._graphs[key]


def check_sampling(temperature, top_k, top_p):
    """Raises ValueError for what `tfnlp.models.sample` can't use."""
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} must be 0 or more")
    if top_k < 0 or top_k != int(top_k):
        raise ValueError(f"top_k={top_k} must be 0 (all) or a number of tokens")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")


def pad_prompts(tokenizer, prompts, longest=None):
    """Strings `[B]` to ids, int32 `[B, P]`, padded on the left, and the mask, bool `[B, P]`.

    A prompt without tokens becomes the one that ends texts, and so starts the next.

    Args:
        tokenizer: a `GPT2Tokenizer` or `GPTTokenizer`.
        prompts: strings `[B]`.
        longest: int32 scalar: only so many of the last tokens are kept; None: all.
    """
    tokens = tokenizer.tokenize(prompts)
    end = 0 if tokenizer.end_id is None else tokenizer.end_id
    # Backwards, the padding on the right is what comes out on the left.
    tokens = tokens[:, ::-1]
    if longest is not None:
        tokens = tokens[:, :longest]
    lengths = tf.maximum(tokens.row_lengths(), 1)[:, None]
    ids = tokens.to_tensor(end)
    ids = tf.cond(tf.shape(ids)[1] > 0, lambda: ids, lambda: tf.fill([tf.shape(ids)[0], 1], end))
    mask = tf.range(tf.shape(ids, tf.int64)[1])[None] < lengths
    return ids[:, ::-1], mask[:, ::-1]


def _row_seeds(seeds, rows):
    seeds = np.asarray(seeds, np.int64)
    if seeds.ndim == 0:
        seeds = seeds + np.arange(rows)
    if seeds.shape != (rows,):
        raise ValueError(f"seeds has shape {seeds.shape}; give an int, or one for each prompt")
    return tf.constant(seeds.astype(np.int32))  # beyond int32 they wrap round


def _until_stop(tokens, stops):
    """int32 `[B, G]` (of beams `[B, K, G]`: the best) up to the first of `stops`, ragged."""
    tokens = tokens[0][:, 0] if isinstance(tokens, tuple | list) else tokens
    stopped = tf.zeros_like(tokens, tf.bool)
    for stop in stops:
        stopped |= tokens == stop
    kept = tf.cumsum(tf.cast(stopped, tf.int32), axis=1) == 0
    return tf.ragged.boolean_mask(tokens, kept)

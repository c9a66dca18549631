"""Text generation with a GPT, from strings to strings."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.models import GPTDecoder
from tfnlp.models.beam_search import beam_search
from tfnlp.models.generation import advance, generate, start
from tfnlp.text import GPT2Tokenizer, GPTTokenizer


class TextGenerator:
    """Generator of continuations of texts.

    `generator(prompts, max_new_tokens=64, ...)` returns the continuations; `stream` yields one of
    them piece by piece. Each runs one compiled graph with a cache of keys and values, built at the
    first call with given settings. A prompt's continuation depends on the prompt, the settings and
    the seed only, not on the batch.

    Args:
        model: from `tfnlp.models.gpt` or `gpt_pretrainer`.
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
    """

    def __init__(self, model: keras.Model, tokenizer: GPT2Tokenizer | GPTTokenizer) -> None:
        check_vocabulary(model, tokenizer)
        self.tokenizer = tokenizer
        # A table may have more rows than there are tokens.
        self._decoder = GPTDecoder(model, tokenizer.vocab_size)
        self._graphs = {}

    def __call__(
        self,
        prompts: Sequence[str | bytes],
        max_new_tokens: int = 64,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seeds: int | Sequence[int] = 0,
        beams: int | None = None,
        length_penalty: float = 0.0,
        stop_tokens: Sequence[int] | None = None,
    ) -> list[str]:
        """Return the continuations of `prompts`, without the prompts.

        Args:
            prompts: list of strings; an empty one starts a text.
            max_new_tokens: 1 or more; prompt and continuation must fit the model's positions.
            temperature, top_k, top_p: see `tfnlp.models.sample`; temperature 0: the most probable
                token each time.
            seeds: an int (prompt i has `seeds + i`), or an int for each prompt.
            beams: use a beam search of this width and return the best beam; see
                `tfnlp.models.beam_search`, also for `length_penalty`.
            stop_tokens: ids that end a text; None: the tokenizer's `end_id`.
        """
        ids, mask = self._prompts(prompts, max_new_tokens)
        stops = self._stops(stop_tokens)
        if beams is None:
            settings = sampling(temperature, top_k, top_p)
            tokens = self._graph(generate, max_new_tokens, stop_ids=stops, **settings)(
                ids, mask, seeds=_row_seeds(seeds, len(prompts))
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
        prompt: str | bytes,
        max_new_tokens: int = 64,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop_tokens: Sequence[int] | None = None,
    ) -> Iterator[str]:
        """Yield the pieces of one continuation, token by token; joined they are that of a call.

        The arguments are those of a call. A character is yielded when its last byte is complete, so
        a piece may be empty.
        """
        settings = sampling(temperature, top_k, top_p)
        ids, mask = self._prompts([prompt], max_new_tokens)
        stops, seeds = self._stops(stop_tokens), _row_seeds(seed, 1)
        state = self._graph(start, max_new_tokens)(ids, mask)
        shown, tokens, ended = "", [], False
        while not ended:
            new, state = self._graph(advance, 1, stop_ids=stops, **settings)(state, seeds=seeds)
            tokens += _until_stop(new, stops)[0].numpy().tolist()
            ended = len(tokens) == max_new_tokens or bool(state["done"][0])
            # Detokenize from the start each time: a piece may depend on those before it.
            whole = self.tokenizer.detokenize(tf.constant([tokens], "int32"))[0].numpy()
            text = codecs.getincrementaldecoder("utf-8")("replace").decode(whole, final=ended)
            yield text[len(shown) :]
            shown = text

    def _prompts(
        self, prompts: Sequence[str | bytes], max_new_tokens: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if isinstance(prompts, str | bytes) or not len(prompts):
            raise ValueError("prompts must be a list of one string or more")
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

    def _stops(self, stop_tokens: Sequence[int] | None) -> tuple[int, ...]:
        if stop_tokens is None:
            return () if self.tokenizer.end_id is None else (self.tokenizer.end_id,)
        return tuple(int(token) for token in stop_tokens)

    def _graph(self, function: Callable, count: int, **settings: Any) -> Callable:
        """Return `function(decoder, ..., count, **settings)` as a `tf.function` of tensors."""
        key = (function, count, *settings.items())
        if key not in self._graphs:

            def run(*tensors: Any, **seeds: tf.Tensor) -> Any:
                return function(self._decoder, *tensors, count, **settings, **seeds)

            self._graphs[key] = tf.function(run, reduce_retracing=True, autograph=False)
        return self._graphs[key]


def check_vocabulary(model: keras.Model, tokenizer: GPT2Tokenizer | GPTTokenizer) -> None:
    """Raise ValueError if a tokenizer has tokens that a model does not know."""
    size = model.get_layer("token_embedding").vocab_size
    if tokenizer.vocab_size > size:
        raise ValueError(
            f"vocabulary of {tokenizer.vocab_size} tokens, but the model has {size}; give the "
            "vocabulary that the model was trained with"
        )


def sampling(temperature: float, top_k: int, top_p: float) -> dict[str, float]:
    """Return the arguments of `tfnlp.models.sample`; raise ValueError for those it can't use."""
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} must be 0 or more")
    if top_k < 0 or top_k != int(top_k):
        raise ValueError(f"top_k={top_k} must be 0 (all) or a number of tokens")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")
    return dict(temperature=float(temperature), top_k=int(top_k), top_p=float(top_p))


def pad_prompts(
    tokenizer: GPT2Tokenizer | GPTTokenizer,
    prompts: tf.Tensor,
    longest: int | tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Convert strings `[B]` to ids, int32 `[B, P]`, padded on the left, and a bool mask `[B, P]`.

    A prompt without tokens becomes the token that ends texts: it starts the next text. At most
    `longest` tokens are kept, from the end of the prompt.
    """
    tokens = tokenizer.tokenize(prompts)
    end = 0 if tokenizer.end_id is None else tokenizer.end_id
    # Reversed: padding on the right becomes padding on the left.
    tokens = tokens[:, ::-1]
    if longest is not None:
        tokens = tokens[:, :longest]
    lengths = tf.maximum(tokens.row_lengths(), 1)[:, None]
    ids = tokens.to_tensor(end)
    ids = tf.cond(tf.shape(ids)[1] > 0, lambda: ids, lambda: tf.fill([tf.shape(ids)[0], 1], end))
    mask = tf.range(tf.shape(ids, tf.int64)[1])[None] < lengths
    return ids[:, ::-1], mask[:, ::-1]


def _row_seeds(seeds: int | Sequence[int], rows: int) -> tf.Tensor:
    seeds = np.asarray(seeds, np.int64)
    if seeds.ndim == 0:
        seeds = seeds + np.arange(rows)
    if seeds.shape != (rows,):
        raise ValueError(f"seeds has shape {seeds.shape}; give an int, or one for each prompt")
    return tf.constant(seeds.astype(np.int32))  # larger seeds wrap around


def _until_stop(tokens: Any, stops: Sequence[int]) -> tf.RaggedTensor:
    """Cut int32 `[B, G]` (the best of beams `[B, K, G]`) before the first of `stops`."""
    tokens = tokens[0][:, 0] if isinstance(tokens, tuple | list) else tokens
    stopped = tf.zeros_like(tokens, tf.bool)
    for stop in stops:
        stopped |= tokens == stop
    kept = tf.cumsum(tf.cast(stopped, tf.int32), axis=1) == 0
    return tf.ragged.boolean_mask(tokens, kept)

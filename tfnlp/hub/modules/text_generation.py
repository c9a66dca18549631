"""Text generation with a GPT, from strings to strings."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.traced import other_vocabulary
from tfnlp.models import GPTDecoder
from tfnlp.models.beam_search import beam_search
from tfnlp.models.generation import advance, generate, start
from tfnlp.text import GPT2Tokenizer, GPTTokenizer

_PART = 8  # tokens between two looks for stop strings


class TextGenerator:
    """Generator of continuations of texts.

    `generator(prompts, max_new_tokens=64, ...)` returns the continuations; `stream` yields one of
    them piece by piece. Each runs one compiled graph with a cache of keys and values, built at the
    first call with given settings. A prompt's continuation depends on the prompt, the settings and
    the seed only, not on the batch. Temperature 0 and `beams` give what Hugging Face's `generate`
    gives for the prompt alone with the same weights and settings.

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
        stop_strings: Sequence[str] = (),
        repetition_penalty: float = 1.0,
        no_repeat_ngram: int = 0,
        min_new_tokens: int = 0,
        samples: int | None = None,
        scores: bool = False,
    ) -> list:
        """Return the continuations of `prompts`, without the prompts.

        Args:
            prompts: list of strings; an empty one starts a text.
            max_new_tokens: 1 or more; prompt and continuation must fit the model's positions.
            temperature, top_k, top_p: see `tfnlp.models.sample`; temperature 0: the most probable
                token each time.
            seeds: an int (prompt i has `seeds + i`), or an int for each of N prompts. Sample j has
                N j more.
            beams: use a beam search of this width and return the best beam; `length_penalty` alpha
                divides `log p` by `|y|^alpha`, see `tfnlp.models.beam_search`.
            stop_tokens: ids that end a text; None: the tokenizer's `end_id`.
            stop_strings: a text ends before the first of them. Not with `beams`.
            repetition_penalty, no_repeat_ngram, min_new_tokens: see `tfnlp.models.generate`.
            samples: return a list of so many continuations of each prompt; with `beams` the best.
            scores: return pairs of a continuation and its `log p`, a sum over its tokens and that
                which ends it, by the model's own logits; of `beams` the score.
        """
        ids, mask = self._prompts(prompts, max_new_tokens)
        stops = self._stops(stop_tokens)
        rows = 1 if samples is None else samples
        if beams is not None and (beams < 1 or stop_strings):
            raise ValueError(f"beams={beams} must be at least 1, and without stop_strings")
        if rows < 1 or beams is not None and rows > beams:
            raise ValueError(f"samples={samples} must be at least 1, and not more than beams")
        how = _changes(repetition_penalty, no_repeat_ngram, min_new_tokens)
        if beams is None:
            how |= {**sampling(temperature, top_k, top_p), "stop_ids": stops}
            more = np.repeat(np.arange(rows) * len(prompts), len(prompts))
            seeds = tf.tile(_row_seeds(seeds, len(prompts)), [rows]) + tf.constant(more, "int32")
            ids, mask = (tf.tile(x, [rows, 1]) for x in (ids, mask))
            if scores or stop_strings:
                strings = _stop_strings(stop_strings)
                texts, log_p = self._scored(ids, mask, seeds, max_new_tokens, strings, how)
            else:
                tokens = self._graph(generate, max_new_tokens, **how)(ids, mask, seeds=seeds)
                texts = self._texts(until_stop(tokens, stops))
        else:
            how |= {"length_penalty": float(length_penalty), "shifted": False}
            run = self._graph(beam_search, max_new_tokens, beams=beams, stop_ids=stops, **how)
            tokens, log_p = run(ids, mask)  # [B, K, G], [B, K]
            tokens, log_p = (tf.concat(tf.unstack(x[:, :rows], axis=1), 0) for x in (tokens, log_p))
            texts, log_p = self._texts(until_stop(tokens, stops)), log_p.numpy()
        found = list(zip(texts, map(float, log_p), strict=True)) if scores else texts
        if samples is None:
            return found
        return [found[i :: len(prompts)] for i in range(len(prompts))]

    def _scored(
        self, ids: tf.Tensor, mask: tf.Tensor, seeds: tf.Tensor, count: int,
        strings: Sequence[str], how: dict[str, Any],
    ) -> tuple[list[str], np.ndarray]:  # fmt: skip
        """Return a continuation and its `log p` for each row; it ends before one of `strings`."""
        how, stops = {"scores": True, **how}, how["stop_ids"]
        state, tokens, log_p = self._graph(start, count)(ids, mask), [], []
        ended = np.zeros(len(ids), bool)
        while sum(x.shape[1] for x in tokens) < count and not ended.all():
            part = min(_PART, count - _PART * len(tokens))
            (new, p), state = self._graph(advance, part, **how)(state, seeds=seeds)
            tokens, log_p = [*tokens, new], [*log_p, p]
            texts = self._texts(until_stop(tf.concat(tokens, 1), stops))
            ended = state["done"].numpy() | [_place(x, strings) < len(x) for x in texts]
            state = {**state, "done": tf.constant(ended)}
        tokens, log_p = tf.concat(tokens, 1), tf.concat(log_p, 1).numpy()
        for row, text in enumerate(texts):
            if _place(text, strings) < len(text):
                log_p[row, self._needed(tokens[row], strings) :] = 0.0
        return [text[: _place(text, strings)] for text in texts], log_p.sum(1)

    def _needed(self, tokens: tf.Tensor, strings: Sequence[str]) -> int:
        """Return how many of the tokens it takes until one of the strings is there."""
        parts = [tokens[:size].numpy().tolist() for size in range(1, len(tokens) + 1)]
        texts = self._texts(tf.ragged.constant(parts, dtype="int32"))
        return 1 + [any(x in text for x in strings) for text in texts].index(True)

    def _texts(self, tokens: tf.RaggedTensor) -> list[str]:
        texts = self.tokenizer.detokenize(tokens).numpy()
        return [text.decode("utf-8", "replace") for text in texts]

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
        stop_strings: Sequence[str] = (),
        repetition_penalty: float = 1.0,
        no_repeat_ngram: int = 0,
        min_new_tokens: int = 0,
    ) -> Iterator[str]:
        """Yield the pieces of one continuation, token by token; joined they are that of a call.

        The arguments are those of a call. A character is yielded when its last byte is complete,
        and when it begins no stop string, so a piece may be empty.
        """
        stop_strings = _stop_strings(stop_strings)
        settings = sampling(temperature, top_k, top_p)
        settings |= _changes(repetition_penalty, no_repeat_ngram, min_new_tokens)
        ids, mask = self._prompts([prompt], max_new_tokens)
        stops, seeds = self._stops(stop_tokens), _row_seeds(seed, 1)
        state = self._graph(start, max_new_tokens)(ids, mask)
        shown, tokens, ended = "", [], False
        while not ended:
            new, state = self._graph(advance, 1, stop_ids=stops, **settings)(state, seeds=seeds)
            tokens += until_stop(new, stops)[0].numpy().tolist()
            ended = len(tokens) == max_new_tokens or bool(state["done"][0])
            # Detokenize from the start each time: a piece may depend on those before it.
            whole = self.tokenizer.detokenize(tf.constant([tokens], "int32"))[0].numpy()
            text = codecs.getincrementaldecoder("utf-8")("replace").decode(whole, final=ended)
            place = _place(text, stop_strings)
            ended = ended or place < len(text)
            text = text[: place if ended else _begun(text, stop_strings)]
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
        raise other_vocabulary(tokenizer.vocab_size, size)


def sampling(temperature: float, top_k: int, top_p: float) -> dict[str, float]:
    """Return the arguments of `tfnlp.models.sample`; raise ValueError for those it can't use."""
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} must be 0 or more")
    if top_k < 0 or top_k != int(top_k):
        raise ValueError(f"top_k={top_k} must be 0 (all) or a number of tokens")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")
    return dict(temperature=float(temperature), top_k=int(top_k), top_p=float(top_p))


def _changes(penalty: float, ngram: int, least: int) -> dict[str, Any]:
    """Return the arguments of `generate` that change logits; ValueError for those it can't use."""
    if not 0 < penalty < float("inf"):
        raise ValueError(f"repetition_penalty={penalty} must be above 0; 1 changes nothing")
    for name, value in (("no_repeat_ngram", ngram), ("min_new_tokens", least)):
        if value < 0 or value != int(value):
            raise ValueError(f"{name}={value} must be 0 or a number of tokens")
    return dict(
        repetition_penalty=float(penalty), no_repeat_ngram=int(ngram), min_new_tokens=int(least)
    )


def _stop_strings(strings: str | Sequence[str]) -> list[str]:
    strings = [strings] if isinstance(strings, str) else list(strings)
    if "" in strings:
        raise ValueError("stop_strings must not be empty")
    return strings


def _place(text: str, strings: Sequence[str]) -> int:
    """Return where the first of the strings begins in a text; its length if there is none."""
    return min([i for i in map(text.find, strings) if i >= 0], default=len(text))


def _begun(text: str, strings: Sequence[str]) -> int:
    """Return where a text ends in what may become one of the strings."""
    ends = [
        len(text) - size
        for string in strings
        for size in range(1, len(string))
        if text.endswith(string[:size])
    ]
    return min(ends, default=len(text))


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


def until_stop(tokens: tf.Tensor, stops: Sequence[int]) -> tf.RaggedTensor:
    """Cut int32 `[B, G]` before the first of `stops`."""
    stopped = tf.zeros_like(tokens, tf.bool)
    for stop in stops:
        stopped |= tokens == stop
    kept = tf.cumsum(tf.cast(stopped, tf.int32), axis=1) == 0
    return tf.ragged.boolean_mask(tokens, kept)

"""The models of a `tokenizer.json`: words to ids, in the TensorFlow graph."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline.byte_pairs import BytePairs, fused
from tfnlp.text.pipeline.characters import FIRST_TOKEN, as_bytes, scattered, word_of
from tfnlp.text.pipeline.gpt2_words import byte_characters, bytes_of
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.pieces import ByteWords, Pieces, prefix_hashes

Cut = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_UNKNOWN_PENALTY = 10.0  # of a Unigram: below the score of its least probable piece
_BYTES = [f"<0x{i:02X}>" for i in range(256)]


class Model:
    """Words to ids.

    Words that are one token are looked up; of the others each distinct one of a batch is cut once.
    `cut` takes what `encode` takes and returns ids, int32 `[M]`, and the number of the word of
    each, int64 `[M]`, in the order of the words.
    """

    def __init__(self, words: Pieces | ByteWords, cut: Cut) -> None:
        self._words = words
        self._cut = cut

    def encode(self, chars: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of words, int32 ragged `[W, (tokens)]`.

        They are from `starts` to `stops`, int64 `[W]`, in `chars`: int32 `[N]`, of `ByteWords`
        uint8.
        """
        count = tf.size(starts, tf.int64)
        hashes = self._words.hashes(chars, starts, stops)
        known, ids = self._words.find(hashes)
        if chars.dtype == tf.int32:
            first = tf.gather(chars, starts)
            token = first >= FIRST_TOKEN
            known, ids = known | token, tf.where(token, first - FIRST_TOKEN, ids)

        def with_cut() -> tuple[tf.Tensor, tf.Tensor]:
            lost = tf.where(~known)[:, 0]
            found, of = tf.unique(tf.gather(hashes, lost))
            kinds = tf.size(found)
            chosen = tf.math.unsorted_segment_min(tf.range(tf.size(lost)), of, kinds)
            chosen = tf.gather(lost, chosen)  # a word of each kind
            begin, length = (tf.gather(x, chosen) for x in (starts, stops - starts))
            own = tf.gather(chars, tf.ragged.range(begin, begin + length).values)
            ends = tf.cumsum(length)
            cut, word = self._cut(own, ends - length, ends)
            counts = tf.math.bincount(
                tf.cast(word, tf.int32), minlength=kinds, maxlength=kinds, dtype=tf.int64
            )
            firsts = tf.cumsum(counts, exclusive=True)
            source = tf.concat([ids, cut], 0)
            at = tf.tensor_scatter_nd_update(
                tf.range(count), lost[:, None], count + tf.gather(firsts, of)
            )
            number = tf.tensor_scatter_nd_update(
                tf.ones([count], tf.int64), lost[:, None], tf.gather(counts, of)
            )
            places = tf.ragged.range(at, at + number)
            return tf.gather(source, places.values), places.row_splits

        flat, splits = tf.cond(tf.reduce_all(known), lambda: (ids, tf.range(count + 1)), with_cut)
        return tf.RaggedTensor.from_row_splits(flat, splits, validate=False)


def byte_model(words: Mapping[str, int], cut: Cut) -> Model:
    """Return the model of words of bytes, from parts of which the characters stand for bytes."""
    alphabet = tf.constant([ord(char) for char in byte_characters()])
    numbers = {bytes_of(word): i for word, i in words.items()}
    numbers.pop(None, None)  # no bytes are these words

    def cut_bytes(
        data: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return cut(tf.gather(alphabet, tf.cast(data, tf.int32)), starts, ends)

    return Model(ByteWords(numbers), cut_bytes)


def single_words(cut: Cut, words: Mapping[str, int]) -> dict[str, int]:
    """Return those of words to ids that are cut into that one token."""
    lengths = tf.constant([len(word) for word in words], tf.int64)
    ends = tf.cumsum(lengths)
    chars = tf.strings.unicode_decode(tf.constant("".join(words).encode()), "UTF-8")
    ids, of = (x.numpy() for x in cut(chars, ends - lengths, ends))
    counts = np.bincount(of, minlength=len(words))
    firsts = np.append(ids, -1)[np.cumsum(counts) - counts]
    alone = (counts == 1) & (firsts == list(words.values()))
    return {word: i for (word, i), one in zip(words.items(), alone, strict=True) if one}


def _pieces_in_turn(
    lengths: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Follow pieces from the beginnings of words to their ends, by the lengths of pieces `[N]`.

    Return whether one is taken at each character, bool `[N]`, and which words end well, `[W]`.
    """
    count = tf.size(starts, tf.int64)

    def step(
        taken: tf.Tensor, good: tf.Tensor, words: tf.Tensor, at: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        length = tf.gather(lengths, at)
        taken = tf.tensor_scatter_nd_update(taken, at[:, None], length > 0)
        failed = tf.boolean_mask(words, length == 0)[:, None]
        good = tf.tensor_scatter_nd_update(good, failed, tf.zeros_like(failed[:, 0], tf.bool))
        at += length
        goes_on = (length > 0) & (at < tf.gather(ends, words))
        return taken, good, tf.boolean_mask(words, goes_on), tf.boolean_mask(at, goes_on)

    free = tf.TensorShape([None])
    return tf.while_loop(
        lambda taken, good, words, at: tf.size(words) > 0,
        step,
        (tf.zeros_like(lengths, tf.bool), tf.fill([count], True), tf.range(count), starts),
        shape_invariants=(free,) * 4,
    )[:2]


class _WordPiece:
    def __init__(self, model: Mapping[str, Any], whole: Pieces, words: Mapping[str, int]) -> None:
        vocab = model["vocab"]
        prefix = model.get("continuing_subword_prefix", "##")
        self._unknown = vocab.get(model["unk_token"])
        if self._unknown is None:
            raise NotExact(f"model whose unk_token {model['unk_token']!r} is no token")
        self._limit = model.get("max_input_chars_per_word", 100)
        inside = {t[len(prefix) :]: i for t, i in vocab.items() if t.startswith(prefix)}
        inside.pop("", None)
        self._begin = whole if len(words) == len(vocab) else Pieces(vocab)
        self._inside = Pieces(inside)
        self._lengths = {
            part: tf.constant(part.lengths, tf.int64) for part in (self._begin, self._inside)
        }

    def __call__(
        self, chars: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.size(chars, tf.int64)
        word = word_of(size, starts)
        end = tf.gather(ends, word)
        short = ends - starts <= self._limit
        hashes = prefix_hashes(chars)
        inner = tf.where(tf.gather(short, word))[:, 0]
        lengths, ids = tf.zeros([size], tf.int64), tf.zeros([size], tf.int32)
        for pieces, places in ((self._inside, inner), (self._begin, starts)):
            known, numbers = pieces.all_from(hashes, places, tf.gather(end, places))
            which = tf.argmax(tf.cast(known, tf.int8), 1)
            length = tf.where(tf.reduce_any(known, 1), tf.gather(self._lengths[pieces], which), 0)
            lengths = tf.tensor_scatter_nd_update(lengths, places[:, None], length)
            number = tf.gather(numbers, which, batch_dims=1)
            ids = tf.tensor_scatter_nd_update(ids, places[:, None], number)
        whole = tf.where(short)[:, 0]
        taken, good = _pieces_in_turn(lengths, tf.gather(starts, whole), tf.gather(ends, whole))
        good = scattered(tf.size(short), tf.boolean_mask(whole, good))
        bad = scattered(size, tf.boolean_mask(starts, ~good))
        ids = tf.where(bad, self._unknown, ids)
        places = tf.where((taken & tf.gather(good, word)) | bad)[:, 0]
        return tf.gather(ids, places), tf.gather(word, places)


class _WordLevel:
    def __init__(self, model: Mapping[str, Any], *_: Any) -> None:
        self._unknown = model["vocab"].get(model["unk_token"])
        if self._unknown is None:
            raise NotExact(f"model whose unk_token {model['unk_token']!r} is no token")

    def __call__(
        self, chars: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        words = tf.range(tf.size(starts, tf.int64))
        return tf.fill(tf.shape(words), tf.constant(self._unknown, tf.int32)), words


class _Unigram:
    """The pieces with the largest sum of scores (Kudo 2018); of equal sums that of longer ones."""

    def __init__(self, model: Mapping[str, Any], *_: Any) -> None:
        vocab = model["vocab"]
        self._unknown = model.get("unk_id")
        if self._unknown is None:
            raise NotExact("model without unk_id")
        if model.get("alpha"):
            raise NotExact(f"model.alpha={model['alpha']}")
        ids = {token: i for i, (token, _) in enumerate(vocab)}
        self._scores = tf.constant([score for _, score in vocab], tf.float64)
        self._least = float(min(score for _, score in vocab)) - _UNKNOWN_PENALTY
        self._pieces = Pieces({token: i for token, i in ids.items() if token})
        self._lengths = tf.constant(self._pieces.lengths, tf.int64)
        tokens = _byte_tokens(model, ids)
        self._bytes = None if tokens is None else tf.constant([ids[t] for t in tokens], tf.int32)

    def __call__(
        self, chars: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.size(chars, tf.int64)
        word = word_of(size, starts)
        places = tf.range(size)
        known, numbers = self._pieces.all_from(prefix_hashes(chars), places, tf.gather(ends, word))
        scores = tf.where(known, tf.gather(self._scores, numbers), -np.inf)  # [N, L]
        single = tf.where(known[:, -1], scores[:, -1], self._least)
        scores = tf.concat([scores[:, :-1], single[:, None]], 1)
        numbers = tf.where(known, numbers, self._unknown)
        which, taken = self._best(scores, starts, ends, word)
        places = tf.where(taken)[:, 0]
        ids = tf.gather_nd(numbers, tf.stack([places, tf.gather(which, places)], 1))
        of = tf.gather(word, places)
        lost = ids == self._unknown
        if self._bytes is not None:
            return as_bytes(ids, of, lost, tf.gather(chars, places), self._bytes)
        return fused(ids, of, lost)

    def _best(
        self, scores: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, word: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the best piece from each character, int64 `[N]`, and which of them are taken.

        All words go on by a character at a time. What is known of them after `t` characters stands
        together, the longest words first: those that end sooner are left out at the end.
        """
        count, kinds = tf.size(starts, tf.int64), tf.size(self._lengths, tf.int64)
        length = ends - starts
        order = tf.cast(tf.argsort(-length, stable=True), tf.int64)
        every = tf.range(count)
        rank = tf.scatter_nd(order[:, None], every, count[None])  # [W]
        length = tf.gather(length, order)
        longest = tf.reduce_max(tf.concat([length, [0]], 0))
        # How many words have at least t characters, and where what is known of them begins.
        counts = count - tf.searchsorted(
            length[::-1], tf.range(longest + 1), "left", out_type=tf.int64
        )
        begins = tf.cumsum(counts, exclusive=True)  # [T + 1]
        places = tf.range(tf.size(word, tf.int64))
        after = places - tf.gather(starts, word) + 1  # [N], characters
        row = tf.gather(begins, after) + tf.gather(rank, word) - count
        place = tf.scatter_nd(row[:, None], places, tf.shape(row, tf.int64))  # in the order of rows
        after = tf.gather(after, place)[:, None]
        begin = tf.maximum(place[:, None] + 1 - self._lengths, 0)
        score = tf.gather(tf.reshape(scores, [-1]), begin * kinds + tf.range(kinds))
        score = tf.where(after >= self._lengths, score, -np.inf)  # [N, L], by where pieces end

        def forward(t: tf.Tensor, best: tf.Tensor, back: tf.Tensor) -> tuple[tf.Tensor, ...]:
            first, words = begins[t], every[: counts[t]]
            own = score[first - count : first - count + counts[t]]
            before = tf.gather(begins, tf.maximum(t - self._lengths, 0))
            sums = tf.gather(best, words[:, None] + before) + own
            at = (first + words)[:, None]
            best = tf.tensor_scatter_nd_update(best, at, tf.reduce_max(sums, 1))
            return t + 1, best, tf.tensor_scatter_nd_update(back, at, tf.argmax(sums, 1))

        size = tf.size(word, tf.int64)
        _, _, back = tf.while_loop(
            lambda t, *_: t <= longest,
            forward,
            (
                tf.constant(1, tf.int64),
                tf.zeros([size + count], tf.float64),
                tf.zeros([size + count], tf.int64),
            ),
        )

        def backward(
            which: tf.Tensor, taken: tf.Tensor, words: tf.Tensor, rest: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            chosen = tf.gather(back, tf.gather(begins, rest) + tf.gather(rank, words))
            rest -= tf.gather(self._lengths, chosen)
            place = (tf.gather(starts, words) + rest)[:, None]
            which = tf.tensor_scatter_nd_update(which, place, chosen)
            taken = tf.tensor_scatter_nd_update(taken, place, tf.ones_like(chosen, tf.bool))
            more = rest > 0
            return which, taken, tf.boolean_mask(words, more), tf.boolean_mask(rest, more)

        free = tf.TensorShape([None])
        return tf.while_loop(
            lambda which, taken, words, rest: tf.size(words) > 0,
            backward,
            (tf.zeros([size], tf.int64), tf.zeros([size], tf.bool), every, ends - starts),
            shape_invariants=(free,) * 4,
        )[:2]


def _byte_pairs(model: Mapping[str, Any], *_: Any) -> BytePairs:
    for name in ("dropout", "continuing_subword_prefix"):
        if model.get(name):
            raise NotExact(f"model.{name}={model[name]!r}")
    vocab, suffix, unknown = model["vocab"], model.get("end_of_word_suffix"), model.get("unk_token")
    if unknown is not None and unknown not in vocab:
        raise NotExact(f"model whose unk_token {unknown!r} is no token")
    tokens = _byte_tokens(model, vocab)
    if tokens is not None and suffix:
        raise NotExact("model.byte_fallback with an end_of_word_suffix")
    return BytePairs(
        vocab, merges_of(model), suffix or "", None if unknown is None else vocab[unknown],
        bool(model.get("fuse_unk")), tokens, in_turn=True,
    )  # fmt: skip


def merges_of(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of symbols to merge, in the order they were learnt; none if no pairs."""
    return [tuple(m.split(" ") if isinstance(m, str) else m) for m in model.get("merges", ())]


def _byte_tokens(model: Mapping[str, Any], vocab: Collection[str]) -> list[str] | None:
    """Return the tokens for the 256 bytes; None if they are not used."""
    there = sum(token in vocab for token in _BYTES) if model.get("byte_fallback") else 0
    if 0 < there < len(_BYTES):
        raise NotExact(f"model.byte_fallback with {there} of 256 tokens for bytes")
    return _BYTES if there else None


_MAKERS = {
    "BPE": _byte_pairs,
    "Unigram": _Unigram,
    "WordLevel": _WordLevel,
    "WordPiece": _WordPiece,
}


def make_model(model: Mapping[str, Any], words: Mapping[str, int]) -> tuple[Model, Cut]:
    """Return the model of a `tokenizer.json`, and what it cuts words with.

    `words` are those that it makes one token of, with the token's id.
    """
    if model.get("type") not in _MAKERS:
        raise NotExact(f"model.type={model.get('type')!r}")
    whole = Pieces(words)
    cut = _MAKERS[model["type"]](model, whole, words)
    return Model(whole, cut), cut

"""Readers: the texts of a task to packed sequences of ids, one reader for each kind of encoder.

BERT   [CLS] A [SEP] B [SEP]              (Devlin et al. 2019, figure 4); RoBERTa has two [SEP]
                                          between A and B
GPT    start A delimiter B extract        (Radford et al. 2018, figure 1)
ELMo   0 A 0 B 0                          words by number; 0 is a vector of zeros
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfnlp.text.base_tokenizers import BytePairTokenizer
from tfnlp.text.packing import pack_segments, special_tokens
from tfnlp.text.words import with_whole, words_with_offsets

ReadTexts = tuple[list[tf.RaggedTensor], tf.RaggedTensor | None, tf.RaggedTensor | None]


class Reader(tf.__internal__.tracking.AutoTrackable):
    """Base of the readers. The methods work eagerly and in a SavedModel."""

    # The piece that stands for its word: BERT's is the first (section 5.3), GPT's the last, the
    # only one that has seen the whole word.
    head: ClassVar[str] = "first"
    style: str  # how `words_with_offsets` cuts a text into words

    def read(
        self,
        texts: Sequence[tf.Tensor],
        words: tf.RaggedTensor | None = None,
        spaced: tf.RaggedTensor | None = None,
    ) -> ReadTexts:
        """Return the ids of texts, strings `[N]`, and the pieces of words, strings `[N, (W)]`.

        Args:
            texts, words: see above.
            spaced: bool of the shape of `words`, whether white space precedes the word.

        Returns:
            int32 ragged `[N, (n)]` for each of `texts`; `[N, (W), (P)]` with a piece or more a
            word, or None; and the words that the ids number, strings ragged (ELMo alone, or None).
        """
        raise NotImplementedError

    def special_tokens(self, segments: int) -> int:
        """Return how many special tokens `pack` adds to so many segments."""
        return special_tokens(segments)

    def pack(self, segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
        """Return ids as a dict of int32 `[N, T]`, T as long as needed and at most `max_length`.

        The names are `input_word_ids`, `input_mask`, `input_type_ids` (0 in A, 1 in B),
        `null_positions` `[N]`, where the token is that means "no answer" (in GPT: extract), and
        `is_cut` `[N]`, 1 for rows that were longer.
        """
        raise NotImplementedError


class _PieceReader(Reader):
    """Reader of what the tokenizer of an encoder makes of texts."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self.style = with_whole(tokenizer.word_style, getattr(tokenizer, "marks", ()))
        self.tokenizer = tokenizer

    def read(
        self,
        texts: Sequence[tf.Tensor],
        words: tf.RaggedTensor | None = None,
        spaced: tf.RaggedTensor | None = None,
    ) -> ReadTexts:
        pieces = None
        if words is not None:
            flat = words.values
            if self.tokenizer.keeps_spaces:
                flat = tf.strings.join([tf.where(spaced.values, " ", ""), flat])
            unknown = getattr(self.tokenizer, "unk_id", 0)
            pieces = words.with_values(_at_least_one(self.tokenizer.tokenize(flat), unknown))
        return [self._ids(text) for text in texts], pieces, None

    def _ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self.tokenizer.tokenize(text)


class BertReader(_PieceReader):
    """Reader for BERT and the encoders after it.

    Args:
        tokenizer: a sentence tokenizer, such as `tfnlp.text.WordPieceTokenizer`.
    """

    def special_tokens(self, segments: int) -> int:
        return special_tokens(segments, self.tokenizer.separators)

    def pack(self, segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
        ids = self.tokenizer
        return _pack(segments, max_length, ids.cls_id, ids.sep_id, ids.pad_id, ids.separators)


class GPTReader(_PieceReader):
    """Reader for GPT and GPT-2.

    Args:
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
        special: ids of start, delimiter and extract; None: there are none, texts follow each other
            and the last token is the one that is looked at, as in Hugging Face's GPT-2.
    """

    head = "last"

    def __init__(self, tokenizer: BytePairTokenizer, special: Sequence[int] | None) -> None:
        super().__init__(tokenizer)
        self._ends = (lambda: None) if special is None else (lambda: tuple(special))

    @property
    def special(self) -> tuple[int, ...] | None:
        """The ids of start, delimiter and extract, or None."""
        return self._ends()

    def special_tokens(self, segments: int) -> int:
        return 0 if self.special is None else super().special_tokens(segments)

    def pack(self, segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
        if self.special is None:
            return _pack_plain(segments, max_length)
        start, delimiter, extract = self.special
        ends = [*[delimiter] * (len(segments) - 1), extract]
        packed = _pack(segments, max_length, start, ends, 0)
        last = tf.reduce_sum(packed["input_mask"], axis=1) - 1
        return {**packed, "null_positions": last}


class SourceReader(GPTReader):
    """Reader of sentences to translate: their pieces and the token that ends texts.

    Args:
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer` with an `end_id`.
    """

    def __init__(self, tokenizer: BytePairTokenizer) -> None:
        super().__init__(tokenizer, None)

    def _ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        ids = super()._ids(text)
        return tf.concat([ids, tf.fill([ids.nrows(), 1], self.tokenizer.end_id)], 1)


class PromptReader(Reader):
    """Reader of texts after a prompt, as sentence-transformers has them.

    Args:
        reader: of tokens.
        prompt: what precedes each text.
        lowercase: lower-case prompt and text, each character by itself.
    """

    def __init__(self, reader: Reader, prompt: str, lowercase: bool = False) -> None:
        super().__init__()
        self._reader, self._prompt, self._lowercase = reader, prompt, lowercase

    def read(self, texts: Sequence[tf.Tensor], *words: tf.RaggedTensor | None) -> ReadTexts:
        texts = [self._prompt + text for text in texts]
        if self._lowercase:
            # Alone a sigma has no final form; ASCII first, see `tfnlp.text.gpt_words`.
            texts = [tf.strings.lower(tf.strings.regex_replace(text, "Σ", "σ")) for text in texts]
            texts = [tf.strings.lower(text, encoding="utf-8") for text in texts]
        return self._reader.read(texts, *words)

    def pack(self, segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
        return self._reader.pack(segments, max_length)


class WordReader(Reader):
    """Reader for ELMo.

    `input_word_ids` are rows of a table of all words that were read: word i of the first text of
    the first list is row i + 1, and so on through all texts and all lists.
    """

    style = "treebank"

    def read(
        self,
        texts: Sequence[tf.Tensor],
        words: tf.RaggedTensor | None = None,
        spaced: tf.RaggedTensor | None = None,
    ) -> ReadTexts:
        parts = [words_with_offsets(text, self.style)[0] for text in texts]
        parts += [] if words is None else [words]
        ids, first = [], 1
        for part in parts:
            count = tf.size(part.values)
            ids.append(part.with_values(tf.range(first, first + count)))
            first += count
        pieces = None
        if words is not None:
            last = ids.pop()
            pieces = last.with_values(tf.RaggedTensor.from_tensor(last.values[:, None]))
        return ids, pieces, tf.concat(parts, 0)

    def pack(self, segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
        return _pack(segments, max_length, 0, 0, 0)


def _pack(
    segments: Sequence[tf.RaggedTensor],
    max_length: int,
    first: int,
    ends: int | Sequence[int],
    padding: int,
    separators: int = 1,
) -> dict[str, tf.Tensor]:
    special = special_tokens(len(segments), separators)
    lengths = tf.add_n([tf.cast(s.row_lengths(), "int32") for s in segments]) + special
    # At least the special tokens, even without rows.
    longest = tf.reduce_max(tf.concat([lengths, [special]], 0))
    length = tf.minimum(longest, max_length)
    packed = pack_segments(segments, length, first, ends, padding, separators)
    is_cut = tf.cast(lengths > max_length, "int32")
    return {**packed, "null_positions": tf.zeros_like(lengths), "is_cut": is_cut}


def _pack_plain(segments: Sequence[tf.RaggedTensor], max_length: int) -> dict[str, tf.Tensor]:
    """Return segments one after the other, cut at their end; an empty text is a 0."""
    joined = tf.concat([tf.cast(segment, "int32") for segment in segments], 1)
    lengths = tf.cast(joined.row_lengths(), "int32")
    kept = joined[:, :max_length].to_tensor(0)
    kept = tf.pad(kept, [[0, 0], [0, tf.cast(tf.shape(kept)[1] == 0, "int32")]])
    last = tf.maximum(tf.minimum(lengths, max_length) - 1, 0)
    mask = tf.sequence_mask(last + 1, tf.shape(kept)[1], "int32")
    return {
        "input_word_ids": kept,
        "input_mask": mask,
        "input_type_ids": tf.zeros_like(kept),
        "null_positions": last,
        "is_cut": tf.cast(lengths > max_length, "int32"),
    }


def _at_least_one(pieces: tf.RaggedTensor, unknown: int) -> tf.RaggedTensor:
    """Return `pieces` `[W, (P)]`, with `unknown` for words of no pieces (control characters)."""
    none = tf.cast(pieces.row_lengths() == 0, "int64")
    filled = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(none)], tf.cast(unknown, pieces.dtype)), none
    )
    return tf.concat([pieces, filled], 1)

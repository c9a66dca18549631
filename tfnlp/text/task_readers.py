"""What a model reads of a task's texts: packed sequences of ids, for each kind of backbone.

    BERT   [CLS] A [SEP] B [SEP]              (Devlin et al. 2019, figure 4)
    GPT    start A delimiter B extract        (Radford et al. 2018, figure 1)
    ELMo   0 A 0 B 0                          words by number; 0 is a vector of zeros

All readers have the same methods, which work eagerly and in a SavedModel:

- `read(texts, words=None, spaced=None)`: texts, a list of strings `[N]`, to a list of ids, int32
  ragged `[N, (n)]`; words, strings ragged `[N, (W)]`, with whether white space stands before them
  (bool of that shape), to pieces int32 ragged `[N, (W), (P)]`, one or more a word; and the words
  that the ids number, strings ragged (ELMo alone, else None);
- `pack(segments, max_length)`: ids to a dict of int32 `[N, T]`: `input_word_ids`, `input_mask`,
  `input_type_ids` (0 in A, 1 in B), T being as long as needed and `max_length` at most, and
  `null_positions` `[N]`, where the token stands that means "no answer" and, in GPT, everything.

`style` tells `words_with_offsets` how to cut a text into words. `head` tells which piece of a word
stands for it: BERT's first (section 5.3), GPT's last, which is the only one that has seen the whole
word.
"""

import tensorflow as tf

from tfnlp.text.packing import pack_segments
from tfnlp.text.word_offsets import words_with_offsets


class BertReader(tf.__internal__.tracking.AutoTrackable):
    """See the module.

    Args:
      tokenizer: a `tfnlp.text.WordPieceTokenizer`.
    """

    kind, head, style = "bert", "first", "bert"

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def read(self, texts, words=None, spaced=None):
        pieces = None
        if words is not None:
            flat = self.tokenizer.tokenize(words.values)
            pieces = words.with_values(_at_least_one(flat, self.tokenizer.unk_id))
        return [self.tokenizer.tokenize(text) for text in texts], pieces, None

    def pack(self, segments, max_length):
        ids = self.tokenizer
        return _pack(segments, max_length, ids.cls_id, ids.sep_id, ids.pad_id)


class GPTReader(tf.__internal__.tracking.AutoTrackable):
    """See the module.

    Args:
      tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
      special: ids of start, delimiter and extract.
    """

    kind, head = "gpt", "last"

    def __init__(self, tokenizer, special):
        super().__init__()
        # GPT learnt from "did n't", GPT-2 from "didn 't".
        self.style = "treebank" if tokenizer.kind == "gpt" else "gpt"
        self.tokenizer, self._special = tokenizer, tuple(special)

    def read(self, texts, words=None, spaced=None):
        pieces = None
        if words is not None:
            flat = words.values
            # Byte-level tokens carry the space before them; words of GPT have theirs at the end.
            if self.tokenizer.kind == "gpt2":
                flat = tf.strings.join([tf.where(spaced.values, " ", ""), flat])
            unknown = getattr(self.tokenizer, "unk_id", 0)
            pieces = words.with_values(_at_least_one(self.tokenizer.tokenize(flat), unknown))
        return [self.tokenizer.tokenize(text) for text in texts], pieces, None

    def pack(self, segments, max_length):
        start, delimiter, extract = self._special
        ends = [*[delimiter] * (len(segments) - 1), extract]
        packed = _pack(segments, max_length, start, ends, 0)
        last = tf.reduce_sum(packed["input_mask"], axis=1) - 1
        return {**packed, "null_positions": last}


class WordReader(tf.__internal__.tracking.AutoTrackable):
    """See the module. `input_word_ids` are rows of the table of all words that were read: word i of
    the first text of the first list is row i + 1, and so on through all texts and all lists."""

    kind, head, style = "elmo", "first", "treebank"

    def read(self, texts, words=None, spaced=None):
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

    def pack(self, segments, max_length):
        return _pack(segments, max_length, 0, 0, 0)


def _pack(segments, max_length, first, ends, padding):
    special = 1 + len(segments)
    lengths = tf.add_n([tf.cast(s.row_lengths(), "int32") for s in segments]) + special
    # At least the special tokens, where there is no row at all.
    longest = tf.reduce_max(tf.concat([lengths, [special]], 0))
    packed = pack_segments(segments, tf.minimum(longest, max_length), first, ends, padding)
    return {**packed, "null_positions": tf.zeros_like(lengths)}


def _at_least_one(pieces, unknown):
    """`pieces` `[W, (P)]`, with `unknown` where nothing was left of a word (control characters)."""
    none = tf.cast(pieces.row_lengths() == 0, "int64")
    filled = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(none)], tf.cast(unknown, pieces.dtype)), none
    )
    return tf.concat([pieces, filled], 1)

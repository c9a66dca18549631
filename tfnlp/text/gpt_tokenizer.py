"""GPT's tokenizer as a part of the TensorFlow graph, and the choice between GPT's and GPT-2's."""

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.base_tokenizers import BytePairTokenizer, Vocabulary, separate
from tfnlp.text.byte_pair_files import Merges, Tokens, check_bpe, read_bpe
from tfnlp.text.byte_pairs import BytePairs
from tfnlp.text.gpt2_tokenizer import GPT2Tokenizer
from tfnlp.text.gpt2_words import characters
from tfnlp.text.gpt_words import gpt_words

END_OF_WORD = "</w>"
UNKNOWN_TOKEN = "<unk>"


def gpt_tokenizer(vocabulary: Vocabulary, marks: Sequence[str] = ()) -> BytePairTokenizer:
    """Return the tokenizer of a vocabulary: GPT's if its tokens end in `</w>`, else GPT-2's.

    Args:
        vocabulary, marks: as `GPTTokenizer` and `GPT2Tokenizer` take them.

    Raises:
        ValueError, FileNotFoundError: as those do.
    """
    source = "vocabulary"
    if isinstance(vocabulary, str | os.PathLike):
        source = f"vocabulary folder {os.fspath(vocabulary)}"
        vocabulary = read_bpe(vocabulary)
    else:
        vocabulary = check_bpe(*vocabulary)
    if not any(token is not None and token.endswith(END_OF_WORD) for token in vocabulary[0]):
        return GPT2Tokenizer(vocabulary, marks)
    _check_unknown(vocabulary[0], source)
    return GPTTokenizer(vocabulary, marks)


def _check_unknown(tokens: Sequence[str | None], source: str) -> None:
    if UNKNOWN_TOKEN not in tokens:
        raise ValueError(
            f"{source} lacks {UNKNOWN_TOKEN}, which GPT needs for characters that are no token; "
            "add it, best as the first token"
        )


class GPTTokenizer(BytePairTokenizer):
    r"""Tokenizer of GPT: strings to ids and back.

    Follows `TextEncoder` of openai/finetune-transformer-lm.

    Text is normalised, cut into words and lower-cased (`tfnlp.text.gpt_words`, which says what
    differs from the reference); the characters of each word, the last followed by `</w>`, are
    merged pair by pair (`tfnlp.text.byte_pairs`). What is no token becomes `<unk>`.
    `<unk>` and `<|endoftext|>` written in a text are plain text.

    `detokenize` puts a space between words: case, line breaks and the spaces around punctuation
    are lost.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the two
    files travel as assets; loading one needs `import tensorflow_text`.

    Args:
        vocabulary: folder with `encoder_bpe_40000.json` and `vocab_40000.bpe`, or `encoder.json`
            and `vocab.bpe` (see `read_bpe`), or a pair `(tokens, merges)`.

    Attributes:
        kind: "gpt".
        vocab_size: one more than the largest id.
        unk_id: id of `<unk>`.
        end_id: id of `<|endoftext|>`, else of `\n</w>`, which is last in the published
            vocabulary, else None.
        vocabulary_assets: the files as `tf.saved_model.Asset`s.

    Raises:
        ValueError, FileNotFoundError: as `read_bpe`; also if there is no token `<unk>`.
    """

    # GPT was trained on "did n't", GPT-2 on "didn 't".
    kind, word_style, keeps_spaces = "gpt", "treebank", False

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        _check_unknown(tokens, "vocabulary")
        self.unk_id = tokens.index(UNKNOWN_TOKEN)
        self._pairs = BytePairs(tokens, merges, self._first_symbols, unknown=self.unk_id)
        # Characters, and characters at the ends of words, as sorted numbers.
        symbols = {}
        for name, symbol in self._pairs.symbols.items():
            char = name.removesuffix(END_OF_WORD)
            if len(char) == 1:
                symbols[2 * ord(char) + (char != name)] = symbol
        keys = sorted(symbols)
        self._chars = tf.constant(keys + [np.iinfo(np.int32).max], tf.int32)
        self._char_symbols = tf.constant(
            [*(symbols[key] for key in keys), self._pairs.unknown], tf.int64
        )
        words = {
            token.removesuffix(END_OF_WORD).encode(): i
            for i, token in enumerate(tokens)
            if token is not None and token.endswith(END_OF_WORD)
        }
        self._pairs.learn_words(list(words), list(words.values()))

    def _first_symbols(self, data: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        # Separated, or else the bytes of two words could form one character.
        data = separate(data, lengths, 0)
        offsets, points = characters(data)
        ends = tf.searchsorted(offsets, tf.cast(tf.cumsum(lengths + 1) - 1, tf.int64))
        count = tf.size(offsets)
        is_end = tf.tensor_scatter_nd_update(
            tf.zeros([count], tf.bool), ends[:, None], tf.ones_like(ends, tf.bool)
        )
        last = tf.concat([is_end[1:], [False]], 0)[:count]
        keys = 2 * points + tf.cast(last, tf.int32)
        places = tf.searchsorted(self._chars, keys)
        known = tf.gather(self._chars, places) == keys
        symbols = tf.where(known, tf.gather(self._char_symbols, places), self._pairs.unknown)
        return tf.where(is_end, tf.constant(self._pairs.separator, tf.int64), symbols)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = gpt_words(strings)
        flat = words.flat_values
        ends = tf.cumsum(tf.strings.length(flat) + 1) - 1
        joined = tf.strings.reduce_join(tf.strings.join([flat, tf.constant(b"\0")]))
        data = tf.io.decode_raw(joined, tf.uint8)
        starts = tf.concat([[0], ends[:-1] + 1], 0)[: tf.size(ends)]
        ids = self._pairs.encode(data, starts, ends)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False
        )

    def _as_text(self, token: str) -> bytes:
        if token.endswith(END_OF_WORD):
            token = token.removesuffix(END_OF_WORD) + " "
        return token.encode()

    def _join(self, texts: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        return tf.strings.strip(super()._join(texts))

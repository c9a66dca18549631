"""GPT-2's byte-level tokenizer as a part of the TensorFlow graph."""

import tensorflow as tf

from tfnlp.text.byte_pairs.encoding import BytePairs
from tfnlp.text.byte_pairs.files import Merges, Tokens
from tfnlp.text.byte_pairs.tokenizer import END_OF_TEXT, BytePairTokenizer, separate
from tfnlp.text.gpt.gpt2_splitting import gpt2_words


class GPT2Tokenizer(BytePairTokenizer):
    r"""Tokenizer of GPT-2: strings to ids and back.

    Equal to `Encoder` of openai/gpt-2 (`encoder.py`).

    Text is cut into words (`tfnlp.text.gpt.gpt2_splitting`), the bytes of each are merged pair by
    pair (`tfnlp.text.byte_pairs.encoding`). Nothing is lost: for any bytes,
    `detokenize(tokenize(x)) == x`. Bytes that are not UTF-8 count as marks, each a character:
    `"a\xff!"` is the words `a` and `\xff!`, just as `encoder.py` cuts `x.decode("utf-8",
    "surrogateescape")`. `<|endoftext|>` written in a text is plain text.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the two
    files travel as assets; core TensorFlow alone can load it.

    Args:
        vocabulary: folder with `encoder.json` and `vocab.bpe` (see `read_bpe`), or a pair `(tokens,
            merges)`. In a part of a vocabulary, tokens may be None or missing: a text that needs
            one of these raises `tf.errors.InvalidArgumentError`, as `encoder.py` raises a KeyError,
            and their ids become U+FFFD in `detokenize`.

    Attributes:
        kind: "gpt2".
        vocab_size: one more than the largest id.
        end_id: id of `<|endoftext|>`, None if there is no such token.
        vocabulary_assets: the files as `tf.saved_model.Asset`s.

    Raises:
        ValueError, FileNotFoundError: as `read_bpe`.
    """

    kind, word_style, keeps_spaces = "gpt2", "gpt", True

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        chars = byte_characters()
        words = {token: _token_bytes(token) for token in tokens if token and token != END_OF_TEXT}
        self._pairs = BytePairs(tokens, merges, self._first_symbols, chars)
        self._byte_symbols = tf.constant(
            [self._pairs.symbols.get(char, self._pairs.unknown) for char in chars], tf.int64
        )
        ids = {token: i for i, token in enumerate(tokens)}
        self._pairs.learn_words(list(words.values()), [ids[token] for token in words])

    def _first_symbols(self, data: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        symbols = tf.gather(self._byte_symbols, tf.cast(data, tf.int32))
        return separate(symbols, lengths, self._pairs.separator)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        data, starts, ends, row_splits = gpt2_words(strings)
        ids = self._pairs.encode(data, starts, ends)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, row_splits), validate=False
        )

    def _as_text(self, token: str) -> bytes:
        return _token_bytes(token)


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in byte-level vocabularies.

    Printable Latin-1 characters stand for themselves, the other 68 bytes get U+0100 and on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(i) if i in printable else chr(next(others)) for i in range(256)]


_BYTE_OF = {char: i for i, char in enumerate(byte_characters())}


def _token_bytes(token: str) -> bytes:
    """Return the bytes that a byte-level token stands for; other tokens stand for themselves."""
    try:
        return bytes(_BYTE_OF[char] for char in token)
    except KeyError:
        return token.encode()

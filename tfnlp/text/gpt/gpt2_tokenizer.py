"""GPT-2's byte-level tokenizer as a part of the TensorFlow graph."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence

import tensorflow as tf

from tfnlp.text.bpe_files import FILE_NAMES, check_bpe, read_bpe, write_bpe
from tfnlp.text.byte_pairs import BytePairs
from tfnlp.text.gpt.gpt2_words import gpt2_words
from tfnlp.text.packing import join_rows

END_OF_TEXT = "<|endoftext|>"
_ABSENT = "\ufffd"  # stands for ids without a token
_STRINGS = tf.TensorSpec([None], tf.string)
_IDS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
_DENSE = tf.TensorSpec([None, None], tf.int32)


class BytePairTokenizer(tf.__internal__.tracking.AutoTrackable):
    """What the tokenizers of GPT and GPT-2 have in common; see those.

    A subclass sets `kind` and defines `_make` and `_encode`.
    """

    kind: str

    def __init__(self, vocabulary):
        super().__init__()
        if isinstance(vocabulary, str | os.PathLike):
            tokens, merges = read_bpe(vocabulary)
        else:
            tokens, merges = check_bpe(*vocabulary)
        # Lists would be tracked, and wrapped, element by element; functions are left alone.
        self._lists = lambda: (tokens, merges)
        self.vocab_size = len(tokens)
        self.end_id = _end_id(tokens)
        ends = [] if self.end_id is None else [self.end_id]
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._token_table = tf.constant([_ABSENT if t is None else t for t in tokens])  # [V]
            self._text_table = tf.constant(
                [
                    b"" if i in ends else _ABSENT.encode() if t is None else self._as_text(t)
                    for i, t in enumerate(tokens)
                ]
            )  # [V]
            self._make(tokens, merges)
        self.vocabulary_assets = _assets(tokens, merges)
        # Traced here, since a SavedModel accepts only what was traced before, and since a trace
        # needs the object alive: `GPT2Tokenizer(path).tokenize(texts)` would not be.
        self.tokenize.get_concrete_function()
        for spec in (_IDS, _DENSE):
            self.detokenize.get_concrete_function(spec)
            self.id_to_token.get_concrete_function(spec)

    @property
    def vocabulary(self) -> list[str | None]:
        """The tokens in the order of their ids, None where an id has none."""
        return list(self._lists()[0])

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of symbols to merge, in the order they were learnt."""
        return list(self._lists()[1])

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Strings `[B]` to ids, int32 ragged `[B, (tokens)]`."""
        return self._encode(strings)

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Ids int32 ragged `[B, (tokens)]` or dense `[B, T]` to strings `[B]`, ends left out."""
        return self._join(tf.ragged.map_flat_values(tf.gather, self._text_table, ids))

    @tf.function(autograph=False)
    def id_to_token(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Ids int32 of any shape to their tokens, strings of the same shape."""
        return tf.ragged.map_flat_values(tf.gather, self._token_table, ids)

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Size and special ids as int32 scalars; -1 for an end that the vocabulary lacks."""
        end = -1 if self.end_id is None else self.end_id
        return dict(vocab_size=tf.constant(self.vocab_size), end_of_text_id=tf.constant(end))


class GPT2Tokenizer(BytePairTokenizer):
    """Strings to GPT-2's ids and back, equal to `Encoder` of openai/gpt-2 (`encoder.py`).

    Text is cut into words (`tfnlp.text.gpt.gpt2_words`), the bytes of each are merged pair by pair
    (`tfnlp.text.byte_pairs`).  Nothing is lost: for any bytes, `detokenize(tokenize(x)) == x`.
    Bytes that are not UTF-8 count as marks, each a character: `"a\\xff!"` is the words `a` and
    `\\xff!`, just as `encoder.py` cuts `x.decode("utf-8", "surrogateescape")`.  `<|endoftext|>`
    written in a text is plain text.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the two
    files travel as assets; core TensorFlow alone can load it.

    Args:
      vocabulary: folder with `encoder.json` and `vocab.bpe` (see `read_bpe`), or a pair `(tokens,
        merges)`. In a part of a vocabulary, tokens may be None or missing: a text that needs one
        of these raises `tf.errors.InvalidArgumentError`, as `encoder.py` raises a KeyError, and
        their ids become U+FFFD in `detokenize`.

    Attributes:
      kind: "gpt2".
      vocab_size: one more than the largest id.
      end_id: id of `<|endoftext|>`, None if there is no such token.
      vocabulary_assets: the files as `tf.saved_model.Asset`s.

    Raises:
      ValueError, FileNotFoundError: as `read_bpe`.
    """

    kind = "gpt2"

    def _make(self, tokens, merges):
        chars = byte_characters()
        words = {token: _token_bytes(token) for token in tokens if token and token != END_OF_TEXT}
        self._pairs = BytePairs(tokens, merges, self._first_symbols, chars)
        self._byte_symbols = tf.constant(
            [self._pairs.symbols.get(char, self._pairs.unknown) for char in chars], tf.int64
        )
        ids = {token: i for i, token in enumerate(tokens)}
        self._pairs.learn_words(list(words.values()), [ids[token] for token in words])

    def _first_symbols(self, data, lengths):
        symbols = tf.gather(self._byte_symbols, tf.cast(data, tf.int32))
        return separate(symbols, lengths, self._pairs.separator)

    def _encode(self, strings):
        data, starts, ends, row_splits = gpt2_words(strings)
        ids = self._pairs.encode(data, starts, ends)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, row_splits), validate=False
        )

    def _as_text(self, token):
        return _token_bytes(token)

    def _join(self, texts):
        return join_rows(texts)


def separate(symbols: tf.Tensor, lengths: tf.Tensor, separator: int) -> tf.Tensor:
    """Symbols int64 `[n]` of words of `lengths` `[w]`, with a separator behind each word."""
    words = tf.size(lengths)
    ends = tf.cumsum(lengths + 1) - 1
    size = tf.size(symbols) + words
    is_end = tf.tensor_scatter_nd_update(
        tf.zeros(size[None], tf.bool), ends[:, None], tf.fill(words[None], True)
    )
    return tf.tensor_scatter_nd_update(
        tf.fill(size[None], tf.constant(separator, symbols.dtype)), tf.where(~is_end), symbols
    )


def byte_characters() -> list[str]:
    """The character that stands for each byte in byte-level vocabularies.

    Printable Latin-1 characters stand for themselves, the other 68 bytes get U+0100 and on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(i) if i in printable else chr(next(others)) for i in range(256)]


_BYTE_OF = {char: i for i, char in enumerate(byte_characters())}


def _token_bytes(token: str) -> bytes:
    """The bytes a byte-level token stands for; other tokens stand for themselves."""
    try:
        return bytes(_BYTE_OF[char] for char in token)
    except KeyError:
        return token.encode()


def _end_id(tokens: Sequence[str | None]) -> int | None:
    for end in (END_OF_TEXT, "\n</w>"):
        if end in tokens:
            return tokens.index(end)
    return None


def _assets(tokens, merges) -> list[tf.saved_model.Asset]:
    """The two files as assets, in a folder of their own: the user's may change or go away."""
    folder = tempfile.mkdtemp(prefix="tfnlp_vocabulary_")
    write_bpe(folder, tokens, merges)
    assets = [tf.saved_model.Asset(os.path.join(folder, name)) for name in FILE_NAMES[0]]
    weakref.finalize(assets[0], _remove_folder, folder, os.getpid())
    return assets


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete its parent's files
        shutil.rmtree(folder, ignore_errors=True)

"""The byte-level tokenizers of GPT-2 and RoBERTa as a part of the TensorFlow graph."""

import tensorflow as tf

from tfnlp.text.base_tokenizers import END_OF_TEXT, BytePairTokenizer, TracedMethod, separate
from tfnlp.text.byte_pair_files import Merges, Tokens
from tfnlp.text.byte_pairs import BytePairs
from tfnlp.text.gpt2_words import gpt2_words
from tfnlp.text.packing import packing_ids

ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
CLS, PAD, SEP, UNK, MASK = ROBERTA_TOKENS
_SPACES = tuple("\t\n\x0b\x0c\r ")


class GPT2Tokenizer(BytePairTokenizer):
    r"""Tokenizer of GPT-2: strings to ids and back.

    Equal to `Encoder` of openai/gpt-2 (`encoder.py`).

    Text is cut into words (`tfnlp.text.gpt2_words`), the bytes of each are merged pair by pair
    (`tfnlp.text.byte_pairs`). Nothing is lost: for any bytes,
    `detokenize(tokenize(x)) == x`. Bytes that are not UTF-8 count as marks, each a character:
    `"a\xff!"` is the words `a` and `\xff!`, just as `encoder.py` cuts `x.decode("utf-8",
    "surrogateescape")`. `<|endoftext|>` written in a text is plain text, unless it is one of
    `marks`.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the two
    files travel as assets; core TensorFlow alone can load it.

    Args:
        vocabulary: folder with `encoder.json` and `vocab.bpe` (see `read_bpe`), or a pair `(tokens,
            merges)`. In a part of a vocabulary, tokens may be None or missing: a text that needs
            one of these raises `tf.errors.InvalidArgumentError`, as `encoder.py` raises a KeyError,
            and their ids become U+FFFD in `detokenize`.
        marks: tokens that are read as such where the text has them written.

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
        encoder = ByteEncoder(tokens, merges)
        self._pairs, self._encode = encoder.pairs, encoder.encode

    def _as_text(self, token: str) -> bytes:
        return _token_bytes(token)


class ByteEncoder:
    """Strings to the ids of the words of GPT-2, merged from bytes.

    Args:
        tokens, merges: the vocabulary.
        in_turn: see `BytePairs`.
    """

    def __init__(self, tokens: Tokens, merges: Merges, in_turn: bool = False) -> None:
        chars = byte_characters()
        words = {token: _token_bytes(token) for token in tokens if token and token != END_OF_TEXT}
        self.pairs = BytePairs(tokens, merges, self._first_symbols, chars, in_turn=in_turn)
        self._byte_symbols = tf.constant(
            [self.pairs.symbols.get(char, self.pairs.unknown) for char in chars], tf.int64
        )
        ids = {token: i for i, token in enumerate(tokens)}
        self.pairs.learn_words(list(words.values()), [ids[token] for token in words])

    def _first_symbols(self, data: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        symbols = tf.gather(self._byte_symbols, tf.cast(data, tf.int32))
        return separate(symbols, lengths, self.pairs.separator)

    def encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        data, starts, ends, row_splits = gpt2_words(strings)
        ids = self.pairs.encode(data, starts, ends)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, row_splits), validate=False
        )


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


class RobertaTokenizer(GPT2Tokenizer):
    """Tokenizer of RoBERTa: strings to ids and back.

    The tokens of a text are those of `GPT2Tokenizer`; the vocabulary also has `<s>`, `<pad>`,
    `</s>`, `<unk>` and `<mask>`, under any ids. Written in a text they are plain text, but for
    `marks` (Hugging Face's tokenizer reads all as special tokens). No space is put before a text.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the two
    files travel as assets; core TensorFlow alone can load it.

    Args:
        vocabulary: folder with `vocab.json` and `merges.txt` (see `read_bpe`), or a pair `(tokens,
            merges)`.

    Attributes:
        kind: "gpt2".
        vocab_size: one more than the largest id.
        cls_id, pad_id, sep_id, unk_id, mask_id: of `<s>`, `<pad>`, `</s>`, `<unk>`, `<mask>`.
        end_id: `sep_id`.
        mask_token: "<mask>"; in texts with masks it takes the place of the spaces before it.
        separators: 2, how many `</s>` stand between two segments.
        is_continuation: bool `[vocab_size]`, True for tokens that no white space begins.
        vocabulary_assets: the files as `tf.saved_model.Asset`s.

    Raises:
        ValueError, FileNotFoundError: as `read_bpe`; also if a special token is missing.
    """

    mask_token, separators = MASK, 2

    def _special_ids(self, tokens: Tokens) -> list[int]:
        missing = [token for token in ROBERTA_TOKENS if token not in tokens]
        if missing:
            raise ValueError(
                f"vocabulary lacks {', '.join(missing)}, which RoBERTa needs; is it GPT-2's?"
            )
        ids = [tokens.index(token) for token in ROBERTA_TOKENS]
        self.cls_id, self.pad_id, self.sep_id, self.unk_id, self.mask_id = ids
        self.end_id = self.sep_id
        return ids

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        super()._make(tokens, merges)
        special = {self.cls_id, self.pad_id, self.sep_id, self.unk_id, self.mask_id}
        self.is_continuation = tf.constant(
            [
                token is not None
                and i not in special
                and not self._as_text(token).startswith(tuple(s.encode() for s in _SPACES))
                for i, token in enumerate(tokens)
            ]
        )  # [V]

    @TracedMethod
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (tokens)]`."""
        return self._read(strings, self._encode_words)

    def _encode_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        data, starts, ends, row_splits = gpt2_words(strings)
        ids = self._pairs.encode(data, starts, ends)  # [W, (tokens)]
        real = ends > starts  # an empty word ends each string
        before = tf.concat([[0], tf.cumsum(tf.cast(real, tf.int64))], 0)  # [W + 1]
        words = tf.RaggedTensor.from_row_lengths(
            ids.values, tf.boolean_mask(ids.row_lengths(), real), validate=False
        )
        return tf.RaggedTensor.from_row_splits(words, tf.gather(before, row_splits), validate=False)

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars, named as in the published preprocessors."""
        return packing_ids(self)

"""The tokenizers of GPT, GPT-2 and RoBERTa as a part of the TensorFlow graph."""

import os
from collections.abc import Sequence

import tensorflow as tf

from tfnlp.text.base_tokenizers import END_OF_TEXT, BytePairTokenizer, TracedMethod, Vocabulary
from tfnlp.text.byte_pair_files import Merges, Tokens, check_bpe, read_bpe
from tfnlp.text.gpt_words import gpt_words
from tfnlp.text.packing import merge_words
from tfnlp.text.pipeline.byte_pairs import BytePairs, without_missing_tokens
from tfnlp.text.pipeline.gpt2_words import WordBytes, byte_characters, token_bytes
from tfnlp.text.pipeline.models import Model, byte_model, single_words
from tfnlp.text.pipeline.pieces import Pieces

ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
CLS, PAD, SEP, UNK, MASK = ROBERTA_TOKENS
END_OF_WORD = "</w>"
UNKNOWN_TOKEN = "<unk>"
_SPACES = tuple("\t\n\x0b\x0c\r ")


class GPT2Tokenizer(BytePairTokenizer):
    r"""Tokenizer of GPT-2: strings to ids and back.

    Equal to `Encoder` of openai/gpt-2 (`encoder.py`).

    Text is cut into words (`tfnlp.text.pipeline.gpt2_words`), the bytes of each are merged pair by
    pair (`tfnlp.text.pipeline.byte_pairs`). Nothing is lost: for any bytes,
    `detokenize(tokenize(x)) == x`. Bytes that are not UTF-8 count as marks, each a character:
    `"a\xff!"` is the words `a` and `\xff!`, just as `encoder.py` cuts `x.decode("utf-8",
    "surrogateescape")`. `<|endoftext|>` written in a text is plain text, unless it is one of
    `marks`.

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

    kind, word_style, keeps_spaces, _strips = "gpt2", "gpt", True, False

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        ids = _ids(tokens)
        pairs = BytePairs(ids, merges, unknown=-1)
        words = {token: i for token, i in ids.items() if token != END_OF_TEXT}
        self._words, self._model = WordBytes(), byte_model(single_words(pairs, words), pairs)
        made = {*byte_characters(), *(left + right for left, right in merges)}
        self._is_complete = made <= ids.keys()

    def _encode_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        data, starts, stops, splits = self._words.cut(strings)
        ids = self._model.encode(data, starts, stops)
        if not self._is_complete:
            ids = ids.with_values(without_missing_tokens(ids.values))
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return merge_words(self._encode_words(strings))

    def _as_text(self, token: str) -> bytes:
        return token_bytes(token)


def _ids(tokens: Tokens) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokens) if token is not None}


class RobertaTokenizer(GPT2Tokenizer):
    """Tokenizer of RoBERTa: strings to ids and back.

    The tokens of a text are those of `GPT2Tokenizer`; the vocabulary also has `<s>`, `<pad>`,
    `</s>`, `<unk>` and `<mask>`, under any ids. Written in a text they are plain text, but for
    `marks` (Hugging Face's tokenizer reads all as special tokens). No space is put before a text.

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
    merged pair by pair (`tfnlp.text.pipeline.byte_pairs`). What is no token becomes `<unk>`.
    `<unk>` and `<|endoftext|>` written in a text are plain text.

    `detokenize` puts a space between words: case, line breaks and the spaces around punctuation
    are lost.

    Loading a SavedModel with one needs `import tensorflow_text`.

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
        pairs = BytePairs(_ids(tokens), merges, END_OF_WORD, self.unk_id)
        words = {
            token.removesuffix(END_OF_WORD): i
            for token, i in _ids(tokens).items()
            if token.endswith(END_OF_WORD) and token != END_OF_WORD
        }
        self._model = Model(Pieces(single_words(pairs, words)), pairs)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = gpt_words(strings)  # none of which is empty
        chars = tf.strings.unicode_decode(words.flat_values, "UTF-8")
        ids = self._model.encode(chars.values, chars.row_starts(), chars.row_limits())
        return merge_words(words.with_values(ids))

    def _as_text(self, token: str) -> bytes:
        if token.endswith(END_OF_WORD):
            token = token.removesuffix(END_OF_WORD) + " "
        return token.encode()

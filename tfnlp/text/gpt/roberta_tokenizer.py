"""RoBERTa's tokenizer as a part of the TensorFlow graph: GPT-2's with special tokens."""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from tfnlp.text.byte_pairs.files import Merges, Tokens
from tfnlp.text.byte_pairs.tokenizer import Vocabulary
from tfnlp.text.gpt.gpt2_splitting import gpt2_words
from tfnlp.text.gpt.gpt2_tokenizer import GPT2Tokenizer, byte_characters
from tfnlp.text.gpt.training import train_bpe
from tfnlp.text.packing import packing_ids

ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
CLS, PAD, SEP, UNK, MASK = ROBERTA_TOKENS
_SPACES = tuple("\t\n\x0b\x0c\r ")
_STRINGS = tf.TensorSpec([None], tf.string)


class RobertaTokenizer(GPT2Tokenizer):
    """Tokenizer of RoBERTa: strings to ids and back.

    The tokens of a text are those of `GPT2Tokenizer`; the vocabulary also has `<s>`, `<pad>`,
    `</s>`, `<unk>` and `<mask>`, under any ids. Written in a text they are plain text (Hugging
    Face's tokenizer reads them as special tokens). No space is put before a text.

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

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.tokenize_words.get_concrete_function()

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

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (tokens)]`."""
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


def train_roberta_bpe(
    texts: Iterable[str], vocab_size: int, min_frequency: int = 2
) -> tuple[list[str], Merges]:
    """Learn a vocabulary for `RobertaTokenizer`: special tokens, the 256 bytes, merged ones.

    Args:
        texts: strings, read once.
        vocab_size: the largest number of tokens, all included.
        min_frequency: pairs seen fewer times are not merged.

    Returns:
        Tokens by id, and merges in the order they were learnt; see `train_bpe`.

    Raises:
        ValueError: as `train_bpe`.
    """
    first = len(ROBERTA_TOKENS) + len(byte_characters())
    if vocab_size < first:
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the 256 bytes and {len(ROBERTA_TOKENS)} special "
            f"tokens; pass vocab_size >= {first}"
        )
    # One token less: that which ends GPT-2's texts.
    tokens, merges = train_bpe(texts, vocab_size - len(ROBERTA_TOKENS) + 1, "gpt2", min_frequency)
    return [*ROBERTA_TOKENS, *tokens[:-1]], merges


def has_roberta_tokens(tokens: Sequence[str | None]) -> bool:
    """Return whether a vocabulary has all special tokens of `RobertaTokenizer`."""
    return set(ROBERTA_TOKENS) <= set(tokens)

"""Words to the character ids of ELMo, in core TensorFlow operations.

The ids are those of bilm-tf (`Batcher`, `UnicodeCharsVocabulary`) plus one, as in AllenNLP and for
the published weights at inference, so that 0 is left for padding tokens:

    0          a padding token (never returned: the caller pads and masks)
    b + 1      the byte b of the word's UTF-8 encoding
    257, 258   begin and end of a sentence, each the only character of its token
    259, 260   begin and end of a word
    261        padding after the end of a word
"""

import numpy as np
import tensorflow as tf

MAX_CHARACTERS = 50
NUM_CHARACTERS = 262

BEGIN_OF_SENTENCE = "<S>"
END_OF_SENTENCE = "</S>"
UNKNOWN = "<UNK>"

_SENTENCE_BEGIN, _SENTENCE_END, _WORD_BEGIN, _WORD_END, _PADDING = range(257, 262)


def character_ids(
    words: tf.Tensor, max_characters: int = MAX_CHARACTERS, trim: int | None = None
) -> tf.Tensor:
    """Return character ids of words: 259, the bytes of the word plus one, 260, then 261s.

    A long word is cut to its first `max_characters - 2` bytes, even inside a character. The words
    `<S>` and `</S>` are 259, 257, 260 and 259, 258, 260. An empty string is a word without bytes,
    not padding.

    Args:
        words: string tensor of any shape; not ragged.
        max_characters: length C of the last axis, 3 or more.
        trim: None, or how many ids to keep after the end of the tensor's longest word. C is then
            `min(max_characters, longest + 2 + trim)`, which depends on the words. With `trim` at
            least the width of the widest filter, a convolution and a maximum over the characters
            give the same values as without.

    Returns:
        int32 `[..., C]`, in [1, 261].

    Raises:
        ValueError: `words` are ragged, or no strings.
    """
    if isinstance(words, tf.RaggedTensor):
        raise ValueError("words must be a dense tensor; pass their flat values")
    words = tf.convert_to_tensor(words, tf.string)
    begins, ends = words == BEGIN_OF_SENTENCE, words == END_OF_SENTENCE
    special = begins | ends
    length = tf.minimum(tf.strings.length(words), max_characters - 2)  # in bytes
    marks, width, size = tf.constant(_marks(max_characters)), max_characters, max_characters - 2
    if trim is not None:
        longest = tf.reduce_max(tf.where(special, 1, length))
        longest = tf.maximum(longest, 0)  # without words it is a huge negative number
        width = tf.minimum(max_characters, longest + 2 + trim)
        size = tf.maximum(width - 2, 1)
    row = tf.where(begins, max_characters - 1, tf.where(ends, max_characters, length))
    # decode_raw cuts long words and appends zeros to short ones: [..., C - 2].
    raw = tf.io.decode_raw(tf.where(special, "", words), tf.uint8, fixed_length=size)
    last_axis = tf.pad([[1, 1]], [[tf.rank(words), 0], [0, 0]])  # for any rank
    ids = tf.pad(tf.cast(raw, tf.int32), last_axis)[..., :width]
    ids += tf.gather(marks[:, :width], row)
    ids.set_shape(words.shape.concatenate([max_characters if trim is None else None]))
    return ids  # [..., C]


def _marks(max_characters: int) -> np.ndarray:
    """Return what is added to a word's bytes, int32 [C + 1, C].

    Row n < C - 1 is for words of n bytes, the last two rows are for `<S>` and `</S>`.
    """
    place = np.arange(max_characters)
    length = np.arange(max_characters - 1)[:, np.newaxis]
    rows = np.where(place <= length, 1, np.where(place == length + 1, _WORD_END, _PADDING))
    rows[:, 0] = _WORD_BEGIN
    special = rows[[1, 1]]
    special[:, 1] = _SENTENCE_BEGIN, _SENTENCE_END
    return np.concatenate([rows, special]).astype(np.int32)

"""Splitting of text into words with the offsets of each word in its text."""

from typing import NamedTuple

import tensorflow as tf

from tfnlp.text.tf_text import tf_text
from tfnlp.text.wordpiece.normalization import DROPPED, IDEOGRAPHS

_WHITE = r"[\s\p{Z}\p{C}]+"
_MARK = r"[\p{P}\p{S}]|\p{Han}"


class _Style(NamedTuple):
    """Patterns of RE2, which has no look-ahead.

    Attributes:
        white: what separates words.
        kept: what separates words and is a word itself.
        dropped: characters of which alone no word consists.
    """

    white: str
    kept: str
    dropped: str = ""


_STYLES = {
    # As the tokenizer does it: what it drops splits no word, accents stay with the mark before
    # them. Symbols other than those of ASCII are parts of words.
    "bert": _Style(
        r"[ \t\n\r\p{Z}]+",
        rf"[!-/:-@\[-`{{-~\pP{IDEOGRAPHS}][\p{{Mn}}{DROPPED}]*",
        DROPPED,
    ),
    "gpt": _Style(_WHITE, rf"'(?:s|t|re|ve|m|ll|d)|{_MARK}"),
    "treebank": _Style(
        _WHITE,
        "|".join(
            (
                r"(?i:n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)",
                r"\d+(?:[.,]\d+)+",
                r"[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)+",
                r"[\p{L}\p{N}_]*[\p{L}_]\p{N}[\p{L}\p{N}_]*",  # or else v2.0 is split
                # All marks but the underscore.
                r"[\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{S}‿⁀⁔︳︴﹍-﹏＿]|\p{Han}",
            )
        ),
    ),
}


def words_with_offsets(
    texts: tf.Tensor, style: str
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Split texts into words; `word == text[start:end]`, in bytes, always holds.

    Args:
        texts: strings `[B]`.
        style: where to split besides white space. "bert": around punctuation and ideographs, as
            `WordPieceTokenizer` does: the pieces of the words are those of the text. "gpt": around
            every mark and every ideograph, but 's, 't, 're, 've, 'm, 'll and 'd stay whole.
            "treebank": as `tfnlp.text.split_words`, `did n't`, with hyphenated words and numbers
            such as 1,000.5 whole; ideographs are apart, accents stay with their letters, and
            control characters part words and are none.

    Returns:
        words, strings ragged `[B, (W)]`; starts and ends, int64 ragged `[B, (W)]`.
    """
    white, kept, dropped = _STYLES[style]
    # The splitter ends a text at a zero byte; another control character gives the same words.
    plain = tf.strings.regex_replace(texts, r"\x{0}", "\x01")
    words, starts, ends = tf_text.regex_split_with_offsets(plain, f"{white}|{kept}", kept)
    cut = tf.strings.substr(
        tf.gather(texts, words.value_rowids()), starts.values, ends.values - starts.values
    )
    found = [words.with_values(cut), starts, ends]
    if dropped:
        real = words.with_values(~tf.strings.regex_full_match(cut, f"[{dropped}]*"))
        found = [tf.ragged.boolean_mask(part, real) for part in found]
    return tuple(found)

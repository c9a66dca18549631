"""Text to words and back to the text: each word with the bytes that it came from."""

import tensorflow as tf
import tensorflow_text as tf_text

# What BERT drops from a text. It does not part words.
_DROPPED = r"\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}\p{Cf}"
_IDEOGRAPHS = (
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}"
    r"\x{2F800}-\x{2FA1F}"
)
_WHITE = r"[\s\p{Z}\p{C}]+"
_MARK = r"[\p{P}\p{S}]|\p{Han}"
# RE2, without look-ahead: what parts words, and what of it is a word by itself.
_STYLES = {
    # As the tokenizer does it, accents staying with the mark before them: other symbols than those
    # of ASCII are parts of words.
    "bert": (r"[ \t\n\r\p{Z}]+", rf"[!-/:-@\[-`{{-~\pP{_IDEOGRAPHS}][\p{{Mn}}{_DROPPED}]*"),
    "gpt": (_WHITE, rf"'(?:s|t|re|ve|m|ll|d)|{_MARK}"),
    "treebank": (
        _WHITE,
        "|".join(
            (
                r"(?i:n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)",
                r"\d+(?:[.,]\d+)+",
                r"[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)+",
                r"[\p{L}\p{N}_]*[\p{L}_]\p{N}[\p{L}\p{N}_]*",  # or else v2.0 had the number 2.0
                # All marks but the underscore.
                r"[\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{S}‿⁀⁔︳︴﹍-﹏＿]|\p{Han}",
            )
        ),
    ),
}


def words_with_offsets(
    texts: tf.Tensor, style: str
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """The words of texts inside the TensorFlow graph; `word == text[start:end]`, in bytes, always.

    Args:
      texts: strings `[B]`.
      style: where to cut besides white space. "bert": around punctuation and ideographs, as
        `WordPieceTokenizer` does: the pieces of the words are those of the text. "gpt": around
        every mark and every ideograph, but 's, 't, 're, 've, 'm, 'll and 'd stay whole. "treebank":
        as `tfnlp.text.split_words`, `did n't`, with hyphenated words and numbers such as 1,000.5
        whole; ideographs are apart, accents stay with their letters, and control characters part
        words and are none.

    Returns:
      words, strings ragged `[B, (W)]`; starts and ends, int64 ragged `[B, (W)]`.
    """
    white, kept = _STYLES[style]
    # The splitter takes a zero byte for the end of the text; any control character does instead.
    plain = tf.strings.regex_replace(texts, r"\x{0}", "\x01")
    words, starts, ends = tf_text.regex_split_with_offsets(plain, f"{white}|{kept}", kept)
    cut = tf.strings.substr(
        tf.gather(texts, words.value_rowids()), starts.values, ends.values - starts.values
    )
    found = [words.with_values(cut), starts, ends]
    if style == "bert":
        speaks = words.with_values(~tf.strings.regex_full_match(cut, f"[{_DROPPED}]*"))
        found = [tf.ragged.boolean_mask(part, speaks) for part in found]
    return tuple(found)

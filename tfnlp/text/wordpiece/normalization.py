"""BERT's text cleaning inside the TensorFlow graph, equal to the reference code's.

The reference is `BasicTokenizer` and `WordpieceTokenizer` of google-research/bert
(tokenization.py). In this order, it drops invalid UTF-8, U+FFFD and characters of category Cc and
Cf, except tab, newline and carriage return; makes every CJK ideograph a word; splits at white
space; for uncased models lower-cases each word, decomposes it (NFD) and drops category Mn; splits
off punctuation (category P and all ASCII symbols); and maps a word of more than 200 characters to
[UNK]. White space, punctuation and ideographs are left to `FastWordpieceTokenizer`, whose sets
are the same; the rest is done here.

Most rows of most corpora need ASCII lower-casing only. One regular expression finds them; the
others take the slow path.

Exact for every character assigned in Unicode 13. Newer ones follow the tables of the TensorFlow
build and may differ from a reference run under another Python: with TensorFlow 2.21, the 40
capitals added in Unicode 14 (Glagolitic U+2C2F, Latin U+A7C0, U+A7D0, U+A7D6 and U+A7D8, Vithkuqi
U+10570..) are not lower-cased, and marks, format characters and punctuation assigned after Unicode
14 are known to only some of the libraries.

Hugging Face's tokenizers differ from the reference, so they differ from this one. Characters for
private use (Co) and unassigned ones (Cn) are kept here and in the reference, where a word with one
is [UNK] as a rule. `BertTokenizer`, in Python, drops both. The Rust one (tokenizers 0.23.3) drops
private use and keeps unassigned ones; it also does not split ideographs U+2B820 to U+2B91F, splits
at U+166D, and its tables lack marks, punctuation and format characters of newer Unicodes.
"""

import tensorflow as tf

from tfnlp.text.strings import apply_where, drop_invalid
from tfnlp.text.tf_text import tf_text

MAX_WORD_CHARS = 200
# Stands for a word that is too long. A noncharacter: it occurs in no text and no vocabulary.
_LONG_WORD = "\U0010ffff"

# --- Rows that need no cleaning -------------------------------------------------------------
# Characters that are split off or dropped as white space by the tokenizer in any case: ASCII
# white space and punctuation, dashes and quotes, ideographs with their punctuation.
SPLITTING = (
    r" \t\n\r!-/:-@\[-`{-~\x{2010}-\x{2027}\x{3001}-\x{3003}\x{3008}-\x{3011}\x{4E00}-\x{9FFF}"
    r"\x{FF01}\x{FF08}\x{FF09}\x{FF0C}\x{FF1A}\x{FF1B}\x{FF1F}"
)
# Characters of words that stay as they are except for ASCII lower-casing: in the uncased list those
# without case and decomposition, in the cased one all up to the first character to be dropped.
# Few ranges on purpose: the automaton holds this class 200 times, once per character of a word.
# A character that is in neither list takes the slow path.
UNCASED_WORD = r"0-9A-Za-z\x{A1}-\x{AC}\x{AE}-\x{BF}\x{20A0}-\x{20BF}"
CASED_WORD = r"0-9A-Za-z\x{A1}-\x{AC}\x{AE}-\x{5FF}\x{20A0}-\x{20BF}"

# --- The slow path ---------------------------------------------------------------------------
_VALID = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
DROPPED = r"\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}\p{Cf}"
_ACCENTS = r"\p{Mn}+"
_WHITE = r" \t\n\r\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
_PUNCTUATION = r"!-/:-@\[-`{-~\pP"
IDEOGRAPHS = (
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}"
    r"\x{2F800}-\x{2FA1F}"
)
_LONG = rf"[^{_WHITE}]{{{MAX_WORD_CHARS + 1},}}"


def _simple(word: str) -> str:
    """Return a pattern of text of `SPLITTING` and at most 200 `word` characters in a row.

    The classes are disjoint, so the automaton is deterministic: linear in time and in states.
    """
    run = rf"[{word}]{{0,{MAX_WORD_CHARS}}}"
    return rf"(?:{run}[{SPLITTING}])*{run}"


_SIMPLE = {True: _simple(UNCASED_WORD), False: _simple(CASED_WORD)}


def normalize(strings: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """Prepare strings `[B]` so that `FastWordpieceTokenizer` splits them as Google's BERT does.

    Bytes that are not UTF-8 are dropped. No word of the result has more than 200 characters.
    """
    # ASCII first for all rows: the Unicode lower-casing then cannot depend on the process's locale
    # (Turkish I), and is not needed for rows of ASCII alone.
    lowered = tf.strings.lower(strings) if lowercase else strings
    simple = tf.strings.regex_full_match(lowered, _SIMPLE[lowercase])
    return apply_where(~simple, lambda rows: _normalize_any(rows, lowercase), lowered)


def _normalize_any(strings: tf.Tensor, lowercase: bool) -> tf.Tensor:
    invalid = ~tf.strings.regex_full_match(strings, _VALID)
    strings = apply_where(invalid, drop_invalid, strings)
    strings = tf.strings.regex_replace(strings, f"[{DROPPED}]+", "")
    if lowercase:
        strings = tf.strings.lower(strings, encoding="utf-8")
        strings = tf_text.normalize_utf8(strings, "NFD")
        strings = tf.strings.regex_replace(strings, _ACCENTS, "")
    # A long run is not always a long word: it may hold punctuation or ideographs.
    replaced = tf.strings.regex_replace(strings, _LONG, _LONG_WORD)
    return apply_where(replaced != strings, _replace_long_words, strings)


def _replace_long_words(strings: tf.Tensor) -> tf.Tensor:
    apart = tf.strings.regex_replace(strings, rf"[{_PUNCTUATION}{IDEOGRAPHS}]", r" \0 ")
    return tf.strings.regex_replace(apart, _LONG, _LONG_WORD)

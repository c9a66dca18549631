"""BERT's WordPiece: text cleaning in the TensorFlow graph, vocabularies, and the tokenizer.

A vocabulary is a list of tokens whose index is the id; its file holds one token per line. Pieces
that continue a word begin with `##`.

Cleaning is equal to the reference code's, `BasicTokenizer` and `WordpieceTokenizer` of
google-research/bert (tokenization.py). In this order, it drops invalid UTF-8, U+FFFD and characters
of category Cc and Cf, except tab, newline and carriage return; makes every CJK ideograph a word;
splits at white space; for uncased models lower-cases each word, decomposes it (NFD) and drops
category Mn; splits off punctuation (category P and all ASCII symbols); and maps a word of more than
200 characters to [UNK]. White space, punctuation and ideographs are left to
`FastWordpieceTokenizer`, whose sets are the same; the rest is done here.

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

import functools
import os
import re
import string
from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.files import write_text
from tfnlp.text.assets import make_assets
from tfnlp.text.base_tokenizers import PieceTokenizer
from tfnlp.text.lines import checked_entries, read_lines
from tfnlp.text.strings import apply_where, drop_invalid, tf_text

MAX_WORD_CHARS = 200
# Stands for a word that is too long. A noncharacter: it occurs in no text and no vocabulary.
_LONG_WORD = "\U0010ffff"

# --- Rows that need no cleaning -------------------------------------------------------------
# Characters that are split off or dropped as white space by the tokenizer in any case: ASCII
# white space and punctuation, dashes and quotes, ideographs with their punctuation.
_OTHER_SPLITTING = (
    r"\x{2010}-\x{2027}\x{3001}-\x{3003}\x{3008}-\x{3011}\x{4E00}-\x{9FFF}"
    r"\x{FF01}\x{FF08}\x{FF09}\x{FF0C}\x{FF1A}\x{FF1B}\x{FF1F}"
)
SPLITTING = r" \t\n\r!-/:-@\[-`{-~" + _OTHER_SPLITTING
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

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS
CONTINUATION = "##"
MAX_TOKEN_BYTES = 256  # of a token without its `##`: the limit of tensorflow_text's trie
VOCABULARY_FILE = "vocab.txt"
_MAX_UTF8_BYTES = 4


def simple(word: str, longest: int = MAX_WORD_CHARS, without: Collection[str] = ()) -> str:
    """Return a pattern of text of `SPLITTING` and at most `longest` `word` characters in a row.

    `without` is punctuation of ASCII that the text does not have. The classes are disjoint, so the
    automaton is deterministic: linear in time and in states.
    """
    run = rf"[{word}]{{0,{longest}}}"
    splitting = SPLITTING
    if without:
        marks = re.escape("".join(char for char in string.punctuation if char not in without))
        splitting = rf" \t\n\r{marks}{_OTHER_SPLITTING}"
    return rf"(?:{run}[{splitting}])*{run}"


_SIMPLE = {True: simple(UNCASED_WORD), False: simple(CASED_WORD)}


def normalize(strings: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """Prepare strings `[B]` so that `FastWordpieceTokenizer` splits them as Google's BERT does.

    Bytes that are not UTF-8 are dropped. No word of the result has more than 200 characters.
    """
    # ASCII first for all rows: the Unicode lower-casing then cannot depend on the process's locale
    # (Turkish I), and is not needed for rows of ASCII alone.
    lowered = tf.strings.lower(strings) if lowercase else strings
    clean = tf.strings.regex_full_match(lowered, _SIMPLE[lowercase])
    return apply_where(~clean, lambda rows: _normalize_any(rows, lowercase), lowered)


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


def token_bytes(token: str) -> int:
    """Return how many bytes a token has without its `##`."""
    return len(token.removeprefix(CONTINUATION).encode())


def check_vocabulary(tokens: Sequence[str], source: str) -> list[str]:
    """Return `tokens` as a list."""
    tokens = checked_entries(tokens, source, "token", SPECIAL_TOKENS)
    for index, token in enumerate(tokens):
        if token_bytes(token) > MAX_TOKEN_BYTES:
            raise ValueError(
                f"{source} has a token of {token_bytes(token)} bytes as token {index} (line "
                f"{index + 1}); at most {MAX_TOKEN_BYTES} are possible"
            )
    return tokens


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """Read a vocabulary file: UTF-8, one token per line, the line number is the id.

    Both line endings are accepted, and so is a missing last one.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, binary or not UTF-8, has blank lines, duplicates or tokens
            of more than 256 bytes, or lacks one of `SPECIAL_TOKENS`.
    """
    return check_vocabulary(read_lines(path, "vocabulary file"), f"vocabulary file {path}")


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Write a vocabulary file, whole or not at all (see `tfnlp.files.written_whole`).

    Raises:
        ValueError: `tokens` is not a usable vocabulary (see `read_vocabulary`).
    """
    path = os.fspath(path)
    tokens = check_vocabulary(tokens, f"the vocabulary to be written to {path}")
    write_text(path, "\n".join(tokens) + "\n")


class WordPieceTokenizer(PieceTokenizer):
    """Tokenizer of BERT: strings to WordPiece ids and back.

    Equal to `FullTokenizer` of google-research/bert. Hugging Face's tokenizers differ for private
    use and unassigned characters (categories Co and Cn), which are kept here: such a word is [UNK].

    Text is cleaned and split (`tfnlp.text.wordpiece` says how, and which characters newer than
    Unicode 13 can differ); each word is cut from the left into the longest pieces in the
    vocabulary, those after the first prefixed with `##`. A word that cannot be cut so, or of more
    than 200 characters, becomes one [UNK]. Special tokens written in the text are plain text, but
    for `marks`.

    Loading a SavedModel with one needs `import tensorflow_text`.

    Args:
        vocabulary: path of a vocabulary file (one token per line), or the list of tokens.
        lowercase: lower-case and strip accents, for the uncased models.
        marks: tokens that are read as such where the text has them written.

    Attributes:
        vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: Python ints.
        lowercase: as given.
        mask_token: "[MASK]".
        separators: 1, how many [SEP] stand between two segments.
        word_style: "bert", see `tfnlp.text.words.words_with_offsets`.
        keeps_spaces: False, no token holds the space before a word.
        is_continuation: bool `[vocab_size]`, True for `##` pieces.
        vocabulary_asset: the vocabulary file as a `tf.saved_model.Asset`.

    Raises:
        ValueError, FileNotFoundError: as `read_vocabulary`; also if there is no token that a word
            could be cut into.
    """

    mask_token, separators, word_style, keeps_spaces = MASK, 1, "bert", False

    def __init__(
        self,
        vocabulary: str | os.PathLike | Sequence[str],
        lowercase: bool = True,
        marks: Sequence[str] = (),
    ) -> None:
        super().__init__()
        source = "vocabulary"
        if isinstance(vocabulary, str | os.PathLike):
            source = f"vocabulary file {os.fspath(vocabulary)}"
            tokens = read_vocabulary(vocabulary)
        else:
            tokens = check_vocabulary(vocabulary, source)
        self.lowercase = bool(lowercase)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            tokens.index(token) for token in (PAD, UNK, CLS, SEP, MASK)
        )
        try:
            with tf.init_scope(), tf.device("CPU:0"):
                self._wordpiece = fast_wordpiece(tuple(tokens))
        except RuntimeError as error:
            raise ValueError(
                f"{source} makes no tokenizer ({error}); it needs tokens besides the special ones"
            ) from error
        self._set_marks(marks, tokens)
        self._set_pieces(tokens, list(map(_as_text, tokens)), list(map(_continues, tokens)))
        (self.vocabulary_asset,) = make_assets([VOCABULARY_FILE], self.write)

    def write(self, folder: str | os.PathLike) -> None:
        """Write `vocab.txt` into a folder."""
        write_vocabulary(os.path.join(folder, VOCABULARY_FILE), self.vocabulary)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._wordpiece.tokenize(normalize(strings, self.lowercase))


@functools.lru_cache(maxsize=4)  # a run reads its vocabulary more than once
def fast_wordpiece(tokens: tuple[str, ...], unknown: str = UNK) -> Any:
    """Return TensorFlow Text's tokenizer; a RuntimeError if it can't be made of the tokens."""
    return tf_text.FastWordpieceTokenizer(
        tokens,
        suffix_indicator=CONTINUATION,
        max_bytes_per_word=MAX_WORD_CHARS * _MAX_UTF8_BYTES,
        unknown_token=unknown,
        token_out_type=tf.int32,
    )


def _continues(token: str) -> bool:
    return token.startswith(CONTINUATION) and token != CONTINUATION


def _as_text(token: str) -> str:
    """Return what a piece adds to a string: that of a word includes the space before it."""
    if token in (PAD, CLS, SEP):
        return ""
    return token.removeprefix(CONTINUATION) if _continues(token) else f" {token}"

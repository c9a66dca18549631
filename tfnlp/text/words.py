"""Whole words: vocabularies, look-up in the graph, and splitting of text into words.

Vocabularies are for language models with one output a word. The file format is bilm-tf's: UTF-8,
one word a line, the line number is the id. The special words `<S>`, `</S>` and `<UNK>` are among
them, and frequent words come first, as a sampled softmax with a log-uniform sampler requires.
"""

import collections
import functools
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tfnlp.files import write_text
from tfnlp.text.assets import line_number_table, lines_asset
from tfnlp.text.characters import BEGIN_OF_SENTENCE, END_OF_SENTENCE, UNKNOWN
from tfnlp.text.lines import checked_entries, checked_texts, read_lines
from tfnlp.text.strings import tf_text
from tfnlp.text.wordpiece import DROPPED, IDEOGRAPHS

SPECIAL_WORDS = (BEGIN_OF_SENTENCE, END_OF_SENTENCE, UNKNOWN)

# Format characters stand inside words (ZWJ, ZWNJ, the soft hyphen), but for a space of no width.
_JOINERS = (
    "\u00ad\u061c\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0020-\U000e007f"
)
_SPACES = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # `str.split`
_NO_WIDTH = "\u200b"
SPACES, MARKS = "spaces", "marks"  # styles of `words_with_offsets` and `word_places`

_NOT_A_WORD = "!!!MAXTERMID"  # last line of the published file; bilm-tf skips it, too
UNKNOWN_WORD, FIRST_WORD = 1, 2
_WHITE = r"[\s\p{Z}\p{C}]+"
_MARK = r"[\p{P}\p{S}]|\p{Han}"


def split_words(text: str) -> str:
    """Return `text` with spaces between words and punctuation, so that `str.split` gives words.

    English roughly as in the Penn Treebank: "didn't" -> "did n't", "Mary's" -> "Mary 's",
    hyphenated words stay whole. For text that is not tokenized yet: without it "hard." is another
    word than "hard". Combining marks, ZWJ and ZWNJ stay inside their words.
    """
    return " ".join(_patterns(text.isascii())["treebank"].findall(text))


def word_places(text: str, style: str) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end, in characters.

    `style` is "spaces" or "marks", see `words_with_offsets`, which finds the same words.
    """
    style, *whole = style.split(" ")
    pattern, places, start = _patterns(text.isascii())[style], [], 0
    for mark in re.finditer(_any_of(whole), text) if whole else ():
        places += [match.span() for match in pattern.finditer(text, start, mark.start())]
        places.append(mark.span())
        start = mark.end()
    return places + [match.span() for match in pattern.finditer(text, start)]


def with_whole(style: str, marks: Iterable[str]) -> str:
    """Return the style that keeps marks whole, but for those with white space."""
    return " ".join([style, *(mark for mark in marks if len(mark.split()) == 1)])


def is_splitter(style: object) -> bool:
    """Return whether `word_places` has a style."""
    return style == SPACES or isinstance(style, str) and style.split(" ")[0] == MARKS


def words_of_texts(style: str) -> str | None:
    """Return what the words of texts match, for the regex of `tokenizers`; None: spaces part."""
    style, *whole = style.split(" ")
    return "|".join([_any_of(whole)] * bool(whole) + [_WORDS_AND_MARKS]) if style == MARKS else None


def _any_of(marks: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(marks, key=len, reverse=True)))


@functools.cache
def _patterns(ascii_text: bool) -> dict[str, re.Pattern[str]]:
    """Return for each style what its words match, of texts of ASCII alone or of any."""
    inside = ""
    if not ascii_text:  # Python's \w has no marks
        places = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
        marks = [i for i in places if unicodedata.category(chr(i)).startswith("M")]
        runs = sorted({*marks} - {i + 1 for i in marks}), sorted({*marks} - {i - 1 for i in marks})
        inside = "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(*runs, strict=True)) + _JOINERS
    word = rf"[\w{inside}]+"
    mark = _mark(rf"\w{inside}\s", inside)
    # In this order: a verb before its n't, the n't, the endings after an apostrophe, words with
    # hyphens or with dots or commas between digits, single marks.
    treebank = (
        rf"{word}?(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)+|{word}(?:-{word})*"
        rf"|{mark}"
    )
    return {
        SPACES: re.compile(r"\S+"),
        MARKS: re.compile(word + "|" + _mark(rf"\w{inside}\s{_NO_WIDTH}", inside)),
        "treebank": re.compile(treebank, re.IGNORECASE),
    }


def _mark(others: str, inside: str) -> str:
    """Return the pattern of a character that is no word's, with the marks and joiners on it."""
    if not inside:
        return f"[^{others}]"
    return f"[^{others}](?:\u200d[^{others}]|[{inside}])*"


def train_words(
    sentences: Iterable[str], max_size: int | None = None, min_count: int = 1
) -> list[str]:
    """Return the words of `sentences` by falling frequency, equally frequent ones by code point.

    Args:
        sentences: strings of words with whitespace between, read once.
        max_size: the largest number of words to return, the three special ones included.
        min_count: words seen fewer times are left out.

    Returns:
        `<S>`, `</S>`, `<UNK>`, then the words.

    Raises:
        ValueError: `sentences` is a single string, holds something else than strings or no words,
            max_size < 4, or no word is left.
    """
    if max_size is not None and max_size <= len(SPECIAL_WORDS):
        raise ValueError(
            f"max_size must be {len(SPECIAL_WORDS) + 1} or more, since it includes "
            f"{', '.join(SPECIAL_WORDS)}; got {max_size}"
        )
    words = by_frequency(sentences, min_count, SPECIAL_WORDS)
    return [*SPECIAL_WORDS, *words][:max_size]


def by_frequency(
    sentences: Iterable[str], min_count: int, without: Sequence[str] = ()
) -> list[str]:
    """Return the words that occur `min_count` times by falling frequency, ties by code point."""
    counts = collections.Counter()
    for sentence in checked_texts(sentences, "sentences"):
        counts.update(sentence.split())
    for word in without:
        counts.pop(word, None)
    if not counts:
        raise ValueError("sentences hold no words to make a vocabulary of; give more text")
    words = [word for word, count in counts.items() if count >= min_count]
    if not words:
        raise ValueError(
            f"no word occurs min_count={min_count} times, the most frequent one "
            f"{max(counts.values())} times; lower min_count"
        )
    return sorted(words, key=lambda word: (-counts[word], word))


def check_words(words: Sequence[str], source: str) -> list[str]:
    """Return `words` as a list."""
    return checked_entries(words, source, "word", SPECIAL_WORDS)


def read_words(path: str | os.PathLike) -> list[str]:
    """Read a vocabulary of words: UTF-8, one word per line, the line number is the id.

    Both line endings are accepted, and so is a missing last one. A last line `!!!MAXTERMID`, which
    the published vocabulary has, is not a word.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, binary or not UTF-8, has blank lines or duplicates, or lacks
            one of `SPECIAL_WORDS`.
    """
    lines = read_lines(path, "vocabulary file")
    if lines[-1:] == [_NOT_A_WORD]:
        del lines[-1]
    return check_words(lines, f"vocabulary file {path}")


def write_words(path: str | os.PathLike, words: Sequence[str]) -> None:
    """Write a vocabulary of words, whole or not at all (see `tfnlp.files.written_whole`).

    Raises:
        ValueError: `words` is not a usable vocabulary (see `read_words`).
    """
    path = os.fspath(path)
    words = check_words(words, f"the vocabulary to be written to {path}")
    write_text(path, "\n".join(words) + "\n")


class WordIndex(tf.__internal__.tracking.AutoTrackable):
    """Ids of words: 0 for the empty word, 1 for one that is not in the list, then the list's.

    The list travels as an asset of a SavedModel.

    Args:
        words: distinct, without line breaks, in lower case: words are lower-cased to be looked up.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self.size = FIRST_WORD + len(words)
        # A table can't be made from an empty file. No word in lower case equals the first line.
        self.asset = lines_asset("words.txt", ["UNKNOWN", *words])
        self._table = line_number_table(self.asset, default_value=0)

    def ids(self, words: tf.Tensor) -> tf.Tensor:
        """Return the ids of strings of any shape, int32 of that shape."""
        found = self._table.lookup(tf.strings.lower(words, encoding="utf-8")) + UNKNOWN_WORD
        return tf.cast(tf.where(words == "", tf.zeros_like(found), found), tf.int32)


class _Style(NamedTuple):
    """Patterns of RE2, which has no look-ahead."""

    white: str  # what separates words
    kept: str = ""  # what separates words and is a word itself
    dropped: str = ""  # characters of which alone no word consists


_INSIDE = rf"\p{{M}}{_JOINERS}"
_WORD = rf"[\p{{L}}\p{{N}}_{_INSIDE}]"
_APART = _mark(rf"\p{{L}}\p{{N}}_{_INSIDE}{_SPACES}{_NO_WIDTH}", _INSIDE)
_WORDS_AND_MARKS = f"{_WORD}+|{_APART}"  # the words of "marks"
_STYLES = {
    SPACES: _Style(f"[{_SPACES}]+"),
    MARKS: _Style(f"[{_SPACES}{_NO_WIDTH}]+", _APART),
    # As the tokenizer does it: what it drops splits no word, accents stay with the mark before
    # them. Symbols other than those of ASCII are parts of words.
    "bert": _Style(
        r"[ \t\n\r\p{Z}]+", rf"[!-/:-@\[-`{{-~\pP{IDEOGRAPHS}][\p{{Mn}}{DROPPED}]*", DROPPED
    ),
    "gpt": _Style(_WHITE, rf"'(?:s|t|re|ve|m|ll|d)|{_MARK}"),
    "treebank": _Style(
        rf"[{_SPACES}{_NO_WIDTH}\p{{Cc}}\p{{Co}}]+",
        "|".join(
            (
                r"(?i:n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)",
                r"\d+(?:[.,]\d+)+",
                rf"{_WORD}+(?:-{_WORD}+)+",
                rf"{_WORD}*[\p{{L}}_]\p{{N}}{_WORD}*",  # or else v2.0 is split
                # All marks but the underscore.
                r"[\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{S}‿⁀⁔︳︴﹍-﹏＿]|\p{Han}",
            )
        ),
    ),
}


def characters(texts: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return places in texts `[B]`, int `[B, T]` of bytes, in characters, int32; -1 stays so."""
    _, known = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")  # [B, (C)]
    first = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64) + 1, exclusive=True)  # [B]
    wanted = tf.cast(places, tf.int64) + first[:, None]
    found = tf.searchsorted(
        known.values + tf.gather(first, known.value_rowids()), tf.reshape(wanted, [-1])
    )
    found = tf.reshape(found, tf.shape(places)) - tf.cast(known.row_starts(), tf.int32)[:, None]
    return tf.where(places < 0, -1, found)


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
            such as 1,000.5 whole; ideographs are apart, and control characters part words and are
            none. "spaces": nowhere else, as `str.split`. "marks": around every character that is no
            letter, digit or underscore. Of "treebank" and "marks" combining marks and format
            characters, such as ZWJ and ZWNJ, stay inside their words. After a style and spaces
            follow marks that are words of their own wherever they stand: "marks [E1] [/E1]".

    Returns:
        words, strings ragged `[B, (W)]`; starts and ends, int64 ragged `[B, (W)]`.
    """
    style, *whole = style.split(" ")
    white, kept, dropped = _STYLES[style]
    if whole:
        kept = "|".join(filter(None, (_any_of(whole), kept)))
    # The splitter ends a text at a zero byte; another control character gives the same words.
    plain = tf.strings.regex_replace(texts, r"\x{0}", "\x01")
    parts = "|".join(filter(None, (white, kept)))
    words, starts, ends = tf_text.regex_split_with_offsets(plain, parts, kept)
    cut = tf.strings.substr(
        tf.gather(texts, words.value_rowids()), starts.values, ends.values - starts.values
    )
    found = [words.with_values(cut), starts, ends]
    if dropped:
        real = words.with_values(~tf.strings.regex_full_match(cut, f"[{dropped}]*"))
        found = [tf.ragged.boolean_mask(part, real) for part in found]
    return tuple(found)

"""Text to documents, which are lists of sentences.

Three layouts of plain text are known:

* "lines": one sentence per line, a blank line between documents. It is the input format of the
  reference BERT code (`create_pretraining_data.py`).
* "words": one word per line, a blank line between sentences, and between documents two or more or
  a line that begins with `-DOCSTART-`. It is the layout of tagged corpora without their tags. Words
  and sentences are taken as they are.
* "prose": any running text. Blank lines end paragraphs, two or more blank lines in a row end a
  document (such as a chapter), the lines of a paragraph are joined, and `sentencex`, Wikimedia's
  rule-based segmenter, finds the sentences. Headings in the style of WikiText are left out, as BERT
  left out headers (Devlin et al. 2018, section 3.1). A top-level heading (`= Title =`) starts a new
  document; after the first one, blank lines do not end documents any more.

In each of them the mark `<|endoftext|>` ends a document, wherever it stands.
"""

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import sentencex

from tfnlp.text.base_tokenizers import END_OF_TEXT

# Sentence-final punctuation, then at most closing quotes and brackets.
_FINAL = re.compile(r"""[.!?…。！？]["'”’»)\]}*_]*$""")
# The markers of a WikiText heading, whose number is its level: "= Title =", "= = Section = =".
_HEADING = re.compile(r"(=(?: =)*) \S.* \1")
# What begins a document in the files of the CoNLL 2003 shared task.
_DOCUMENT_START = "-DOCSTART-"
# Wrapped lines are shorter than this, so a longer line is a whole paragraph.
_WRAP_COLUMN = 120
_STRING = (
    "{} a string, but a document is a list of sentences: pass [[sentence, ...], ...], or "
    "tfnlp.data.documents_of(texts), which splits texts into sentences"
)


LAYOUTS = ("auto", "lines", "prose", "words")


class Continued(list):
    """Sentences that go on the document before: a piece of a long document, but for the first."""


def check_layout(layout: str) -> None:
    """Raise a ValueError for an unknown layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")


def documents_between_marks(
    lines: Iterable[str], layout: str, paragraphs: bool = False, longest: int = sys.maxsize
) -> Iterator[list[str]]:
    """Yield the documents of lines in a layout, "auto" for prose; marks end documents.

    Those without sentences are left out. Longer ones than `longest` are cut into pieces of so many
    sentences, of which all but the first are `Continued`. Of prose, `paragraphs` are whole ones
    instead of sentences.
    """
    for text in _between_marks(lines):
        document = []
        for sentence in itertools.chain(_sentences(text, layout, paragraphs), [None]):
            if document and (sentence is None or len(document) >= longest):
                yield document
                document = [] if sentence is None else Continued()
            if sentence is not None:
                document.append(sentence)


def one_document(
    lines: Iterable[str], layout: str, paragraphs: bool = False
) -> Iterator[list[str]]:
    """Yield the document of a text, which may have blank lines; several if marks are in it."""
    for text in _between_marks(lines):
        document = [s for s in _sentences(text, layout, paragraphs) if s is not None]
        if document:
            yield document


def _sentences(lines: Iterable[str], layout: str, paragraphs: bool) -> Iterator[str | None]:
    """Yield the sentences of a text in a layout, and None where a document ends."""
    if layout == "lines":
        for line in lines:
            yield " ".join(line.split()) or None
    elif layout == "words":
        yield from _sentences_of_words(lines)
    else:
        for chapter_ends, paragraph in _paragraphs(lines):
            if not paragraphs:
                yield from split_sentences(paragraph)
            elif paragraph.strip():
                yield " ".join(paragraph.split())
            if chapter_ends:
                yield None


def _between_marks(lines: Iterable[str]) -> Iterator[Iterator[str]]:
    """Yield the lines of each text between two marks; each must be read before the next one."""
    parts = (part for line in lines for part in _between(line))
    groups = itertools.groupby(parts, key=lambda part: part is None)
    return (text for is_mark, text in groups if not is_mark)


def _between(line: str) -> Iterator[str | None]:
    """Yield the parts of a line, None for each mark between them."""
    for number, part in enumerate(line.split(END_OF_TEXT)):
        if number:
            yield None
        yield part


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Return the sentences of one paragraph, with one space for each run of whitespace.

    Speech within quotation marks stays one sentence. The language is the ISO code of one that
    `sentencex` knows.
    """
    # Before segmentation, since sentencex fails on some kinds of spaces.
    text = " ".join(paragraph.split())
    if not text:
        return []
    return [sentence.strip() for sentence in sentencex.segment(language, text)]


def looks_like_sentences(lines: Sequence[str]) -> bool:
    """Return whether a sample of lines has the layout "lines" rather than "prose".

    Three conditions must hold: more than 60 % of the non-blank lines end as sentences end
    (wrapped lines do not), the segmenter finds fewer than 1.5 sentences per line (whole paragraphs
    have more), and blank lines separate groups of 1.5 lines or more on average (in a dialogue they
    come after every line). 2,000 lines are enough.
    """
    lines = [" ".join(line.split()) for line in lines]
    written = [line for line in lines if line]
    if not written:
        return False
    groups = sum(filled for filled, _ in itertools.groupby(lines, key=bool))
    ended = sum(bool(_FINAL.search(line)) for line in written)
    sentences = sum(len(split_sentences(line)) for line in written)
    return (
        ended > 0.6 * len(written)
        and sentences < 1.5 * len(written)
        and len(written) >= 1.5 * groups
    )


def looks_like_words(lines: Sequence[str]) -> bool:
    """Return whether a sample of lines has the layout "words".

    Three conditions must hold: more than 95 % of the non-blank lines have a single word, fewer than
    half of them end as sentences end (as sentences of one word would), and blank lines separate
    groups of 2 lines or more on average (a list of words has no blank lines).
    """
    lines = [line.split() for line in lines]
    written = [line for line in lines if line]
    groups = sum(filled for filled, _ in itertools.groupby(lines, key=bool))
    single = sum(len(line) == 1 for line in written)
    ended = sum(bool(_FINAL.search(line[-1])) for line in written)
    return (
        groups > 1
        and single > 0.95 * len(written)
        and ended < 0.5 * len(written)
        and len(written) >= 2 * groups
    )


def _sentences_of_words(lines: Iterable[str]) -> Iterator[str | None]:
    """Yield the sentences of a text with a word a line, and None where a document ends."""
    sentence, blanks = [], 0
    for line in itertools.chain(lines, [""]):
        words = line.split()
        blanks = 0 if words else blanks + 1
        starts = bool(words) and words[0] == _DOCUMENT_START
        if (starts or blanks) and sentence:
            yield " ".join(sentence)
            sentence = []
        if starts or blanks > 1:
            yield None
        if not starts:
            sentence += words


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Yield for each paragraph (whether the document ends with it, its text, possibly empty)."""
    paragraph = []  # its lines so far
    blanks = 0
    titled = False  # in a text with titles, only those end documents
    for line in lines:
        line = line.strip()
        heading = _HEADING.fullmatch(line)
        if heading:
            title = heading[1] == "="
            titled |= title
            yield title, " ".join(paragraph)
            paragraph = []
        elif len(line) > _WRAP_COLUMN:
            yield False, " ".join(paragraph)
            yield False, line
            paragraph = []
        elif line:
            paragraph.append(line)
        else:
            yield blanks > 0 and not titled, " ".join(paragraph)
            paragraph = []
        blanks = 0 if line else blanks + 1
    yield True, " ".join(paragraph)


def checked_documents(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the documents; each must be a list of sentences, as a string is one of letters."""
    if isinstance(documents, (str, bytes)):
        raise ValueError(_STRING.format("documents is"))
    for number, document in enumerate(documents):
        if isinstance(document, (str, bytes)):
            raise ValueError(_STRING.format(f"documents[{number}] is"))
        yield document

"""Raw prose to documents of sentences.

A document is a `list[str]` of sentences. Three layouts of plain text are understood:

* "lines": one sentence a line, a blank line between documents. It is the input format of the
  reference BERT code (`create_pretraining_data.py`).
* "words": one word a line, a blank line between sentences, two or more between documents, or a
  line that begins with `-DOCSTART-`. It is the layout of tagged corpora without their tags; what
  is a word has been decided, and no sentence is cut or joined.
* "prose": anything people wrote for people. Blank lines end paragraphs, two or more blank lines in
  a row end a document (the gap between chapters), lines broken by hand are joined again, and the
  sentences are found by `sentencex`, Wikimedia's rule-based segmenter. Headings in the style of
  WikiText are left out, as BERT left out headers (Devlin et al. 2018, section 3.1); a top-level
  one (`= Title =`) starts a new document, and from there on blank lines no longer end any.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencex

# Sentence-final punctuation, then at most closing quotes and brackets.
_FINAL = re.compile(r"""[.!?…。！？]["'”’»)\]}*_]*$""")
# The markers of a WikiText heading, whose number is its level: "= Title =", "= = Section = =".
_HEADING = re.compile(r"(=(?: =)*) \S.* \1")
# What begins a document in the files of the CoNLL 2003 shared task.
_DOCUMENT_START = "-DOCSTART-"
# Nobody breaks lines by hand beyond this column, so a longer line is a paragraph of its own.
_WRAP_COLUMN = 120


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """The sentences of one paragraph, with every run of whitespace collapsed to one space.

    Speech within quotation marks stays one sentence. The result is empty for a blank paragraph.

    Args:
        paragraph: text; line breaks within it count as spaces.
        language: ISO code of one of the languages that `sentencex` knows.
    """
    # Collapsing comes first: sentencex slices bytes beside spaces and panics on exotic ones.
    text = " ".join(paragraph.split())
    if not text:
        return []
    return [sentence.strip() for sentence in sentencex.segment(language, text)]


def looks_like_sentences(lines: Sequence[str]) -> bool:
    """True if a sample of lines is in layout "lines" rather than "prose".

    That takes three signs together: more than 60 % of the non-blank lines end as sentences end
    (lines broken by hand do not), the segmenter finds fewer than 1.5 sentences a line (whole
    paragraphs hold more), and blank lines stand between groups of lines, 1.5 or more on average,
    not after every line (which a page of dialogue would show).

    Args:
        lines: the first lines of a text, blank ones included. 2,000 are plenty.
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
    """True if a sample of lines is in layout "words".

    That takes three signs together: more than 95 % of the non-blank lines hold a single word, fewer
    than half of them end as sentences end (one-word sentences would), and blank lines stand between
    groups of lines, 2 or more on average (a list of words has none).

    Args:
        lines: the first lines of a text, blank ones included. 2,000 are plenty.
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


def documents_from_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a text in layout "lines"; documents without sentences are skipped."""
    document = []
    for line in lines:
        sentence = " ".join(line.split())
        if sentence:
            document.append(sentence)
        elif document:
            yield document
            document = []
    if document:
        yield document


def documents_from_words(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a text in layout "words"; documents without sentences are skipped.

    The words of a sentence are joined by single spaces. A line with several words gives them all.
    """
    document, sentence = [], []
    blanks = 0
    for line in lines:
        words = line.split()
        blanks = 0 if words else blanks + 1
        starts = bool(words) and words[0] == _DOCUMENT_START
        if (starts or blanks) and sentence:
            document.append(" ".join(sentence))
            sentence = []
        if (starts or blanks > 1) and document:
            yield document
            document = []
        if not starts:
            sentence.extend(words)
    if sentence:
        document.append(" ".join(sentence))
    if document:
        yield document


def documents_from_prose(lines: Iterable[str], paragraphs: bool = False) -> Iterator[list[str]]:
    """Documents of a text in layout "prose"; documents without sentences are skipped.

    Args:
        lines: of the text.
        paragraphs: give whole paragraphs in place of sentences, each with its whitespace collapsed.
    """
    document = []
    for chapter_ends, paragraph in _paragraphs(lines):
        if paragraphs:
            document.extend([" ".join(paragraph.split())] if paragraph.strip() else [])
        else:
            document.extend(split_sentences(paragraph))
        if chapter_ends and document:
            yield document
            document = []
    if document:
        yield document


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """(does the document end here?, text of the paragraph, possibly empty) of prose."""
    paragraph = []  # the broken lines of the paragraph so far
    blanks = 0
    titled = False  # in a text with titles they alone end documents
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

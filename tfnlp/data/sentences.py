"""Raw prose to documents of sentences.

A document is a `list[str]` of sentences. Two layouts of plain text are understood:

* "lines": one sentence a line, a blank line between documents. It is the input format of the
  reference BERT code (`create_pretraining_data.py`).
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


def documents_from_prose(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a text in layout "prose"; documents without sentences are skipped."""
    document = []
    for chapter_ends, paragraph in _paragraphs(lines):
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

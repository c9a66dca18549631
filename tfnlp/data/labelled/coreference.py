"""Documents with clusters of mentions that name the same thing (coreference)."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tfnlp.data.labelled.forms import Record, RowForm
from tfnlp.data.labelled.rows import BadRow, TaskData, checked_text, file_kind, file_lines, gather
from tfnlp.data.labelled.tables import PARQUET, Reading, Table

Span = tuple[int, int]  # where a mention begins and ends, the end exclusive
Clusters = tuple[tuple[Span, ...], ...]

_WORD = 3  # its column in CoNLL-2012
_MARKS = re.compile(r"(\()?(\d+)(\))?")


@dataclass(frozen=True, slots=True)
class CorefDocument:
    """A document and its clusters.

    Attributes:
        text: of a document of words, these with spaces between.
        clusters: spans of characters, of a document of words of words; None: not known.
        words: the words, or None of a document that was given as a text.
    """

    text: str
    clusters: Clusters | None
    words: tuple[str, ...] | None = None

    def characters(self, clusters: Clusters) -> Clusters:
        """Return clusters of spans of the document's own kind as spans of characters."""
        if self.words is None:
            return clusters
        places = self.places()
        return tuple(
            tuple((places[first][0], places[end - 1][1]) for first, end in cluster)
            for cluster in clusters
        )

    def places(self) -> list[Span]:
        """Return where the words of a document of words stand in its text."""
        ends = itertools.accumulate(len(word) + 1 for word in self.words or ())
        return [
            (end - 1 - len(word), end - 1) for end, word in zip(ends, self.words or (), strict=True)
        ]


class CorefRows(RowForm):
    """A document, as a text or as words, and its clusters of mentions.

    `.conll` is CoNLL-2012: the fourth column the word, the last one where mentions of numbered
    clusters begin and end, `(0`, `0)` or `(0)`; a document is what stands between `#begin document`
    and `#end document`. `.jsonl` has `text` and `clusters`, a list of lists of `[start, end]` in
    characters, the end exclusive; or `words` and the same in words; or `sentences`, lists of words,
    and clusters whose ends are inclusive, as the files of Lee et al. 2017 have them.
    """

    expected: ClassVar[str] = "(text or [word, ...], [[(start, end), ...], ...])"
    fields: ClassVar[tuple[str, ...]] = ("text", "clusters")
    example: ClassVar[type] = CorefDocument
    label: ClassVar[str] = "clusters"
    has_class_names: ClassVar[bool] = False
    has_columns: ClassVar[bool] = False

    def of_file(self, path: str, how: Reading) -> TaskData:
        if file_kind(path) in (".json", ".jsonl", PARQUET):
            return super().of_file(path, how)
        return self.of_table(Table(path, None, _documents(path)), how)

    def fields_of(self, row: object, labelled: bool) -> Record:
        if isinstance(row, list) and not labelled and all(isinstance(x, str) for x in row):
            return {"words": row}
        return super().fields_of(row, labelled)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        return gather(table.source, table.rows, lambda row: _document(row, how.labelled), how.skip)


def _document(row: dict, labelled: bool) -> CorefDocument:
    text = row.get("text")
    if isinstance(text, list):
        row, text = {"words": text, "clusters": row.get("clusters")}, None
    words, inclusive = row.get("words"), False
    if words is None and isinstance(row.get("sentences"), list):
        words, inclusive = list(itertools.chain.from_iterable(row["sentences"])), True
    if words is None:
        text = checked_text(text, "its text", not labelled)
    elif not isinstance(words, list) or not all(isinstance(w, str) and w.strip() for w in words):
        raise BadRow(f"words must be a list of words; got {words!r:.60}")
    else:
        text = checked_text(" ".join(words), "the text of its words")
    clusters = row.get("clusters")
    if clusters is None and not labelled:
        return CorefDocument(text, None, None if words is None else tuple(words))
    length = len(text) if words is None else len(words)
    found = _clusters(clusters, length, inclusive)
    return CorefDocument(text, found, None if words is None else tuple(words))


def _clusters(clusters: object, length: int, inclusive: bool) -> Clusters:
    """Return clusters after a check of their spans, which are in a document of this length."""
    if not isinstance(clusters, list | tuple):
        raise BadRow(f"clusters must be a list of lists of [start, end]; got {clusters!r:.60}")
    seen: set[Span] = set()
    found = []
    for cluster in clusters:
        if not isinstance(cluster, list | tuple) or not cluster:
            raise BadRow(f"a cluster must be a list of [start, end]; got {cluster!r:.60}")
        spans = []
        for span in cluster:
            whole = isinstance(span, list | tuple) and [type(x) for x in span] == [int, int]
            start, end = span if whole else (0, 0)
            end += whole and inclusive
            if not 0 <= start < end <= length:
                raise BadRow(f"{span!r:.60} is no [start, end] within 0 and {length}")
            if (start, end) in seen:
                raise BadRow(f"the mention {span!r:.60} is there twice")
            seen.add((start, end))
            spans.append((start, end))
        found.append(tuple(sorted(spans)))
    return tuple(sorted(found))


def _documents(path: str) -> Iterator[tuple[str, dict | BadRow]]:
    """Yield the documents of a CoNLL-2012 file as rows of words and clusters."""
    lines: list[tuple[int, str]] | None = None
    where = "line 1"
    for number, line in enumerate(file_lines(path), 1):
        if line.startswith("#begin document"):
            where, lines = f"the document of line {number}", []
        elif line.startswith("#end document"):
            if lines is not None:
                yield where, _of_lines(lines)
            lines = None
        elif lines is None and line.strip() and not line.startswith("#"):
            raise ValueError(
                f"{path}, line {number}: expected '#begin document', as CoNLL-2012 has it; other "
                "files of documents are .jsonl"
            )
        elif lines is not None and line.strip() and not line.startswith("#"):
            lines.append((number, line))
    if lines is not None:
        yield where, BadRow("has no '#end document'")


def _of_lines(lines: Iterable[tuple[int, str]]) -> dict | BadRow:
    words: list[str] = []
    begun: dict[str, list[int]] = {}
    clusters: dict[str, list[Span]] = {}
    for number, line in lines:
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) <= _WORD + 1:
            return BadRow(f"has {len(columns)} columns; expected 5 or more", f"line {number}")
        for begins, name, ends in _MARKS.findall(columns[-1]):
            if begins:
                begun.setdefault(name, []).append(len(words))
            if ends:
                if not begun.get(name):
                    return BadRow(f"the mention {name}) has no beginning", f"line {number}")
                span = (begun[name].pop(), len(words) + 1)
                if span not in clusters.setdefault(name, []):
                    clusters[name].append(span)
        words.append(columns[_WORD])
    open_ = next((name for name, places in begun.items() if places), None)
    if open_ is not None:
        return BadRow(f"the mention ({open_} has no end")
    return {"words": words, "clusters": list(clusters.values())}

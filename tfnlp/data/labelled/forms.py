"""The form of a task's rows: in files, data sets and Python objects, and as examples."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from tfnlp.data.corpus.documents import named_files
from tfnlp.data.labelled.rows import BadRow, TaskData, gather
from tfnlp.data.labelled.tables import Column, Reading, Table, column_list, read_table, tfds_table
from tfnlp.data.rows import held, is_path, rows_of
from tfnlp.text.words import MARKS

Record = dict[str, Any] | list[Any]  # the fields of a row, by name or by number


class RowForm(abc.ABC):
    """What a task reads, and the examples that it makes of it. See the forms for their files.

    All of them read `.gz`. `.parquet` files are tables. In a `.jsonl` (or `.json`) every line is an
    object, or the file is a list of objects. A `.csv` has quotation marks around fields; so have
    tables with tabs that pandas wrote, in others they are plain characters, as in GLUE.
    `tfds:NAME[/CONFIG][:SPLIT]` is a prepared TFDS data set, its features the columns.
    """

    expected: ClassVar[str]  # a row of Python objects, in words
    fields: ClassVar[tuple[str, ...]]  # columns of the fields of a tuple, the label's last
    example: ClassVar[type]
    label: ClassVar[str] = "label"  # the attribute of an example that holds its label
    has_class_names: ClassVar[bool] = True  # classes that a data set numbers are read as names
    has_columns: ClassVar[bool] = True  # which can be chosen
    has_several_columns: ClassVar[bool] = False  # the labels of a row can be in several columns

    def read(
        self,
        source: Any,
        *,
        text: Column | Sequence[Column] | None = None,
        label: Column | Sequence[Column] | None = None,
        skip: bool = False,
        labelled: bool = True,
        drop: Sequence[str] = ("-",),
        separator: str | None = None,
        splitter: str = MARKS,
        of_run: bool = False,
        name: str = "data",
    ) -> TaskData:
        """Return the examples of files, data sets or Python objects.

        `source` is a path, a glob, a `tfds:` name or a list of them, or holds rows, see
        `tfnlp.data.rows_of`; or examples, as this returns them. A row is what `expected` says, or a
        dict with the keys that a line of `.jsonl` has.

        With `labelled=False` the last field may be left out, and a row may also be a string: a
        text, or words with spaces between. Two strings are then two texts. A list of strings is a
        list of such rows; give paths one by one or as `pathlib.Path`s.

        Args:
            source: see above.
            text: the column or columns of the texts: names, or numbers from 0 (also as digits) of a
                file without header or of tuples. None: those that the form names, or the first that
                a table has of sentence1 and sentence2, premise and hypothesis, question and
                sentence, text_a and text_b, sentence, text.
            label: the label's column. None: that which the form names, or the first of label,
                gold_label, score and similarity.
            skip: leave out rows that can't be read and list them in `skipped`; a file without a
                good row is still an error. Of files of words a bad line leaves out its sentence.
            labelled: False for texts to predict: labels may be missing and are None then.
            drop: labels of rows to leave out, of classes and scores; `skipped` lists them. SNLI has
                "-" where annotators did not agree. With `labelled=False` the rows are kept.
            separator: of several labels in one column: what stands between the names; None: the
                first of `|`, `;` and `,` that occurs in it.
            splitter: of words that are given as a text: how it is split, "marks" or "spaces", see
                `tfnlp.text.words.words_with_offsets`.
            of_run: the columns are those of a run's training, which rows of tuples need not have.
            name: the argument that `source` was given as, for messages.

        Raises:
            ValueError: columns that are not there; unless `skip`, a row that can't be read; a file
                without examples, not UTF-8, or not of the format. The message names the file and
                the line, or `name` and the row, from 0.
            FileNotFoundError: there is no such file, or no such prepared TFDS data set.
            OSError: a folder; a damaged or truncated gzip file.
            ImportError: for `.parquet` without pyarrow.
        """
        how = self.checked(Reading(text, label, skip, labelled, drop, separator, splitter, of_run))
        if is_path(source):
            return self.finished(self._of_files([source], how))
        source = held(source)
        first = source[0] if isinstance(source, list | tuple) and source else None
        if self.is_file(first, labelled):
            return self.finished(self._of_files(self._paths(source, name), how))
        rows = list(rows_of(source, name, self.has_class_names))
        if dataclasses.is_dataclass(rows[0][1]):  # examples
            data = gather(name, rows, lambda row: self._checked_example(row, labelled), skip)
        else:
            records = [(where, self._record(row, labelled)) for where, row in rows]
            names = [c for c in how.columns if isinstance(c, str) and not c.isdecimal()]
            if names and not any(isinstance(row, dict) for _, row in records):
                if not of_run:
                    raise ValueError(
                        f"{name}: columns of tuples have numbers from 0; there is no {names[0]!r}"
                    )
                how = dataclasses.replace(how, text=None, label=None)
            data = self.of_table(self._table(records, name, how), how)
        return self.finished(data)

    def of_file(self, path: str, how: Reading) -> TaskData:
        """Return the examples of a file; this reads one with columns."""
        return self.of_table(read_table(path, how.columns), how)

    @abc.abstractmethod
    def of_table(self, table: Table, how: Reading) -> TaskData:
        """Return the examples of rows with columns."""

    def checked(self, how: Reading) -> Reading:
        """Check how rows are to be read; return it with `text` as a list."""
        if isinstance(how.drop, str):
            raise ValueError(f"drop must be a sequence of labels; got the string {how.drop!r}")
        if not self.has_columns and (how.text, how.label) != (None, None):
            raise ValueError(f"rows of {self.expected} have no columns to choose")
        text, label = column_list(how.text), how.label
        if label is not None:
            columns = column_list(label)
            one = not self.has_several_columns or isinstance(label, str | int)
            if one and len(columns) > 1:
                raise ValueError(f"label must be one column; got {columns!r}")
            label = columns[0] if one else columns
        return dataclasses.replace(how, text=text, label=label)

    def is_file(self, first: object, labelled: bool) -> bool:
        """Return whether a list is one of paths, by its first entry."""
        return is_path(first) and (labelled or isinstance(first, os.PathLike))

    def fields_of(self, row: object, labelled: bool) -> Record:
        """Return the fields of a row that is plain Python; raise `BadRow` for anything else."""
        if isinstance(row, str) and not labelled:
            return [row]
        if not isinstance(row, list | dict):
            raise BadRow(f"expected {self.expected} or a dict; got {row!r:.60}")
        return row

    def names_of(self, row: list[Any], labelled: bool) -> Sequence[str]:
        """Return the columns that the fields of a tuple stand for; none for a wrong number."""
        return self.fields[: len(row)] if len(self.fields) - len(row) in (0, 1) else ()

    def finished(self, data: TaskData) -> TaskData:
        """Return all examples that were read, as the task has them."""
        return data

    def understood(self, data: TaskData) -> str:
        """Return how labelled rows were read, in words; "" if there is one way alone."""
        return "; ".join(dict.fromkeys(data.notes))

    def doubt(self, examples: Sequence[Any]) -> str:
        """Return what makes one think that labels were read wrongly; "" if nothing does."""
        return ""

    def _of_files(self, paths: Sequence[str | os.PathLike], how: Reading) -> TaskData:
        data = TaskData([])
        for path in named_files(paths):
            if path.startswith("tfds:"):
                part = self.of_table(tfds_table(path, self.has_class_names), how)
            else:
                part = self.of_file(path, how)
            data.examples.extend(part.examples)
            data.skipped.extend(part.skipped)
            data.notes.extend(part.notes)
            if not data.labels_as:  # further files are read as the first one
                data.labels_as.update(part.labels_as)
                label = part.labels_as.get("label_columns", how.label)
                separator = part.labels_as.get("separator", how.separator)
                how = dataclasses.replace(how, label=label, separator=separator)
        return data

    def _paths(self, paths: Sequence[Any], name: str) -> Sequence[str | os.PathLike]:
        for number, row in enumerate(paths):
            if not is_path(row):
                raise ValueError(
                    f"{name}: row 0 is a string, so a path, but row {number} is not; rows are "
                    f"{self.expected} or dicts"
                )
        return paths

    def _checked_example(self, row: object, labelled: bool) -> Any:
        if not isinstance(row, self.example):
            raise BadRow(f"expected an example of {self.example.__name__}; got {row!r:.60}")
        if labelled and self.label and getattr(row, self.label) is None:
            raise BadRow(f"has no {self.label}")
        return row

    def _record(self, row: object, labelled: bool) -> Record | BadRow:
        """Return the fields of a row by name or by number."""
        if isinstance(row, BadRow):
            return row
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], dict):
            # Keras' form of a data set: (features, label).
            row = {**row[0], self.fields[-1]: row[1]}
        try:
            return self.fields_of(row, labelled)
        except BadRow as error:
            return error

    def _table(self, records: list[tuple[str, Record | BadRow]], name: str, how: Reading) -> Table:
        """Return rows as a table: the first good one decides what its columns are."""
        first = next((row for _, row in records if not isinstance(row, BadRow)), None)
        if first is None:
            where, bad = records[0]
            raise ValueError(f"{name}, {where}: {bad}")
        header, names = None, None
        if isinstance(first, dict):
            header = list(first)
        elif not how.columns:
            header = names = list(self.names_of(first, how.labelled))
            if not names:
                raise ValueError(
                    f"{name}: a row must be {self.expected} or a dict; got {first!r:.80}"
                )
        rows = []
        for where, row in records:
            if not isinstance(row, (type(first), BadRow)):
                row = BadRow(
                    f"expected a {_kind(first)}, as the rows before it; got a {_kind(row)}"
                )
            elif names is not None and isinstance(row, list):
                if len(row) == len(names):
                    row = dict(zip(names, row, strict=True))
                else:
                    row = BadRow(
                        f"has {len(row)} fields; expected {len(names)}, as in the first row"
                    )
            rows.append((where, row))
        return Table(name, header, rows)


def _kind(row: Record) -> str:
    return "dict" if isinstance(row, dict) else "tuple"

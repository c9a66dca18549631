"""Files and TFDS data sets of fine-tuning tasks, in all their formats, to examples."""

import dataclasses
import glob
import os
from collections.abc import Iterable, Iterator, Sequence

from tfnlp.data.corpus.documents import expand
from tfnlp.data.labelled.choices import choice_file, choice_table
from tfnlp.data.labelled.examples import labelled_lines, table_examples
from tfnlp.data.labelled.label_sets import label_set_file, label_set_table
from tfnlp.data.labelled.questions import question_file, questions
from tfnlp.data.labelled.related_texts import related_file, related_table
from tfnlp.data.labelled.role_sentences import role_file, role_table
from tfnlp.data.labelled.rows import TaskData, file_kind, gather
from tfnlp.data.labelled.span_rows import has_spans, span_row
from tfnlp.data.labelled.tables import (
    JSON_KINDS,
    PARQUET,
    TABLES,
    Column,
    Reading,
    Table,
    column_list,
    read_table,
)
from tfnlp.data.labelled.tag_schemes import read_as_bio
from tfnlp.data.labelled.tagged_sentences import tagged_file, tagged_table
from tfnlp.data.labelled.tfds_rows import tfds_rows

TASKS = ("classify", "labels", "similarity", "choose", "answer", "tag", "roles", "embed")


def read_task(
    task: str,
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    text: Column | Sequence[Column] | None = None,
    label: Column | Sequence[Column] | None = None,
    skip: bool = False,
    labelled: bool = True,
    drop: Sequence[str] = ("-",),
    separator: str | None = None,
) -> TaskData:
    """Read the examples of a task, one path after the other.

    The format follows from the task and the extension (`.gz` is unpacked first):

        classify    .tsv .csv .jsonl    a table with one or two texts and the name of a class
                    all others          lines `label text`; a table with tabs if `text` is given
        labels      .tsv .csv .jsonl    a table with one or two texts and any number of labels: a
                                        list, names between separators, or columns of 0 and 1
                    all others          lines `__label__A __label__B text`, as for fastText
        similarity  .csv .jsonl others  a table with two texts (or one) and a number
        choose      .xml                COPA (Roemmele et al. 2011)
                    .csv .jsonl         a table: a text, its choices, the index of the right one
                    all others          CODAH (Chen et al. 2019); a table if `text` is given
        answer      all                 the JSON of SQuAD 1.1 or 2.0; objects with the question,
                                        its context and its answers, also in .parquet
        tag         .conllu             CoNLL-U
                    .jsonl              {"words" or "tokens": [..], "tags": [..]}, or "spans" in
                                        place of "tags", see `span_row`
                    all others          CoNLL: one word per line, columns between tabs or spaces,
                                        blank lines between sentences; -DOCSTART- is ignored
        roles       .conllu             CoNLL-U with columns of predicates and roles
                    .jsonl              {"words": [..], "predicate": 1, "tags": [..]}
        embed       .tsv .csv .jsonl    a table of texts that belong together, with or without a
                                        number or class of the first two
                    all others          a text a line; a table with tabs if `text` is given

    `.parquet` files are tables, too. In a `.jsonl` (or `.json`) every line is an object, or the
    file is a list of objects. A `.csv` has quotation marks around fields; in tables with tabs they
    are plain characters, as in GLUE.
    `tfds:NAME[/CONFIG][:SPLIT]` is a prepared TFDS data set, its features the columns; `answer`
    takes the features of SQuAD. Tags that are all "O", "B-..." or "I-..." mark entities: IOB1 is
    read as BIO, and so are BIOES, BILOU and other schemes with E, L, S, U, M or W in place of B
    or I.

    Args:
        task: one of "classify", "labels", "similarity", "choose", "answer", "tag", "roles",
            "embed".
        paths: one or several paths or globs (`*.tsv`), or `tfds:` names.
        text: the column or columns of the texts: names, or numbers from 0 (also as digits) of a
            file without header. None: the first that the table has of sentence1 and sentence2,
            premise and hypothesis, question and sentence, text_a and text_b, sentence, text. For
            "choose": that of the text and then those of the choices, or the one that lists them;
            None: context, premise or question (a context's question goes with it) and choices,
            endings or answers. For "tag": that of the words; None: the first, of JSON words or
            tokens. For "embed" any number, the first two a pair, further ones hard negatives;
            None: also anchor or query, positive and negative, question and context.
        label: the label's column. None: label, gold_label, score or similarity. For "tag": of CoNLL
            a number, None the last; of CoNLL-U "upos" (also None), "xpos" or a number; of JSON and
            TFDS None: tags, labels or ner_tags. For "labels" one column or a list of columns of 0
            and 1; None: labels, one of those above, or all columns that hold 0 and 1 alone.
        skip: leave out rows that can't be read and list them in `skipped`; a file without a good
            row is still an error. With "tag" a bad line leaves out its sentence.
        labelled: False for texts to predict: labels may be missing and are None then. Files of
            lines `label text` are then lines `text`, unless `label=0` says that the label comes
            first.
        drop: labels of rows to leave out ("classify" and "similarity"); `skipped` lists them.
            SNLI has "-" where annotators did not agree. With `labelled=False` the rows are kept.
        separator: of "labels": what stands between the names in one column; None: the first of
            `|`, `;` and `,` that occurs in it.

    Returns:
        `TaskData` of `TaskExample` ("classify", "similarity", "choose"), `Question` or
        `TaggedSentence` ("roles": `RoleSentence`).

    Raises:
        ValueError: an unknown task; columns that are not there; unless `skip`, a row that can't be
            read; a file without examples, not UTF-8, or not of the format.
        FileNotFoundError: there is no such file, or no such prepared TFDS data set.
        OSError: a folder; a damaged or truncated gzip file.
        ImportError: for `.parquet` without pyarrow.
    """
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    how = checked_reading(task, Reading(text, label, skip, labelled, drop, separator))
    return read_files(task, paths, how)


def read_files(task: str, paths: Sequence[str | os.PathLike], how: Reading) -> TaskData:
    """Return what `read_task` does."""
    if not paths:
        raise ValueError(f"no files for the task {task}; give one or more")
    data = TaskData([])
    for path in _expanded(paths):
        read = _read_tfds if path.startswith("tfds:") else _read_file
        part = read(task, path, how)
        data.examples.extend(part.examples)
        data.skipped.extend(part.skipped)
        if not data.labels_as:  # further files are read as the first one
            data.labels_as.update(part.labels_as)
            label = part.labels_as.get("label_columns", how.label)
            separator = part.labels_as.get("separator", how.separator)
            how = dataclasses.replace(how, label=label, separator=separator)
    return in_bio(task, data)


def in_bio(task: str, data: TaskData) -> TaskData:
    """Return the data of a task, of "tag" and "roles" with tags of entities read as BIO."""
    if task not in ("tag", "roles"):
        return data
    examples, scheme = read_as_bio(data.examples)
    return TaskData(examples, data.skipped, scheme)


def checked_reading(task: str, how: Reading) -> Reading:
    """Check the arguments of `read_task`; return them with `text` as a list."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    if isinstance(how.drop, str):
        raise ValueError(f"drop must be a sequence of labels; got the string {how.drop!r}")
    text, label = column_list(how.text), how.label
    if label is not None:
        columns = column_list(label)
        one = task != "labels" or isinstance(label, str | int)
        if one and len(columns) > 1:
            raise ValueError(f"label must be one column for the task {task}; got {columns!r}")
        label = columns[0] if one else columns
    if task == "answer" and (text is not None or label is not None):
        raise ValueError("the task answer reads SQuAD's form, which has no columns to choose")
    return dataclasses.replace(how, text=text, label=label)


def examples_of_table(task: str, table: Table, how: Reading) -> TaskData:
    """Return the examples of rows that were read already, see `read_task`."""
    if task == "answer":
        return questions(table.source, table.rows, how, may_lack=True)
    if task == "tag" and not how.columns and has_spans(table.header):
        return gather(table.source, table.rows, lambda r: span_row(r, how.labelled), how.skip)
    if task in _TABLES:
        return _TABLES[task](table, how)
    return table_examples(task, table, how)


_TABLES = {
    "tag": tagged_table,
    "roles": role_table,
    "embed": related_table,
    "labels": label_set_table,
    "choose": choice_table,
}
_FILES = {
    "tag": tagged_file,
    "roles": role_file,
    "embed": related_file,
    "labels": label_set_file,
    "choose": choice_file,
    "answer": question_file,
}


def _expanded(paths: Iterable[str | os.PathLike]) -> Iterator[str]:
    """Yield paths and `tfds:` names, with the files that globs match in their place."""
    for path in map(os.fspath, paths):
        if path.startswith("tfds:") or os.path.exists(path) or not glob.has_magic(path):
            yield path
        else:
            yield from expand(path)


def _read_file(task: str, path: str, how: Reading) -> TaskData:
    if task in ("tag", "roles") and file_kind(path) in (*JSON_KINDS, PARQUET):
        return examples_of_table(task, read_table(path, how.columns), how)
    if task in _FILES:
        return _FILES[task](path, how)
    if task == "similarity" or how.text is not None or file_kind(path) in TABLES:
        return table_examples(task, read_table(path, how.columns), how)
    if how.label not in (None, 0, "0"):
        raise ValueError(
            f"{path}: without text, its lines are label and text, so label can only be 0; "
            f"got {how.label!r}"
        )
    return labelled_lines(path, how.skip, how.labelled or how.label is not None)


def _read_tfds(task: str, path: str, how: Reading) -> TaskData:
    rows = tfds_rows(path, class_names=has_class_names(task))
    return examples_of_table(task, Table(path, *rows), how)


def has_class_names(task: str) -> bool:
    """Return whether the labels of a task are names of classes, which a data set may number."""
    return task in ("classify", "labels", "tag", "roles", "embed")

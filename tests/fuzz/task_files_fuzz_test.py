"""Damaged files of tasks."""

import pytest

from tests.data.reading_test import CONLL, CONLLU, TABLES, UNLABELLED, ask, squad, write
from tests.fuzz.damage import damaged_bytes, examples
from tfnlp.data.labelled.rows import BadRow
from tfnlp.tasks import TASKS

SMALL = {
    "b.tsv": ("classify", TABLES["a.tsv"]),
    "b.csv": ("classify", TABLES["a.csv"]),
    "b.jsonl": ("similarity", '{"text": "a", "label": 1}\n{"text": "b", "label": 2.5e1}\n'),
    "b.txt": ("classify", "1 a\n0 \u00e9 b\n"),
    "b.xml": ("choose", UNLABELLED[7][2].replace("cause", 'cause" most-plausible-alternative="1')),
    "b.codah": ("choose", "o\ta\tb\tc\t0\no\ta\tb\tc\t1\n"),
    "b.conll": ("tag", CONLL),
    "b.conllu": ("tag", CONLLU),
    "b.json": ("answer", squad(ask(), ask("q2"))),
    "c.tsv.gz": ("classify", TABLES["a.tsv"]),
    "c.json.gz": ("answer", squad(ask(), ask("q2"))),
}


@pytest.mark.parametrize("trials", [10, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SMALL)
def test_damaged_files_give_one_line_with_their_name(tmp_path, name, trials):
    task, content = SMALL[name]
    path, failed = write(tmp_path, content, name), 0
    assert TASKS[task].read(path).examples
    for trial, damaged in enumerate(
        examples(damaged_bytes, (tmp_path / name).read_bytes(), trials)
    ):
        (tmp_path / name).write_bytes(damaged)
        try:
            TASKS[task].read(path, skip=bool(trial % 2))
        except (ValueError, OSError) as error:
            failed += 1
            assert not isinstance(error, BadRow)
            assert name in str(error) and "\n" not in str(error), error
    assert failed >= trials // 15

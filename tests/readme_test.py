"""What the README shows must run."""

import json
import re

import pytest

from tests.support import ROOT, run_python


def blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.slow
def test_python_snippets_run_one_after_the_other(tmp_path):
    snippets = blocks("python")
    assert snippets
    done = run_python("\n".join(snippets), folder=tmp_path)
    assert "(2, 1)\n" in done.stdout and "(2, 3)\n" in done.stdout


def test_commands_in_the_readme_exist():
    from tfnlp.cli import parse

    commands = [
        line
        for block in blocks("bash")
        for line in block.replace("\\\n", " ").split("\n")
        if line.startswith("tfnlp ")
    ]
    assert commands
    for command in commands:
        parse(re.findall(r'"[^"]*"|\S+', command))  # exits where an option is unknown


def test_the_tables_of_scaling_are_what_was_measured():
    from benchmarks.scaling import RESULTS, pages

    for path, text in pages(json.loads(RESULTS.read_text())).items():
        assert path.read_text(encoding="utf-8") == text


def test_the_table_of_reuse_is_what_was_measured():
    from benchmarks.reuse import RESULTS, documents

    for name, text in documents(json.loads(RESULTS.read_text())).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text

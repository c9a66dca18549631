"""What the README and docs/ show must run. Blocks that are not run: docs_code_test.py."""

import json
import re

import pytest

from tests.support import ROOT, run_python

PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def blocks(language, page="README.md"):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page, shown",
    [
        ("README.md", ["{'accuracy': 1.0", "[b'sad']"]),
        ("docs/python.md", ["(2, 128)", "'NOUN'"]),
        ("docs/long_texts.md", ["[1 1 1 1 2 2 2 0]", "(2, 8, 16)"]),
    ],
)
def test_python_snippets_run_one_after_the_other(page, shown, tmp_path):
    snippets = blocks("python", page)
    assert snippets
    said = run_python("\n".join(snippets), folder=tmp_path).stdout
    for part in shown:
        assert part in said


def test_the_tables_of_scaling_are_what_was_measured():
    from benchmarks.scaling import RESULTS, pages

    for path, text in pages(json.loads(RESULTS.read_text())).items():
        assert path.read_text(encoding="utf-8") == text


def test_the_table_of_reuse_is_what_was_measured():
    from benchmarks.reuse import RESULTS, documents

    for path, text in documents(json.loads(RESULTS.read_text())).items():
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}" for name in PAGES)])
def test_tests_that_are_named_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for path in re.findall(r"tests/[\w/]+\.py", text):
        assert (ROOT / path).is_file(), path

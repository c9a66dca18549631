"""The bash and python blocks of a page run one after the other, on toy files, at toy size.

Blocks that need what a test machine does not have are marked in the page, directly before the
fence: `<!-- not run: needs a TPU -->`. docs_code_test.py checks those, too.
"""

import re

import pytest

from tests import docs_run
from tests.cli.command import tfnlp as command
from tests.docs_blocks import PAGES, blocks
from tests.docs_files import FILES
from tests.docs_objects import objects
from tests.published import repositories
from tests.published.conftest import hub  # noqa: F401
from tests.support import ROOT

# Pages whose Python readme_test.py runs, and compares what it prints with the page.
PYTHON_ELSEWHERE = {"README.md", "docs/python.md", "docs/long_texts.md"}


def run_of(page):
    kinds = ("bash",) if page in PYTHON_ELSEWHERE else ("bash", "python")
    return [block for block in blocks(page) if block.language in kinds and block.reason is None]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A BERT of four layers, the same as a checkpoint for transformers, and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text(FILES["*.txt"]())
    (folder / "train.tsv").write_text(FILES["*.tsv"]())
    pretrain = ["tfnlp", "pretrain", "bert", "--input", folder / "text.txt"]
    pretrain = docs_run.small([*map(str, pretrain), "--output", str(folder / "bert")])
    assert command(*pretrain[1:], "--num-layers", 4) == 0
    checkpoint = ["--output", folder / "minilm", "--format", "huggingface"]
    assert command("export", "--model", folder / "bert", *checkpoint) == 0
    finetune = ["tfnlp", "finetune", "classify", "--model", folder / "bert"]
    finetune += ["--train", folder / "train.tsv", "--output", folder / "sentiment"]
    assert command(*docs_run.small([*map(str, finetune)])[1:]) == 0
    return folder


@pytest.fixture(autouse=True)
def ended_servers():
    """End what a page has started."""
    yield
    while docs_run.SERVERS:
        server = docs_run.SERVERS.pop()
        server.kill()
        server.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if run_of(page)])
def test_blocks_run(page, models, tmp_path, monkeypatch, request):
    found = run_of(page)
    if any("hf://" in block.text for block in found):
        server = request.getfixturevalue("hub")
        files = repositories.bert(tmp_path / "bert")
        server.put("org/name", files, "v1.0")
        server.put("org/name", files)
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "cache"))
    for owner, name, function in docs_run.small_functions():
        monkeypatch.setattr(owner, name, function, raising=False)
    names = objects(page, folder, models)
    for block in found:
        try:
            docs_run.run(block, names, folder, models)
        except BaseException as error:
            error.add_note(f"in the block {block.place}")
            raise


def test_few_blocks_are_not_run_and_each_has_a_reason():
    marked = [block for page in PAGES for block in blocks(page) if block.reason is not None]
    assert all(block.reason for block in marked)
    assert len(marked) <= 24
    marks = sum(len(re.findall("<!-- not run", (ROOT / page).read_text())) for page in PAGES)
    assert marks == len(marked), "a mark must stand directly before its fence"

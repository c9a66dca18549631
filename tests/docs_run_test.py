"""The bash and python blocks of a page run one after the other, on toy files, at toy size.

Blocks that need what a test machine does not have are marked in the page, directly before the
fence: `<!-- not run: needs a TPU -->`. Of their commands those of tfnlp must parse.
"""

import json

import pytest

from tests import docs_run
from tests.cli.command import tfnlp as command
from tests.docs_files import FILES
from tests.docs_run import FENCE, PAGES, blocks, commands, objects
from tests.published import repositories
from tests.published.conftest import hub  # noqa: F401
from tests.support import ROOT, run_python
from tfnlp.cli import command as cli

# Pages of the slow tier; the others are in the long one.
SAMPLE = (
    "README.md", "docs/bert.md", "docs/huggingface.md", "docs/index.md", "docs/labels.md",
    "docs/published.md",
)  # fmt: skip


def run_of(page):
    return [b for b in blocks(page) if b.language in ("bash", "python") and b.reason is None]


@pytest.fixture(scope="session")
def models(made, tmp_path_factory):
    """A BERT, the same as a checkpoint for transformers, and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "bert").symlink_to(made("bert").run)
    checkpoint = ["--output", folder / "minilm", "--format", "huggingface"]
    assert command("export", "--model", folder / "bert", *checkpoint) == 0
    (folder / "train.tsv").write_text(FILES["*.tsv"]())
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [
    pytest.param(page, marks=pytest.mark.slow if page in SAMPLE else pytest.mark.long)
    for page in PAGES
    if run_of(page) and page != "docs/python.md"
])  # fmt: skip
def test_blocks_run(page, models, made, tmp_path, monkeypatch, request):
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
    running = docs_run.Page(objects(page, folder, models), folder, models, made)
    for block in found:
        try:
            running.run(block)
        except BaseException as error:
            error.add_note(f"in the block {block.place}")
            raise


@pytest.mark.parametrize("page", PAGES)
def test_blocks_have_a_language_and_those_not_run_parse(page):
    text = (ROOT / page).read_text("utf-8")
    found = list(blocks(page))
    assert {block.language for block in found} <= {"python", "bash", "json", "text"}
    assert "```" not in FENCE.sub("", text)
    assert text.count("<!-- not run") == sum(b.reason is not None for b in found), "not at a fence"
    for block in found:
        if block.language == "json":
            for line in block.text.splitlines():
                json.loads(line)
        elif block.language == "text" or block.reason is not None:
            for words in commands(block.text, block.language):
                if words[0] == "tfnlp":
                    cli.parse(words)  # exits where an option is unknown


@pytest.mark.long
def test_programs_at_full_size_print_what_they_promise(tmp_path):
    program = "\n".join(b.text for b in blocks("docs/python.md") if b.language == "python")
    said = run_python(program, folder=tmp_path).stdout
    for part in ("(2, 128)", "'NOUN'"):
        assert part in said

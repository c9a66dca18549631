"""The bash and python blocks of a page run one after the other, on toy files, at toy size.

Blocks that need what a test machine does not have are marked in the page, directly before the
fence: `<!-- not run: needs a TPU -->`. docs_code_test.py checks those, too.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests import docs_run
from tests.cli.command import tfnlp as command
from tests.docs_blocks import PAGES, blocks
from tests.docs_files import FILES
from tests.published import repositories
from tests.published.conftest import hub  # noqa: F401
from tests.support import ROOT
from tfnlp import training
from tfnlp.configs import option

# Pages whose programs run at the size that they show, and what they print.
SHOWN = {
    "README.md": ["{'accuracy': 1.0", "[b'sad']"],
    "docs/python.md": ["(2, 128)", "'NOUN'"],
    "docs/long_texts.md": ["[1 1 1 1 2 2 2 0]", "(2, 8, 16)"],
}
# Pages that were not yet seen to run from their first block to the last: checked by
# docs_code_test.py alone, README.md, python.md and long_texts.md also by readme_test.py.
PENDING = {"README.md", "docs/playground.md"} | {
    f"docs/{name}.md"
    for name in (
        "adapters elmo engines examples finetuning gpt huggingface install keras_hub long_texts "
        "plan python sentences translation word_vectors"
    ).split()
}
# Names that programs use without importing them.
NAMES = {"tfnlp": tfnlp, "keras": keras, "np": np, "tf": tf, "training": training, "hub": tfnlp.hub}
NAMES["option"] = option


def run_of(page):
    return [block for block in blocks(page) if block.language in ("bash", "python")]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A BERT of four layers and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text(FILES["*.txt"]())
    (folder / "train.tsv").write_text(FILES["*.tsv"]())
    pretrain = ["tfnlp", "pretrain", "bert", "--input", folder / "text.txt"]
    pretrain = docs_run.small([*map(str, pretrain), "--output", str(folder / "bert")])
    assert command(*pretrain[1:], "--num-layers", 4) == 0
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
@pytest.mark.parametrize("page", [page for page in PAGES if run_of(page) and page not in PENDING])
def test_blocks_run(page, models, tmp_path, monkeypatch, capsys, request):
    found = [block for block in run_of(page) if block.reason is None]
    if any("hf://" in block.text for block in found):
        server = request.getfixturevalue("hub")
        files = repositories.bert(tmp_path / "bert")
        server.put("org/name", files, "v1.0")
        server.put("org/name", files)
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "cache"))
    if page not in SHOWN:
        for owner, name, function in docs_run.small_functions():
            monkeypatch.setattr(owner, name, function, raising=False)
    names = {**NAMES, "dataset": docs_run.dataset()}
    if page == "docs/keras_hub.md":
        docs_run.provide(["preset-folder"], folder, models)
        keras_hub = pytest.importorskip("keras_hub")
        names["task"] = keras_hub.models.BertMaskedLM.from_preset("preset-folder")
        names["classifier"] = keras_hub.models.BertTextClassifier.from_preset(
            "preset-folder", num_classes=2
        )
    for block in found:
        try:
            docs_run.run(block, names, folder, models)
        except BaseException as error:
            error.add_note(f"in the block {block.place}")
            raise
    said = capsys.readouterr().out
    for part in SHOWN.get(page, []):
        assert part in said


def test_few_blocks_are_not_run_and_each_has_a_reason():
    marked = [block for page in PAGES for block in blocks(page) if block.reason is not None]
    assert all(block.reason for block in marked)
    assert len(marked) <= 40
    marks = sum(len(re.findall("<!-- not run", (ROOT / page).read_text())) for page in PAGES)
    assert marks == len(marked), "a mark must stand directly before its fence"

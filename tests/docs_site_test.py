"""`make docs`: the site builds without a warning, is complete, and loads nothing from elsewhere."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")

from tests.support import ROOT
from website import links, reference

pytestmark = pytest.mark.long
# Tags whose attribute makes a browser fetch something; of `link` all but canonical addresses.
_LOADS = {
    "img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href",
    "video": "src", "audio": "src", "object": "data", "embed": "src", "image": "href",
}  # fmt: skip
# What people search for, and the page that comes first.
_SEARCHED = {
    "text classification": "classification", "several labels": "labels", "similarity": "pairs",
    "pairs": "pairs", "multiple choice": "multiple_choice",
    "question answering": "question_answering", "named entity recognition": "named_entities",
    "tagging": "named_entities", "semantic roles": "roles", "coreference": "coreference",
    "embeddings": "embeddings_and_search", "semantic search": "embeddings_and_search",
    "masked words": "masked_words", "text generation": "text_generation",
    "translation": "translation", "word vectors": "word_vectors", "pretraining": "pretraining",
    "serving": "serving", "TPU": "tpus_and_gpus", "GPU": "tpus_and_gpus",
    "big corpora": "big_corpora",
}  # fmt: skip


class Page(html.parser.HTMLParser):
    """Reads what a page loads, its ids and its classes."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.ids, self.classes = [], set(), set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in _LOADS and attrs.get("rel") != "canonical":
            self.loads.append(attrs.get(_LOADS[tag]) or "")
        self.ids |= {value for name in ("id", "name") if (value := attrs.get(name))}
        self.classes |= set((attrs.get("class") or "").split())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # An address where nothing listens: a build that asks the network for something fails.
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "all_proxy")}
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if re.match(r"(WARNING|ERROR) +-", line)]
    assert done.returncode == 0 and not lines, "\n".join(lines) or done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {str(path.relative_to(site)): Page(path) for path in site.rglob("*.html")}


def test_every_public_name_has_an_entry(pages):
    missing = [
        f"{package}.{name}"
        for package in reference.PACKAGES
        for name in reference.public_names(package)
        if f"{package}.{name}" not in pages[_html(reference.page_of(package, name))].ids
    ]
    assert not missing


def _html(page):
    folder = page.removesuffix(".md").removesuffix("index").rstrip("/")
    return f"{folder}/index.html".lstrip("/")


@pytest.mark.skipif(not shutil.which("node"), reason="the site's search is a script for browsers")
def test_search_finds_the_page_of_each_task_first(site):
    command = ["node", str(ROOT / "tests/site_search.js"), str(site)]
    done = subprocess.run(
        command, input=json.dumps([*_SEARCHED]), capture_output=True, text=True, check=True
    )
    found = dict(zip(_SEARCHED, json.loads(done.stdout), strict=True))
    assert {word: pages[0] for word, pages in found.items()} == {
        word: f"{page}/" for word, page in _SEARCHED.items()
    }


def test_source_is_not_searched(site):
    index = (site / "search/search_index.json").read_text("utf-8")
    assert "def build(self" not in index and "Source code in" not in index


def test_every_page_of_docs_and_every_notebook_is_there(pages):
    for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("colab/*.ipynb")]:
        assert _html(links.page_of(str(path.relative_to(ROOT)))) in pages
    gpt = pages["tutorials/gpt_write_and_finetune/index.html"]
    assert any(name.endswith(".png") for name in gpt.loads)  # the outputs that are kept


def test_nothing_is_loaded_from_elsewhere(site, pages):
    elsewhere = re.compile(r"(https?:)?//")
    found = {
        (name, address)
        for name, page in pages.items()
        for address in page.loads
        if elsewhere.match(address)
    }
    for path in [*site.rglob("*.css"), *site.rglob("*.html")]:
        for address in re.findall(
            r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", _styles(path)
        ):
            found.add((str(path.relative_to(site)), address))
    assert not found
    # Material's script gets a library from elsewhere for pages that have such a diagram.
    assert not [name for name, page in pages.items() if "mermaid" in page.classes]


def _styles(path):
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        text = "".join(re.findall(r"<style.*?</style>|style=\"[^\"]*\"", text, re.DOTALL))
    return text


def test_what_pages_load_is_in_the_site(site, pages):
    missing = {
        (name, address)
        for name, page in pages.items()
        for address in page.loads
        if name != "404.html" and address and not address.startswith("data:")
        and not (site / name).parent.joinpath(re.sub(r"[?#].*", "", address)).exists()
    }  # fmt: skip
    assert not missing

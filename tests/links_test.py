"""Links of pages, as links of the site."""

import pytest

from website import gallery, links


@pytest.mark.parametrize(
    "link, at, expected",
    [
        ("bert.md#speed", "docs/gpt.md", "bert.md#speed"),
        ("../README.md", "docs/gpt.md", "index.md"),
        ("colab", "README.md", "tutorials/index.md"),
        (
            "gpt_write_and_finetune_files/x.png",
            "colab/gpt_write_and_finetune.ipynb",
            "gpt_write_and_finetune_files/x.png",
        ),
        ("../docs/gpt.md", "colab/README.md", "../gpt.md"),
        ("../tfnlp/layers/crf.py", "docs/gpt.md", "source/tfnlp/layers/crf.py.md"),
        ("https://example.org/a.md", "docs/gpt.md", "https://example.org/a.md"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(link, at, expected):
    assert links.rewrite(f"[x]({link}), [y]({link})", at) == f"[x]({expected}), [y]({expected})"


def test_code_and_badges():
    code = "```python\n[x](../README.md)\n```"
    assert links.rewrite(code, "docs/gpt.md") == code
    badge = "[![Open](https://example.org/a.svg)](https://example.org/b)"
    assert links.rewrite(badge, "colab/README.md") == "[Open](https://example.org/b)"


def test_a_source_file_and_a_folder_have_pages():
    text = "[a](../tfnlp/layers/crf.py) [b](../tfnlp/layers) [c](bert.md) [d](https://e.org)"
    assert links.source_links(text, "docs/gpt.md") == {"tfnlp/layers/crf.py", "tfnlp/layers"}
    assert "class CRF(" in links.source_page("tfnlp/layers/crf.py")
    assert "| `crf.py` |" in links.source_page("tfnlp/layers")


def test_the_gallery_has_each_picture_once():
    pages = {"a.md": "# A\n\n![x](a.png)\n", "b/c.md": "# C\n\n![y](c.png)\n", "d.md": "# D\n"}
    page = gallery.page({**pages, "e.md": "# E\n\n![again](a.png)\n"})
    assert "![x](a.png)" in page and "![y](b/c.png)" in page
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## A", "## C"]

"""Links of pages, as links of the site."""

from website import gallery, links


def test_code_and_badges():
    code = "```python\n[x](../README.md)\n```"
    assert links.rewrite(code, "docs/gpt.md") == code
    badge = "[![Open](https://example.org/a.svg)](https://example.org/b)"
    assert links.rewrite(badge, "colab/README.md") == "[Open](https://example.org/b)"


def test_the_gallery_has_each_picture_once():
    pages = {"a.md": "# A\n\n![x](a.png)\n", "b/c.md": "# C\n\n![y](c.png)\n", "d.md": "# D\n"}
    page = gallery.page({**pages, "e.md": "# E\n\n![again](a.png)\n"})
    assert "![x](a.png)" in page and "![y](b/c.png)" in page
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## A", "## C"]

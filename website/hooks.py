"""Hooks of MkDocs: pages that come from elsewhere than docs/, and links that work in the site.

The build needs no network and nothing that is not in the repository. MkDocs' own `File.generated`
makes the pages; the plugins that do the same (gen-files, literate-nav) bring a second MkDocs.
"""

import re
from typing import Any

from mkdocs.structure.files import File

from website import gallery, links, notebooks, reference

_DRAWING = re.compile(r"!\[([^]]*)\]\((drawings/[\w-]+\.svg)\)")
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")


def on_config(config: Any) -> Any:
    """Put the notebooks and the pages of the reference into the navigation."""
    generated = {
        "Notebooks": ["tutorials/index.md"]
        + [links.page_of(f"colab/{path.name}") for path in notebooks.paths()],
        "Reference": reference.navigation(),
    }
    for section in config.nav:
        for title in section:
            if title in generated:
                section[title] = generated[title]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    pages = {page.src_uri: page.content_string for page in files.documentation_pages()}
    sources = set()
    for name, text in pages.items():
        sources |= links.source_links(text, f"docs/{name}")

    def add(uri: str, content: str | bytes) -> None:
        files.append(File.generated(config, uri, content=content))

    def add_page(path: str, text: str) -> None:
        sources.update(links.source_links(text, path))
        pages[links.page_of(path)] = links.rewrite(text, path)
        add(links.page_of(path), pages[links.page_of(path)])

    for path in ("CONTRIBUTING.md", "CHANGELOG.md", "colab/README.md"):
        add_page(path, (links.ROOT / path).read_text("utf-8"))
    for path in notebooks.paths():
        text, shown = notebooks.page(path)
        add_page(f"colab/{path.name}", text)
        for name, content in shown.items():
            add(f"tutorials/{name}", content)
    for name, text in reference.pages().items():
        add(name, text)
    for path in sorted(sources):
        add(links.page_of(path), links.source_page(path))
    del pages["index.md"]  # its picture is another page's
    add("gallery.md", gallery.page(pages))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page of docs/, and put drawings into the pages themselves.

    A drawing that is a part of the page follows the site's switch between light and dark. In code
    in a table a bar has a backslash for the code's host, which MkDocs would show.
    """

    def inline(match: re.Match) -> str:
        svg = (links.ROOT / "docs" / match[2]).read_text("utf-8")
        return f"<figure>{svg}</figure>"

    def bars(row: re.Match) -> str:
        return _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])

    if page.file.generated_by:  # a search finds the pages of docs/ first
        page.meta.setdefault("search", {"boost": 0.2})
    else:
        markdown = links.rewrite(markdown, f"docs/{page.file.src_uri}")
    return _DRAWING.sub(inline, _ROW.sub(bars, markdown))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Leave the source of the reference's entries out of the search."""
    return html.replace(
        '<details class="mkdocstrings-source"',
        '<details data-search-exclude class="mkdocstrings-source"',
    )

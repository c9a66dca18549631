"""Links of the pages, which are written for the code's host, as links of the site.

Pages link to each other, to notebooks and to source files by relative paths, so that the links
work where the code is read. In the site a page of docs/ stands at the top, links to README.md lead
to `index.md`, and a source file that is linked gets a page of its own under `source/`.
"""

import ast
import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "colab": "tutorials/index.md",
    "colab/README.md": "tutorials/index.md",
}
_LINK = re.compile(r"(\]\()([^()\s]+)(\))")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_BADGE = re.compile(r"\[!\[([^]]*)\]\(https?://[^)]*\)\]")


def rewrite(text: str, at: str) -> str:
    """Return a page's Markdown with links that work in the site.

    Args:
        text: the Markdown, with links relative to the file that it came from.
        at: that file, relative to the repository, such as "docs/bert.md".
    """
    here = posixpath.dirname(page_of(at))

    def link(match: re.Match) -> str:
        target, anchor = resolve(match[2], at)
        if target is None:
            return match[0]
        return f"{match[1]}{posixpath.relpath(page_of(target), here or '.')}{anchor}{match[3]}"

    def outside_code(text: str) -> str:
        # A picture from another host would be a request to it.
        return _LINK.sub(link, _BADGE.sub(r"[\1]", text))

    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        parts += [outside_code(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, outside_code(text[last:])])


def resolve(link: str, at: str) -> tuple[str | None, str]:
    """Return the file or folder in the repository that a link names, and its anchor.

    The file is None for links to other hosts and within the page.
    """
    path, mark, anchor = link.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return None, ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(at), path)), mark + anchor


def page_of(path: str) -> str:
    """Return the page of the site that shows a file or folder of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("colab/") and path.endswith(".ipynb"):
        return f"tutorials/{pathlib.PurePosixPath(path).stem}.md"
    if path.startswith("colab/") and "_files/" in path:  # pictures of a notebook
        return f"tutorials/{path.removeprefix('colab/')}"
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}.md"


def source_links(text: str, at: str) -> set[str]:
    """Return the files and folders that a page links to and that need a page under `source/`."""
    targets = {resolve(match[2], at)[0] for match in _LINK.finditer(_FENCE.sub("", text))}
    return {path for path in targets if path and page_of(path).startswith("source/")}


def source_page(path: str) -> str:
    """Return the page of a source file, or of a folder with a line about each of its modules.

    Raises:
        FileNotFoundError: if there is no such file or folder.
    """
    file = ROOT / path
    front = "---\nsearch:\n  exclude: true\n---\n\n"
    if not file.is_dir():
        language = {".py": "python", ".sh": "bash"}.get(file.suffix, "text")
        fence = "`````"
        return (
            f"{front}# {path}\n\n{fence}{language}\n{file.read_text('utf-8').rstrip()}\n{fence}\n"
        )
    rows = [f"| `{entry.name}` | {_first_line(entry)} |" for entry in _entries(file)]
    return "\n".join([f"{front}# {path}", "", "| | |", "|---|---|", *rows, ""])


def _entries(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return a folder's modules and packages."""
    entries = sorted(folder.iterdir())
    return [e for e in entries if e.suffix == ".py" or (e / "__init__.py").is_file()]


def _first_line(path: pathlib.Path) -> str:
    """Return the first line of a module's or package's docstring, for a cell of a table."""
    file = path / "__init__.py" if path.is_dir() else path
    doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return doc.partition("\n")[0].replace("|", "\\|")

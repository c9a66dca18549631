"""The gallery: every picture of the pages and of the notebooks, once, with its page."""

import re

_PICTURE = re.compile(r"^!\[([^]]*)\]\(([^)]+)\)", re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def page(pages: dict[str, str]) -> str:
    """Return the gallery.

    Args:
        pages: from the name of each page to its Markdown, in the order of the gallery.
    """
    lines, seen = ["# Gallery", ""], set()
    for name, text in pages.items():
        folder = name.rpartition("/")[0]
        pictures = {f"{folder}/{path}".lstrip("/"): alt for alt, path in _PICTURE.findall(text)}
        new = {path: alt for path, alt in pictures.items() if path not in seen}
        if new:
            title = _TITLE.search(text)[1]
            lines += [f"## {title}", "", f"From [{title}]({name}).", ""]
            lines += [f"![{alt}]({path})\n" for path, alt in new.items()]
            seen |= new.keys()
    return "\n".join(lines)

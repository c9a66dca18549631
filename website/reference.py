"""Pages of the reference: one a class and one a package, from the `__all__` of the packages."""

import importlib.util
import inspect

PACKAGES = (
    "tfnlp",
    "tfnlp.layers",
    "tfnlp.models",
    "tfnlp.objectives",
    "tfnlp.tasks",
    "tfnlp.training",
    "tfnlp.show",
    "tfnlp.data",
    "tfnlp.text",
    "tfnlp.checkpoints",
    "tfnlp.hub",
)


def public_names(package: str) -> list[str]:
    """Return the public names of a package, without those that Python itself defines."""
    names = importlib.import_module(package).__all__
    return sorted((name for name in names if not name.startswith("__")), key=str.lower)


def page_of(package: str, name: str) -> str:
    """Return the page that has the entry of a public name."""
    is_class = inspect.isclass(getattr(importlib.import_module(package), name))
    return f"reference/{package}/{name if is_class else 'index'}.md"


def navigation() -> list[dict[str, list[str]]]:
    """Return the entry of each package in the navigation: its page, then those of its classes."""
    return [
        {package: sorted({page_of(package, name) for name in public_names(package)}, key=_rank)}
        for package in PACKAGES
    ]


def _rank(page: str) -> tuple[bool, str]:
    return not page.endswith("/index.md"), page.lower()


def pages() -> dict[str, str]:
    """Return the Markdown of each page by its name.

    A package's page has a table of its names, and the entries of its functions and constants.
    """
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        groups = {"Classes": [], "Functions": [], "Constants": []}
        for name in public_names(package):
            value = getattr(module, name)
            if inspect.isclass(value):
                # The entry's heading is the page's title.
                level = "    options:\n      heading_level: 1\n"
                found[page_of(package, name)] = _entry(package, name) + level
                groups["Classes"].append(name)
            else:
                groups["Functions" if callable(value) else "Constants"].append(name)
        lines = [f"# {package}", "", inspect.cleandoc(module.__doc__), ""]
        for kind, names in groups.items():
            if names:
                lines += [f"## {kind}", "", *_table(package, module, names, kind), ""]
                entries = [_entry(package, name) for name in names]
                lines += [] if kind == "Classes" else entries
        found[f"reference/{package}/index.md"] = "\n".join(lines)
    return found


def _entry(package: str, name: str) -> str:
    """Return what stands for the entry of a name."""
    if not _is_module(package, name):
        return f"::: {package}.{name}\n"
    value = getattr(importlib.import_module(package), name)
    return f'<a id="{package}.{name}"></a>\n\n::: {value.__module__}.{value.__qualname__}\n'


def _is_module(package: str, name: str) -> bool:
    """Return whether a name is also a module's, such as `tfnlp.models.bert`.

    To mkdocstrings it means the module. Its entry is then that of the function in the module.
    """
    return importlib.util.find_spec(f"{package}.{name}") is not None


def _table(package: str, module: object, names: list[str], kind: str) -> list[str]:
    """Return rows of links with the first paragraph of each docstring."""
    if kind == "Constants":
        return []
    rows = ["| | |", "|---|---|"]
    for name in names:
        doc = inspect.cleandoc(getattr(module, name).__doc__ or "").split("\n\n")[0]
        doc = " ".join(doc.split()).replace("|", "\\|")
        target = f"{package}.{name}"
        link = f"(#{target})" if _is_module(package, name) else f"[{target}]"
        rows.append(f"| [`{name}`]{link} | {doc} |")
    return rows

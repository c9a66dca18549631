"""Pages of the reference: an entry for every public name, from the `__all__` of the packages."""

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


def page_name(package: str) -> str:
    """Return the page of a package's reference."""
    return f"reference/{package}.md"


def page(package: str) -> str:
    """Return the page of a package: a table of its names, then an entry for each.

    Classes come first, then functions, then constants.
    """
    module = importlib.import_module(package)
    groups = {"Classes": [], "Functions": [], "Constants": []}
    for name in public_names(package):
        value = getattr(module, name)
        is_function = callable(value) and not inspect.isclass(value)
        kind = "Functions" if is_function else "Classes" if inspect.isclass(value) else "Constants"
        groups[kind].append(name)
    lines = [f"# {package}", "", inspect.cleandoc(module.__doc__), ""]
    for kind, names in groups.items():
        if names:
            lines += [f"## {kind}", "", *_table(package, module, names, kind), ""]
            lines += [_entry(package, name) for name in names]
    return "\n".join(lines)


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

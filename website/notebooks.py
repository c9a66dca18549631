"""Notebooks of colab/ as pages, with the outputs that are kept in them. Nothing is executed."""

import pathlib
import re

from website.links import ROOT

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def paths() -> list[pathlib.Path]:
    """Return the notebooks, in the order of the table in colab/README.md."""
    listed = re.findall(r"\((\w+\.ipynb)\)", (ROOT / "colab/README.md").read_text("utf-8"))
    found = sorted(path.name for path in (ROOT / "colab").glob("*.ipynb"))
    missing = [name for name in found if name not in listed]
    return [ROOT / "colab" / name for name in [*listed, *missing]]


def page(path: pathlib.Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the files that it shows by their names.

    Code is in fences of `python`, what was printed in fences of `text`.
    """
    import nbformat
    from nbconvert import MarkdownExporter

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = _COLOUR.sub("", output.text)
    resources = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources)
    return text.replace("![png](", "![what the cell above draws]("), resources["outputs"]

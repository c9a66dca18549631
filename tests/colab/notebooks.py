"""Runs notebooks of `colab/` at toy size, and looks at what came out of their cells.

Cells are found by their tags (`cell.metadata.tags`), so that a notebook can be rearranged.
"""

import base64
import io
import re

import nbformat
import numpy as np

from colab.execute import HERE, execute, set_parameters


def names():
    """The notebooks, without ".ipynb"."""
    return sorted(path.stem for path in HERE.glob("*.ipynb"))


def read(name):
    """The notebook as it is in the repository."""
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def run_notebook(name, tmp_path, timeout=1100, parameters=(), **environment):
    """A copy of the notebook, executed from top to bottom in `tmp_path` with TFNLP_TOY=1.

    Args:
        name: without ".ipynb".
        tmp_path: where its files go.
        timeout: seconds that a cell may take.
        parameters: other values of its settings, by their names.
        environment: more variables of the kernel's environment.

    """
    notebook = read(name)
    set_parameters(notebook, dict(parameters))
    return execute(notebook, tmp_path, timeout, **{"TFNLP_TOY": "1", **environment})


def cell(notebook, tag):
    """The one cell with this tag."""
    found = [c for c in notebook.cells if tag in c.metadata.get("tags", ())]
    assert len(found) == 1, f"{len(found)} cells are tagged {tag!r}"
    return found[0]


def text(notebook, tag):
    """What the cell with this tag printed, and the plain text of what else it showed."""
    shown = []
    for output in cell(notebook, tag).outputs:
        if output.output_type == "stream" and output.name == "stdout":
            shown.append(output.text)
        elif output.output_type in ("display_data", "execute_result"):
            if "image/png" not in output.data:
                shown.append(output.data.get("text/plain", ""))
    return "".join(shown).replace("\r\n", "\n")  # what `!command` prints comes from a terminal


def numbers(notebook, tag, pattern):
    """The numbers in all matches of a regular expression with one group in `text`."""
    return [float(x.replace(",", "")) for x in re.findall(pattern, text(notebook, tag))]


def are_drawn(notebook, *tags, least=100):
    """Whether each cell with one of these tags showed one picture, of more than one colour."""
    import matplotlib.image

    for tag in tags:
        outputs = [o for o in cell(notebook, tag).outputs if o.output_type == "display_data"]
        shown = [o.data["image/png"] for o in outputs if "image/png" in o.data]
        if len(shown) != 1:
            return False
        pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(shown[0])), "png")[:, :, :3]
        colours = np.unique(pixels.reshape(-1, 3), axis=0)
        if min(pixels.shape[:2]) < least or len(colours) <= 5:
            return False
    return True

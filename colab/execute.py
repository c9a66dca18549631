"""Runs notebooks from top to bottom, each in a fresh kernel of this Python.

    python -m colab.execute NAME ...                        # in place: their new outputs are kept
    python -m colab.execute NAME --set model=FOLDER         # of a run with another setting

A notebook runs in an empty folder, so what it writes is gone afterwards, and what is kept has no
paths of this machine, no widgets, no progress bars; figures of plotly get pictures, which Chromium
draws. The CPU time that its first cell names first ("3 min 29 s of CPU time") becomes that of the
run.
"""

import argparse
import base64
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from colab.common import refresh

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
_CPU_TIME = re.compile(r"(\d+\s+min\s+)?\d+\s+s\s+of\s+CPU\s+time")
_PLOTLY = "application/vnd.plotly.v1+json"
_WARNINGS = re.compile(r"^(WARNING|INFO:tensorflow|[WIE]\d{4} |\d{4}-\d\d-\d\d \d\d:)")


def execute(notebook, folder, timeout=1100, python=sys.executable, **environment):
    """Runs all cells of a notebook in place; its outputs are those of this run.

    Args:
        notebook: an `nbformat` notebook.
        folder: where its kernel starts, and so what its relative paths are relative to.
        timeout: seconds that one cell may take, or None.
        python: what runs the kernel. Default: this Python, whichever is first on the path.
        environment: more variables of the kernel's environment.

    Returns:
        `notebook`.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    import nbclient

    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "IPYTHONDIR": str(pathlib.Path(folder) / ".ipython"),
        "KERAS_BACKEND": "tensorflow",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PLOTLY_RENDERER": "plotly_mimetype",  # without plotly.js, 4 MB a page
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **environment,
    }
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=timeout,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = str(python)
    client.execute(env=environment)
    return notebook


def set_parameters(notebook, parameters):
    """Replace values of a notebook's settings, as one does in the form of the cell.

    Args:
        notebook: an `nbformat` notebook; its settings stand in the cell tagged "settings", in
            lines such as `text = "a.txt"  #@param {type:"string"}`.
        parameters: a dict of values by their names.

    Returns:
        The source of the cell as it was.

    Raises:
        ValueError: if there is no such setting.
    """
    cell = _settings(notebook)
    before = cell.source
    for name, value in parameters.items():
        line = rf"^{name} = .*?(?=  #@param)"
        shown = f"{name} = {value!r}"
        cell.source, found = re.subn(line, lambda _, s=shown: s, cell.source, flags=re.M)
        if not found:
            raise ValueError(f"the notebook has no setting {name!r}")
    return before


def _settings(notebook):
    """Returns the cell with the settings."""
    return next(c for c in notebook.cells if "settings" in c.metadata.get("tags", ()))


def clean(notebook):
    """Leaves of a notebook's outputs what a reader wants to see, and nothing of the machine."""
    import nbformat

    notebook.metadata = nbformat.from_dict(
        {
            "accelerator": notebook.metadata.get("accelerator", "GPU"),
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in ("tags", "cellView")}
        )
        if cell.cell_type == "code":
            cell.outputs = _joined([kept for out in cell.outputs if (kept := _clean_output(out))])
    return notebook


def _joined(outputs):
    """Printed pieces that follow one another as one: how they were cut is chance."""
    joined = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _clean_output(output):
    """An output without noise; None if nothing is left."""
    if output.output_type == "stream":
        if output.name == "stderr":
            return None
        lines = output.text.replace("\r\n", "\n").splitlines(keepends=True)
        output.text = "".join(line for line in lines if not _WARNINGS.match(line))
        return output if output.text else None
    if output.output_type in ("display_data", "execute_result"):
        output.metadata = type(output.metadata)()
        if "image/png" in output.data:  # not "<Figure size 500x300 with 1 Axes>" besides
            output.data.pop("text/plain", None)
        if "application/vnd.jupyter.widget-view+json" in output.data:
            return None
        if _PLOTLY in output.data:
            output.data["image/png"] = _drawn(output.data[_PLOTLY])
    return output


def _drawn(figure):
    """A figure of plotly as PNG in base64, for pages and viewers that have no plotly.js."""
    import PIL.Image
    import plotly.io
    from playwright.sync_api import sync_playwright

    figure = {name: figure[name] for name in ("data", "layout")}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport=dict(width=1200, height=900))
        page.set_content(plotly.io.to_html(figure, include_plotlyjs=True))
        picture = page.locator(".plotly-graph-div .main-svg").first.screenshot()
        browser.close()
    coloured, small = PIL.Image.open(io.BytesIO(picture)).convert("RGB"), io.BytesIO()
    coloured.quantize(32).save(small, "png", optimize=True)  # a fourth of the size
    return base64.b64encode(small.getvalue()).decode()


def main(names, parameters):
    """Executes notebooks of this folder, cleans them and writes them back."""
    import nbformat

    for name in names:
        path = HERE / f"{name.removesuffix('.ipynb')}.ipynb"
        notebook = refresh(nbformat.read(path, as_version=4), path.stem)
        settings = set_parameters(notebook, parameters)
        began, cpu = time.monotonic(), sum(os.times()[:4])
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, folder, timeout=None, TFNLP_TOY="0")
        _settings(notebook).source = settings
        seconds, cpu = time.monotonic() - began, sum(os.times()[:4]) - cpu
        spent = "{} min {} s of CPU time".format(*divmod(round(cpu), 60))
        first = notebook.cells[0]
        first.source = _CPU_TIME.sub(spent, first.source, count=1)
        nbformat.write(clean(notebook), path)
        size = path.stat().st_size / 1024
        print(f"{path.name}: {seconds:.0f} s, {spent}, {size:.0f} KiB", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m colab.execute", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as sentence_search")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of this run"
    )
    arguments = parser.parse_args()
    settings = dict(text.split("=", 1) for text in arguments.set)
    main(arguments.names, {k: int(v) if v.isdigit() else v for k, v in settings.items()})

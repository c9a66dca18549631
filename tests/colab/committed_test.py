"""The notebooks as they are in the repository: whole, executed, and without traces of a machine."""

import base64
import re

import pytest

pytest.importorskip("nbformat")
import nbformat  # noqa: E402

from colab.common import HERE  # noqa: E402
from tests.colab.notebooks import cell, is_drawn, names, read  # noqa: E402

pytestmark = pytest.mark.long

MACHINE_PATHS = re.compile(r"(?<![\w.}])/(tmp|home|root|work|usr|var|opt|mnt|Users)/|[A-Z]:\\Users")
KINDS = {"metadata": {"accelerator", "kernelspec", "language_info"}, "cell": {"tags", "cellView"}}


@pytest.fixture(params=names())
def notebook(request):
    return read(request.param)


@pytest.mark.parametrize("name", names())
def test_file_is_small_and_valid(name):
    path = HERE / f"{name}.ipynb"
    assert path.stat().st_size < 400 * 1024
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))


def test_was_executed_from_top_to_bottom_without_errors(notebook):
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    pictures = []
    for c in code:
        for output in c.outputs:
            assert output.output_type != "error", c.source
            assert output.get("name") != "stderr", c.source
            data = output.get("data", {})
            assert not any("widget" in kind for kind in data), c.source
            pictures += [base64.b64decode(data["image/png"])] if "image/png" in data else []
    assert pictures and all(is_drawn(picture, least=60) for picture in pictures)


def test_says_what_device_it_found(notebook):
    said = cell(notebook, "devices").outputs[0].text
    assert re.match(r"CPU\b", said) and re.search(r"minute|second", said)


def test_holds_nothing_of_the_machine_it_ran_on(notebook):
    assert set(notebook.metadata) <= KINDS["metadata"]
    for c in notebook.cells:
        assert set(c.metadata) <= KINDS["cell"]
        outputs = c.get("outputs", [])
        written = [c.source, *(output.get("text", "") for output in outputs)]
        written += [str(v) for o in outputs for k, v in o.get("data", {}).items() if "text" in k]
        for part in written:
            assert not MACHINE_PATHS.search(part), part
            assert not any(word in part for word in ("Traceback", "WARNING", "do_not_convert"))

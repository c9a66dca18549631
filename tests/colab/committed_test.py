"""The notebooks as they are in the repository: whole, executed, and without traces of a machine."""

import re

import pytest

nbformat = pytest.importorskip("nbformat")

from tests.colab.notebooks import names, read  # noqa: E402

MACHINE = re.compile(
    r"(?<![\w.}])/(tmp|home|root|work|usr|var|opt|mnt|Users)/|[A-Z]:\\Users|Traceback|WARNING"
)


@pytest.mark.long
@pytest.mark.parametrize("name", names())
def test_it_was_executed_and_holds_nothing_of_the_machine(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"accelerator", "kernelspec", "language_info"}
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    for c in notebook.cells:
        outputs = c.get("outputs", [])
        assert not {"error", "stderr"} & {
            x for o in outputs for x in (o.output_type, o.get("name"))
        }
        written = [c.source, *(output.get("text", "") for output in outputs)]
        written += [str(v) for o in outputs for k, v in o.get("data", {}).items() if "text" in k]
        assert not MACHINE.search("\n".join(written)), c.source

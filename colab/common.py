"""The cells that all notebooks share, and the address of this repository in them.

    python -m colab.common     # writes them into the notebooks: after they or the address changed

The address stands in setup.py.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
URL = re.search(r'^URL = "(.+?)"', (HERE.parent / "setup.py").read_text("utf-8"), re.M)[1]

INSTALL = f"""\
#@title Install {{ display-mode: "form" }}
#@markdown What to install: this address, a folder with tfnlp's code, or a wheel.
TFNLP = "tfnlp[huggingface,report,tfds] @ git+{URL}"  #@param {{type:"string"}}

import glob
import importlib.util
import os
import shutil
import time

if importlib.util.find_spec("tfnlp") is None:
    began = time.monotonic()
    install = "uv pip install --system" if shutil.which("uv") else "pip install"
    # On a TPU JAX trains; TensorFlow, on the CPU beside it, makes the batches.
    tpu = glob.glob("/dev/accel*") + glob.glob("/dev/vfio/[0-9]*")
    !{{install}} -q "{{TFNLP}}" {{'"jax[tpu]>=0.10"' if tpu else ""}}
    print(f"installed in {{time.monotonic() - began:.0f}} s")

if drive:  # a run that was cut off goes on from there
    from google.colab import drive as google_drive

    google_drive.mount("/content/drive")
    folder = os.path.join("/content/drive/MyDrive", folder)\
"""

_BADGE = re.compile(r"^\[!\[Open in Colab\]\(.*\n\n", re.M)


def badge(name):
    """Return the link that opens a notebook in Colab."""
    owner = URL.removeprefix("https://github.com/")
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    colab = f"https://colab.research.google.com/github/{owner}/blob/main/colab/{name}.ipynb"
    return f"[![Open in Colab]({picture})]({colab})"


def refresh(notebook, name):
    """Write the shared cells into a notebook: the badge below its title, and the installation."""
    first = notebook.cells[0]
    title, _, rest = _BADGE.sub("", first.source).partition("\n\n")
    first.source = f"{title}\n\n{badge(name)}\n\n{rest}"
    for cell in notebook.cells:
        if "install" in cell.metadata.get("tags", ()):
            cell.source = INSTALL
    return notebook


def main():
    """Refresh all notebooks of this folder."""
    import nbformat

    for path in sorted(HERE.glob("*.ipynb")):
        nbformat.write(refresh(nbformat.read(path, as_version=4), path.stem), path)


if __name__ == "__main__":
    main()

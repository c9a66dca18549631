"""The cells that all notebooks share, and the address of this repository wherever it stands.

    python -m colab.common [ADDRESS]     # `make address URL=ADDRESS`; "" takes it out again

Without ADDRESS that of setup.py stays, and the notebooks get the shared cells as they are here.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Lines that are there only with an address: file -> the line, and the start of the one before it.
LINES = {
    "CITATION.cff": ('repository-code: "{url}"', "license: "),
    "docs/install.md": ('pip install "tfnlp @ git+{url}"', "```text"),
    "mkdocs.yml": ("copyright: '<a href=\"{url}\">Source code</a>'", "site_description: "),
}

_INSTALL = """\
#@title Install { display-mode: "form" }
#@markdown An address (`git+https://...`), a folder with tfnlp's code, or a wheel. Empty: a wheel
#@markdown in this folder or in your Drive, or one that you upload. `make dist` makes it in a clone.
TFNLP = "ADDRESS"  #@param {type:"string"}

import glob
import importlib.util
import os
import pathlib
import shutil
import sys
import time

if drive:  # a run that was cut off goes on from there
    from google.colab import drive as google_drive

    google_drive.mount("/content/drive")
    folder = os.path.join("/content/drive/MyDrive", folder)

if importlib.util.find_spec("tfnlp") is None:
    if not TFNLP:
        wheels = glob.glob("tfnlp-*.whl") + glob.glob("/content/drive/MyDrive/tfnlp-*.whl")
        if not wheels and "google.colab" in sys.modules:
            from google.colab import files

            wheels = list(files.upload())
        if not wheels:
            raise FileNotFoundError("this folder has no tfnlp-*.whl: put one there, or set TFNLP")
        TFNLP = wheels[0]
    began = time.monotonic()
    extras = "huggingface,pictures,tfds"
    # On a TPU JAX trains, which Colab has; TensorFlow, on the CPU beside it, makes the batches.
    tpu = glob.glob("/dev/accel*") + glob.glob("/dev/vfio/[0-9]*")
    if tpu and importlib.util.find_spec("jax") is None:
        extras += ",tpu"
    place = TFNLP if "://" in TFNLP else pathlib.Path(TFNLP).resolve().as_uri()
    install = "uv pip install --system" if shutil.which("uv") else "pip install"
    !{install} -q "tfnlp[{extras}] @ {place}"
    print(f"installed in {time.monotonic() - began:.0f} s")\
"""

_BADGE = re.compile(r"^\[!\[Open in Colab\]\(.*\n\n", re.M)


def address(root=ROOT):
    """Return the address of this repository, which stands in setup.py; "" if it has none."""
    return re.search(r'^URL = "(.*)"', (root / "setup.py").read_text("utf-8"), re.M)[1]


def badge(name, url):
    """Return the link that opens a notebook in Colab, which takes them from GitHub alone."""
    owner = url.removeprefix("https://github.com/")
    if owner == url:
        return ""
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    colab = f"https://colab.research.google.com/github/{owner}/blob/main/colab/{name}.ipynb"
    return f"[![Open in Colab]({picture})]({colab})\n\n"


def refresh(notebook, name, url=None):
    """Write the shared cells into a notebook: the badge below its title, and the installation.

    `url` is the repository's address; None: that of setup.py.
    """
    url = address() if url is None else url
    first = notebook.cells[0]
    title, _, rest = _BADGE.sub("", first.source).partition("\n\n")
    first.source = f"{title}\n\n{badge(name, url)}{rest}"
    for cell in notebook.cells:
        if "install" in cell.metadata.get("tags", ()):
            cell.source = _INSTALL.replace("ADDRESS", f"git+{url}" if url else "")
    return notebook


def stamp(url, root=ROOT):
    """Write an address wherever this repository has one, in place of that which was there.

    Raises:
        ValueError: if it is no address that pip and git take.
    """
    import nbformat

    url = url.strip().rstrip("/").removesuffix(".git")
    if url and not re.fullmatch(r"https?://[\w.~:/-]+", url):
        raise ValueError(f"{url!r} is no address of a repository: https://host/owner/name")
    setup = root / "setup.py"
    code = re.sub(r'^URL = ".*"', f'URL = "{url}"', setup.read_text("utf-8"), flags=re.M)
    setup.write_text(code, "utf-8")
    for name, (line, before) in LINES.items():
        start = re.escape(line.partition("{url}")[0])
        text = re.sub(rf"^{start}.*\n", "", (root / name).read_text("utf-8"), flags=re.M)
        if url:
            place = re.compile(rf"^{re.escape(before)}.*\n", re.M)
            text = place.sub(lambda m, n=line: m[0] + n.format(url=url) + "\n", text, count=1)
        (root / name).write_text(text, "utf-8")
    for path in sorted((root / "colab").glob("*.ipynb")):
        nbformat.write(refresh(nbformat.read(path, as_version=4), path.stem, url), path)


if __name__ == "__main__":
    stamp(sys.argv[1] if sys.argv[1:] else address())

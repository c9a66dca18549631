"""What setup.py asks for, beside the packages that Colab has; and the address of the repository."""

import os
import shutil

import pytest
import setuptools  # noqa: F401  brings distutils where Python has none
from packaging.requirements import Requirement

import tfnlp
from colab.common import HERE, LINES, stamp
from tests.support import ROOT

# Colab's published list of August 2026 (Python 3.13), as far as tfnlp asks for the packages.
COLAB = {
    "absl-py": "1.4.0",
    "h5py": "3.16.0",
    "huggingface_hub": "1.27.0",
    "jax": "0.7.2",
    "kagglehub": "1.0.2",
    "keras": "3.13.2",
    "keras-hub": "0.26.0",
    "matplotlib": "3.10.0",
    "narwhals": "2.24.0",
    "numpy": "2.1.3",
    "plotly": "5.24.1",
    "rich": "13.9.4",
    "safetensors": "0.8.0",
    "scikit-learn": "1.6.1",
    "scipy": "1.16.3",
    "sentencepiece": "0.2.2",
    "tensorboard": "2.20.0",
    "tensorflow": "2.20.0",
    "tensorflow-datasets": "4.9.10",
    "tensorflow-text": "2.20.1",
    "tokenizers": "0.22.2",
}
# What the notebooks install, and what their texts name.
EXTRAS = ("huggingface", "tfds", "jax", "kaggle", "keras-hub", "pictures")
URL = "https://github.com/a/b"


@pytest.fixture(scope="module")
def asked():
    """The requirements by extra, those of all installations under ""."""
    from distutils.core import run_setup

    here = os.getcwd()
    os.chdir(ROOT)
    try:
        made = run_setup("setup.py", stop_after="init")
    finally:
        os.chdir(here)
    by_extra = {"": made.install_requires, **made.extras_require}
    return {extra: list(map(Requirement, given)) for extra, given in by_extra.items()}


def test_every_requirement_has_a_bound(asked):
    assert not [str(r) for given in asked.values() for r in given if not r.specifier]


def test_colab_keeps_its_versions(asked):
    wanted = [r for extra in ("", *EXTRAS) for r in asked[extra]]
    assert {r.name for r in wanted} - set(COLAB) == {"sentencex"}
    refused = [str(r) for r in wanted if r.name in COLAB and COLAB[r.name] not in r.specifier]
    assert not refused


def test_the_citation_is_of_this_version():
    assert f"\nversion: {tfnlp.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_an_address_is_written_everywhere_and_taken_out_again(tmp_path):
    names = ["setup.py", *LINES, *(f"colab/{path.name}" for path in HERE.glob("*.ipynb"))]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    stamp("", tmp_path)
    without = {name: (tmp_path / name).read_text("utf-8") for name in names}
    stamp(f"{URL}.git", tmp_path)
    stamp(f"{URL}/", tmp_path)
    for name in names:
        text = (tmp_path / name).read_text("utf-8")
        assert URL not in without[name] and URL in text
        badge = f"colab.research.google.com/github/a/b/blob/main/{name})"
        assert (badge in text) == name.endswith(".ipynb")
    stamp("", tmp_path)
    assert without == {name: (tmp_path / name).read_text("utf-8") for name in names}
    with pytest.raises(ValueError, match="no address"):
        stamp("git@host:a/b", tmp_path)

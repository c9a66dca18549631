"""The tests. Whatever runs them, or is run by them with `-m`, starts TensorFlow here, quickly."""

import os
import pathlib
import sys

from tfnlp.quick_imports import quick_imports

# Read once, when Keras and TensorFlow are first imported.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Toys are too small to be shared out, and several test processes run side by side.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# What they start loads TensorFlow as quickly: see `site/sitecustomize.py`.
_PATHS = [str(pathlib.Path(__file__).with_name("site"))]
_PATHS += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_PATHS))


def load():
    with quick_imports():
        import keras  # noqa: F401
        import tensorflow  # noqa: F401


# Pytest does it when it begins to look for tests (see `conftest`): where several processes share
# them, the one that hands them out does not, and so they begin sooner.
if "pytest" not in sys.modules:
    load()

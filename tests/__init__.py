"""The tests. Whatever runs them, or is run by them with `-m`, starts TensorFlow here, quickly."""

import os

from tfnlp.quick_imports import without_extras

# Read once, when Keras and TensorFlow are first imported.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Toys are too small to be shared out, and several test processes run side by side.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

with without_extras():
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

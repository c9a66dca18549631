"""Where tests find golden files (in the repository) and larger data sets (beside it, optional)."""

import os
import pathlib

import pytest

GOLDENS = pathlib.Path(__file__).resolve().parent / "goldens"
SHARED = pathlib.Path(
    os.environ.get("TFNLP_SHARED_DATA", GOLDENS.parent.parent.parent / "shared" / "data")
)


def golden(name: str) -> pathlib.Path:
    """Path of a golden file or folder that ships with the tests."""
    path = GOLDENS / name
    if not path.exists():
        raise FileNotFoundError(f"golden file {path} is missing from the checkout")
    return path


def shared_data(name: str) -> pathlib.Path:
    """Path of a data set beside the checkout; the test is skipped where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the data set {name} (set TFNLP_SHARED_DATA)")
    return path


def without_values():
    """A scope in which models are made whose weights have shapes and nothing else.

    For the sizes of the papers: filling BERT-large would take 1.3 GB.
    """
    import keras

    return keras.StatelessScope(initialize_variables=False)


def traced(encoder):
    """An ELMo encoder as a function of character ids; step by step it takes 30 times as long."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None, 50], "int32")], autograph=False)
    def outputs(ids):
        return encoder({"character_ids": ids})

    return outputs

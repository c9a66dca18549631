"""Steps of published models with the sizes of toys, and what needs the TPU's compiler."""

import importlib.util

import pytest

from tfnlp.plan.presets import Preset

TRANSFORMER = dict(
    vocab_size=256, num_layers=1, hidden_size=128, num_heads=2, intermediate_size=256
)
ELMO = dict(num_layers=1, units=128, projection_size=128, num_highway=1, filters=((1, 64), (2, 64)))
needs_compiler = pytest.mark.skipif(
    not all(importlib.util.find_spec(p) for p in ("jax", "libtpu")),
    reason="needs the TPU's compiler: pip install -e '.[tpu-plan]'",
)


def toy(name, **more):
    """The preset of a model with 8 rows and the sizes of a toy."""
    elmo = name.startswith("elmo")
    sizes = dict(sizes=ELMO if elmo else TRANSFORMER, length=4 if elmo else 16)
    return Preset(name=name, vocab_size=256, **{"rows": 8, **sizes, **more})

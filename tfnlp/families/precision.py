"""The numbers that a run computes matrix products in."""

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def dtype_policy(name: str | None) -> Iterator[None]:
    """Build layers with a Keras dtype policy; None: the global one."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if name is None else name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def check_precision(loaded: Any, dtype: str | None) -> None:
    """Refuse a dtype policy of exported modules, which keep their own."""
    if dtype is not None and loaded.saved:
        raise ValueError(
            f"{loaded.path} was exported and keeps its numbers; give the run or checkpoint that it "
            "was made from, or leave out --bf16"
        )

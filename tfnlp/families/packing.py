"""Runs whose rows had several documents that do not see each other: see `PackSettings`."""

from typing import Any

from tfnlp.settings.text import PackSettings


def check_pack(config: PackSettings) -> None:
    """Check that rows can be packed."""
    if config.pack and config.examples is not None:
        raise ValueError("`pack` needs `text`: the rows of `examples` are prepared, and other ones")


def was_packed(loaded: Any) -> bool:
    """Return whether a `Pretrained` is of a run with `pack`."""
    return bool(loaded.run) and bool(loaded.run["training"].get("pack"))


def packed_pretrainer(loaded: Any) -> Any:
    """Return the pretrainer of a run that reads packed rows, with copies of the weights."""
    run = loaded.run
    arguments = {**run["arguments"], "packed": True}
    _, pretrainer = loaded.family.build(arguments, run.get("heads") or {}, None)
    pretrainer.set_weights(loaded.pretrainer.get_weights())
    return pretrainer

"""Rematerialisation: activations that are computed again in the backward pass, not kept for it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras.src.backend.common.variables import AutocastScope, get_autocast_scope

from tfnlp.layers.base import Tensor
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.kernels.backend import forms, has_kernels

REMAT = ("none", "blocks", "full")
_MODE = contextvars.ContextVar("remat", default="none")


def check_remat(mode: str) -> None:
    """Raise a ValueError for an unknown mode of `rematerialization`."""
    if mode not in REMAT:
        raise ValueError(f"remat={mode!r} must be one of {', '.join(REMAT)}")


@contextlib.contextmanager
def rematerialization(mode: str) -> Iterator[None]:
    """Return a scope in which layers that are called in training keep fewer activations.

    A backward pass needs the activations of the forward pass. In this scope some are computed again
    when they are needed, from the same weights and with the same dropout masks (Chen et al. 2016,
    section 4.1): the loss and the gradients stay the same. Only the calls have to be in the
    scope, not the gradient. `Trainer(remat=...)` makes it; around `fit` of Keras it does the same.

    Args:
        mode: "none": all activations are kept. "blocks": of each `TransformerBlock` and each LSTM
            of a `BiLM` the inputs alone; a step has one more forward pass of their products, a
            third more work. "full": as "blocks", and in the backward pass of a block its attention
            and its feed-forward net come one after the other, for which attention is computed once
            more; of a `CharCNN` the character ids are kept.

    Raises:
        ValueError: for another mode.
    """
    check_remat(mode)
    token = _MODE.set(mode)
    try:
        yield
    finally:
        _MODE.reset(token)


def rematerialized(
    function: Callable[..., Any],
    arrays: Sequence[Tensor | None],
    layers: Sequence[keras.layers.Layer],
    training: bool,
    full: bool = False,
) -> Any:
    """Return `function(*arrays)`; in the scopes that say so, keep `arrays` alone for its gradient.

    Args:
        function: of tensors to a tensor or a tuple of tensors. What it computes with tensors that
            are not in `arrays` has no gradient with respect to them.
        arrays: its arguments, of which some may be None.
        layers: all that it calls. Each `Dropout` in them is called once.
        training: nothing changes without it.
        full: keep less with the mode "full" alone.
    """
    mode = _MODE.get()
    if not (training and has_kernels()) or mode == "none" or (full and mode != "full"):
        return function(*arrays)
    variables = [v for layer in layers for v in layer.variables]
    with AutocastScope(None):  # the weights themselves: each layer casts its own
        values = [v.value for v in variables]
    given = [x for x in arrays if x is not None]
    autocast = get_autocast_scope()
    dtype = None if autocast is None else autocast.dtype

    def of_values(*tensors: Tensor) -> Any:
        rest = iter(tensors[: len(given)])
        own = [None if x is None else next(rest) for x in arrays]
        scope = keras.StatelessScope(list(zip(variables, tensors[len(given) :], strict=True)))
        # TensorFlow calls it again outside of the scopes of the first call.
        with rematerialization(mode), AutocastScope(dtype), scope:
            return function(*own)

    outputs = forms.rematerialized(of_values, [*given, *values])
    for layer in layers:  # The draws of the call itself were in another scope.
        for part in layer._flatten_layers():
            if isinstance(part, Dropout) and part.rate > 0:
                part.seed_generator.next()
    return outputs

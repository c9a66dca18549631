"""Optimizers with a sum of squares: Adagrad, for each number or for each row."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.training.optimizer_base import Gradient, Optimizer


class Adagrad(Optimizer):
    """`a += g^2`, `w -= rate * g / sqrt(a)` (Duchi et al. 2011).

    Args:
        initial_accumulator: `a` before the first update; 1.0 in ELMo's reference code.
    """

    slot_names = ("accumulator",)

    def __init__(self, initial_accumulator: float = 1.0, weight_decay: float = 0.0) -> None:
        super().__init__(weight_decay)
        if not initial_accumulator > 0:
            raise ValueError(f"initial_accumulator={initial_accumulator} must be positive")
        self.initial_accumulator = self.slot_value = initial_accumulator

    def update(
        self,
        weight: Tensor,
        gradient: Tensor,
        decays: bool,
        accumulator: Tensor,
        rate: Tensor,
        decay: Tensor | None,
    ) -> tuple[Tensor, ...]:
        if decays:
            weight -= decay * weight
        accumulator += ops.square(gradient)
        return weight - rate * gradient * ops.rsqrt(accumulator), accumulator

    def assign(
        self,
        var: tf.Variable,
        gradient: Gradient,
        decays: bool,
        accumulator: tf.Variable,
        rate: tf.Tensor,
        decay: tf.Tensor | None,
    ) -> None:
        if decays:
            var.assign_sub(decay * var)
        tf.raw_ops.ResourceApplyAdagrad(
            var=var.handle, accum=accumulator.handle, lr=rate, grad=gradient
        )


class RowwiseAdagrad(Adagrad):
    """`a_r += mean(g_r^2)`, `w_r -= rate * g_r / sqrt(a_r)`: Adagrad with one number a row.

    r is an index of the first axis, and the mean is over all others. It suits tables of which a
    step uses few rows: with a gradient of these rows alone, no other rows are read.

    Args:
        initial_accumulator: `a` before the first update.
    """

    takes_rows = True

    def slot_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:1], *[1] * (len(shape) - 1))

    def update(
        self,
        weight: Tensor,
        gradient: Tensor,
        decays: bool,
        accumulator: Tensor,
        rate: Tensor,
        decay: Tensor | None,
    ) -> tuple[Tensor, ...]:
        if decays:
            weight -= decay * weight
        squares = ops.square(gradient)
        if len(gradient.shape) > 1:
            axes = tuple(range(1, len(gradient.shape)))
            squares = ops.mean(squares, axis=axes, keepdims=True)
        accumulator += squares  # [rows, 1]
        return weight - gradient * (rate * ops.rsqrt(accumulator)), accumulator

    def assign(
        self,
        var: tf.Variable,
        gradient: Gradient,
        decays: bool,
        *slots: tf.Variable,
        **scalars: Any,
    ) -> None:
        if not isinstance(gradient, tf.IndexedSlices):
            Optimizer.assign(self, var, gradient, decays, *slots, **scalars)
            return
        if decays:
            var.assign_sub(scalars["decay"] * var)
        # Every row is named once. To read it and write it back is faster than to subtract in place.
        variables = (var, *slots)
        weight, *values = (tf.gather(x, gradient.indices) for x in variables)
        new = self.update(weight, gradient.values, False, *values, **scalars)
        for variable, rows in zip(variables, new, strict=True):
            variable.scatter_update(tf.IndexedSlices(rows, gradient.indices))

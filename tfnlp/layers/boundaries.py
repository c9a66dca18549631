"""Marks of the beginning and the end of a sentence."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, as_ids
from tfnlp.layers.types import Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class SentenceBoundaries(Layer):
    """A layer that adds a mark before and a mark after the real tokens of each row.

    `[w_1 .. w_n 0 .. 0]` of length T becomes `[begin w_1 .. w_n end 0 .. 0]` of length T + 2. A
    token is real if its first id is not 0, or if a real token follows it.

    Args:
        begin, end: the ids of one mark each, e.g. the characters of `<S>` and `</S>`.

    Call: int32 `[B, T, C]`, C = len(begin), to int32 `[B, T + 2, C]`.
    """

    def __init__(self, begin: Sequence[int], end: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of ids, which narrow floats would round
        self.begin = [int(i) for i in begin]
        self.end = [int(i) for i in end]
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        inputs = as_ids(inputs)
        places = ops.arange(ops.shape(inputs)[1])
        real = ops.cast(ops.not_equal(inputs[:, :, 0], 0), "int32")  # [B, T]
        length = ops.max(real * (places + 1), axis=1, initial=0)  # [B]
        padded = ops.pad(inputs, [[0, 0], [1, 1], [0, 0]])
        places = ops.arange(ops.shape(padded)[1])[None, :, None]
        begin, end = (ops.convert_to_tensor(mark, inputs.dtype) for mark in (self.begin, self.end))
        padded = ops.where(places == 0, begin, padded)
        return ops.where(places == length[:, None, None] + 1, end, padded)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        batch, time, size = inputs.shape
        dtype = "int32" if keras.backend.is_float_dtype(inputs.dtype) else inputs.dtype
        return keras.KerasTensor((batch, None if time is None else time + 2, size), dtype)

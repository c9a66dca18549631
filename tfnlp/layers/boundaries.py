"""The marks that open and close a sentence."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfnlp")
class SentenceBoundaries(keras.layers.Layer):
    """Puts a begin mark before and an end mark after the real tokens of each row.

    `[w_1 .. w_n 0 .. 0]` of T places becomes `[begin w_1 .. w_n end 0 .. 0]` of T + 2. A token is
    real if its first id is not 0; tokens are taken to be real up to the last real one.

    Args:
        begin, end: the ids of one mark each, e.g. the characters of `<S>` and `</S>`.

    Call: int32 `[B, T, C]`, C = len(begin), to int32 `[B, T + 2, C]`.

    Raises:
        ValueError: for marks of unequal length, or of another length than C.
    """

    def __init__(self, begin, end, **kwargs):
        super().__init__(**kwargs)
        if len(begin) != len(end):
            raise ValueError(f"begin has {len(begin)} ids and end {len(end)}; give equally many")
        self.begin = [int(i) for i in begin]
        self.end = [int(i) for i in end]
        self.built = True

    def call(self, inputs):
        if inputs.shape[-1] != len(self.begin):
            raise ValueError(f"tokens have {inputs.shape[-1]} ids, the marks {len(self.begin)}")
        places = ops.arange(ops.shape(inputs)[1])
        real = ops.cast(ops.not_equal(inputs[:, :, 0], 0), "int32")  # [B, T]
        length = ops.max(real * (places + 1), axis=1, initial=0)  # [B]
        padded = ops.pad(inputs, [[0, 0], [1, 1], [0, 0]])
        places = ops.arange(ops.shape(padded)[1])[None, :, None]
        begin, end = (ops.convert_to_tensor(mark, inputs.dtype) for mark in (self.begin, self.end))
        padded = ops.where(places == 0, begin, padded)
        return ops.where(places == length[:, None, None] + 1, end, padded)

    def compute_output_spec(self, inputs):
        batch, time, size = inputs.shape
        return keras.KerasTensor((batch, None if time is None else time + 2, size), inputs.dtype)

    def get_config(self):
        return {**super().get_config(), "begin": self.begin, "end": self.end}

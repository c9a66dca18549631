"""The dense layers inside the blocks, made and built in one call."""

import keras


def built_dense(width, units, kernel_initializer, dtype, name, activation=None):
    """A `keras.layers.Dense` from `width` to `units` whose weights exist already.

    `kernel_initializer` is copied through its config, so that kernels which share an unseeded
    initializer still start from different random numbers.
    """
    layer = keras.layers.Dense(
        units,
        activation=activation,
        kernel_initializer=keras.initializers.get(
            keras.initializers.serialize(kernel_initializer)
        ),
        dtype=dtype,
        name=name,
    )
    layer.build((None, width))
    return layer

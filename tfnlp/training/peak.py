"""How fast this machine's devices multiply matrices: what a step's speed is measured against."""

import time

import tensorflow as tf

_SECONDS = 0.12  # of measuring products of one size
_LOW_PRECISION = ("bfloat16", "float16")
_measured = {}


def matmul_rate(strategy, devices, dtype, again=False):
    """Operations a second that all of this worker's replicas reach together.

    Square matrix products, the best of several short runs, on every replica at the same time:
    replicas that share a processor are thus not counted twice. Measured once in a process, but
    for those who ask again: other work on the machine may have been in the way.

    Args:
        strategy: the `tf.distribute.Strategy` that trains.
        devices: names of the devices of this worker's replicas.
        dtype: of the matrices.
        again: measure once more and take the best.

    Returns:
        a float, or None if there is no room or the device doesn't multiply that type.
    """
    key = (*devices, dtype)
    if key not in _measured or (again and _measured[key] is not None):
        try:
            rate = _measure(strategy, devices, dtype)
            _measured[key] = max(rate, _measured.get(key, 0.0))
        except tf.errors.OpError:
            _measured.setdefault(key)
    return _measured[key]


def matmul_dtype(model):
    """The type that most of a Keras model's matrix products have: a low precision if any has."""
    dtypes, layers = set(), [model]
    while layers:
        layer = layers.pop()
        layers.extend(getattr(layer, "layers", ()))
        dtypes.add(layer.compute_dtype)
    return next((dtype for dtype in _LOW_PRECISION if dtype in dtypes), "float32")


def _measure(strategy, devices, dtype):
    # An accelerator needs large products to be busy, and several of them to hide the call. Of a
    # processor short ones find the moments when nobody else is at work.
    cpu = all("CPU" in device for device in devices)
    sizes, chain = ((1024, 2048), 1) if cpu else ((4096,), 10)

    def square(size):
        x = tf.random.stateless_normal((size, size), (0, 1)) * size**-0.5  # so powers stay finite
        return tf.cast(x, dtype)

    def multiply(x):
        y = x
        for _ in range(chain):
            y = tf.matmul(x, y)
        return tf.reduce_max(tf.cast(y, "float32"))

    @tf.function(autograph=False)
    def run(x):
        return strategy.run(multiply, args=(x,))

    def seconds(x):
        start = time.perf_counter()
        for result in strategy.experimental_local_results(run(x)):
            result.numpy()  # waits for the device
        return time.perf_counter() - start

    rates = []
    for size in sizes:
        x = tf.function(lambda size=size: strategy.run(square, args=(size,)), autograph=False)()
        seconds(x)  # traces
        times = [seconds(x)]
        while sum(times) < _SECONDS:
            times.append(seconds(x))
        rates.append(len(devices) * chain * 2 * size**3 / min(times))
    return max(rates)

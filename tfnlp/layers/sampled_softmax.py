"""Softmaxes over many words that are trained on samples of them."""

import functools
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, Shape, Tensor, as_ids, check_positive

_BLOCK = 65536  # words of the full softmax that are computed together
_NEVER = -1e30  # a score whose probability is 0


@keras.saving.register_keras_serializable(package="tfnlp")
class SampledSoftmax(Layer):
    """`-log softmax(x W^T + b)[y]`, in training with an estimate of the normalizer.

    With scores `s_w = x . W_w + b_w` the loss is `log Z - s_y`, `Z = sum_w exp s_w`. At inference
    Z is computed in full. In training it is estimated from sampled words as

        Z' = exp s_y + sum over samples w != y of exp(s_w) / n_w

    where n_w is the expected number of times that w is in the sample. A sampled target
    ("accidental hit") is left out, as exp s_y contains it; so E[Z'] = Z, and Z' -> Z as the sample
    grows. Jean et al. 2015, section 3.1; the correction is that of Bengio & Senecal 2008, eq. 5.

    Words are sampled log-uniformly, `p_w = log((w + 2) / (w + 1)) / log(V + 1)`, so ids must be
    sorted by falling frequency. `n_w = min(1, k p_w)` with k such that the n_w add up to
    `num_samples`: the frequent words are in every sample once (with replacement the first would be
    there hundreds of times), the others are drawn by one uniform number in each unit of the
    cumulated n_w. The operations are uniform numbers, searches and gathers, which XLA compiles.

    Args:
        vocab_size: V.
        num_samples: sampled words, the same for all targets of a call; None or V and above: the
            full softmax in training too.

    Call:
        inputs: `[..., P]`, any float.
        targets: int32 `[...]`, or None.

    Returns:
        losses, float32 `[...]`, or without targets the logits, float32 `[..., V]`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_samples: int | None = 8192,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, num_samples=num_samples)
        self.vocab_size = vocab_size
        self.num_samples = num_samples
        self.seed = seed
        self.autocast = False  # scores and losses are float32 under any policy
        self._sampled = num_samples is not None and num_samples < vocab_size
        if self._sampled:
            self.seed_generator = keras.random.SeedGenerator(seed)
            # Fixed-point numbers, int32: the n_w used are exactly those drawn with.
            self._unit = 1 << int(np.log2((2**31 - 1) // num_samples))

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """The cumulated n_w as fixed-point numbers, int32 `[V]`, computed on first use."""
        counts = expected_counts(self.vocab_size, self.num_samples)
        return np.rint(np.cumsum(counts) * self._unit).astype("int32")

    @functools.cached_property
    def _log_expected(self) -> np.ndarray:
        """`log n_w`, float64 `[V]`."""
        return np.log(np.diff(self._ends, prepend=0) / self._unit)

    def build(self, inputs_shape: Shape, targets_shape: Shape | None = None) -> None:
        size = inputs_shape[-1]
        normal = keras.initializers.RandomNormal(stddev=size**-0.5)
        self.kernel = self.float32_weight("kernel", (self.vocab_size, size), normal)
        self.bias = self.float32_weight("bias", (self.vocab_size,), self._bias_initializer())

    def _bias_initializer(self) -> Any:
        return "zeros"

    def call(self, inputs: Tensor, targets: Tensor | None = None, training: bool = False) -> Tensor:
        if targets is None:
            kernel = ops.transpose(self.kernel)
            return ops.matmul(ops.cast(inputs, "float32"), kernel) + self.bias
        x = ops.cast(ops.reshape(inputs, (-1, inputs.shape[-1])), "float32")  # [N, P]
        y = as_ids(ops.reshape(targets, (-1,)))  # [N]
        sampled = training and self._sampled
        losses = self._sampled_losses(x, y) if sampled else self._full_losses(x, y)
        return ops.reshape(losses, ops.shape(targets))

    def _full_losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log Z - s_y` `[N]`, in blocks of words: scores `[N, V]` may exceed the memory."""
        true = self._true_scores(x, y)
        count = -(-self.vocab_size // _BLOCK)
        size = -(-self.vocab_size // count)

        def block(index: Tensor, log_z: Tensor) -> tuple[Tensor, Tensor]:
            first = index * size
            start = ops.minimum(first, self.vocab_size - size)  # the last block overlaps
            weights = ops.slice(self.kernel, (start, 0), (size, x.shape[-1]))
            scores = ops.matmul(x, ops.transpose(weights)) + ops.slice(self.bias, (start,), (size,))
            if self.vocab_size % size:  # words that an earlier block counted are left out
                counted = ops.arange(size) + start < first
                scores = ops.where(counted, ops.full((), _NEVER, "float32"), scores)
            return index + 1, ops.logaddexp(log_z, ops.logsumexp(scores, axis=-1))

        if count == 1:
            scores = ops.matmul(x, ops.transpose(self.kernel)) + self.bias  # [N, V]
            return ops.logsumexp(scores, axis=-1) - true
        start = (0, ops.full(ops.shape(y), _NEVER, "float32"))
        log_z = ops.while_loop(lambda index, _: index < count, block, start, count)[1]
        return log_z - true

    def _true_scores(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.sum(x * ops.take(self.kernel, y, axis=0), -1) + ops.take(self.bias, y)

    def _sampled_losses(self, x: Tensor, y: Tensor) -> Tensor:
        words, logits, _ = self._sampled_scores(x)
        hits = ops.equal(y[:, None], words[None])
        logits = ops.where(hits, ops.full((), _NEVER, "float32"), logits)
        true = self._true_scores(x, y)
        everything = ops.concatenate([true[:, None], logits], -1)  # [N, 1 + K]
        return ops.logsumexp(everything, axis=-1) - true

    def _sampled_scores(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return sampled words `[K]`, their scores less `log n_w` `[N, K]`, and `log n` `[V]`."""
        words = self._sample()
        log_expected = ops.convert_to_tensor(self._log_expected, "float32")
        weights = ops.take(self.kernel, words, axis=0)
        biases = ops.take(self.bias, words) - ops.take(log_expected, words)
        return words, ops.matmul(x, ops.transpose(weights)) + biases, log_expected

    def _sample(self) -> Tensor:
        """Return `num_samples` word ids, one from each unit of the cumulated expected counts."""
        shape = (self.num_samples,)
        places = keras.random.randint(shape, 0, self._unit, "int32", seed=self.seed_generator)
        places = places + ops.arange(self.num_samples, dtype="int32") * self._unit
        ends = ops.convert_to_tensor(self._ends, "int32")
        return _count_up_to(ends, places)

    def compute_output_spec(
        self, inputs: Tensor, targets: Tensor | None = None, training: bool = False
    ) -> keras.KerasTensor:
        if targets is None:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocab_size), dtype="float32")
        return keras.KerasTensor(targets.shape, dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class NoiseContrastiveSoftmax(SampledSoftmax):
    """`-log sigmoid(s_y - log n_y) - sum over samples w of log sigmoid(-(s_w - log n_w))`.

    That is the loss in training, with `s_w = x . W_w + b_w`; `n_w = k q_w` is how often w is
    expected in the k samples, which all targets of a call share. At inference the loss is
    `-log softmax(x W^T + b)[y]`. Mnih & Teh 2012, with the normalizer 1.

    The samples are those of `SampledSoftmax`: log-uniform, so ids must be sorted by falling
    frequency. A target that is in the samples counts there, too, as in `tf.nn.nce_loss`, whose
    formula this is. Biases begin at `-log V`, where the scores are normalized.

    Args, call, returns: as `SampledSoftmax`.
    """

    def _bias_initializer(self) -> keras.initializers.Initializer:
        return keras.initializers.Constant(-math.log(self.vocab_size))

    def _sampled_losses(self, x: Tensor, y: Tensor) -> Tensor:
        _, noise, log_expected = self._sampled_scores(x)
        true = self._true_scores(x, y) - ops.take(log_expected, y)
        return ops.softplus(-true) + ops.sum(ops.softplus(noise), -1)


def _count_up_to(ends: Tensor, places: Tensor) -> Tensor:
    """Return how many of `ends`, int32 `[V]` and rising, are at most each place: `searchsorted`.

    The TPU's compiler turns `searchsorted` into a comparison of every place with every end, two
    thirds of the time of ELMo's step. Binary search takes log2 V gathers; on a CPU both are equal.
    """
    size = ends.shape[0]
    count = ops.zeros_like(places)
    for bit in reversed(range(size.bit_length())):
        further = count + (1 << bit)
        end = ops.take(ends, ops.minimum(further, size) - 1)
        passed = ops.logical_and(further <= size, end <= places)
        count = ops.where(passed, further, count)
    return count


def expected_counts(vocab_size: int, num_samples: int) -> np.ndarray:
    """Return n_w, float64 `[V]`: `min(1, k p_w)` with k such that the sum is `num_samples`."""
    words = np.arange(vocab_size)
    p = np.log((words + 2) / (words + 1)) / np.log(vocab_size + 1)  # falling
    # With n_w = 1 for the first m words, k distributes the remaining samples over the others.
    rest = p[::-1].cumsum()[::-1]
    for certain in range(num_samples):
        k = (num_samples - certain) / rest[certain]
        if k * p[certain] <= 1:
            return np.minimum(1.0, k * p)
    return np.minimum(1.0, k * p)

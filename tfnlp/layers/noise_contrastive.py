"""Noise-contrastive estimation: a model of words learns to tell them from noise.

Gutmann & Hyvärinen 2010; for language models Mnih & Teh 2012. With the scores s of words in a
context and k words of noise for each word of the text, drawn with the probabilities q,

    -log sigmoid(s_w - log(k q_w)) - sum over noise words n of log sigmoid(-(s_n - log(k q_n)))

is the loss of a word w. Where it is least, `exp s_w` is the probability of w in its context,
without a sum over all words: biases learn what the normalizer would be.
"""

import math

import keras
import numpy as np
from keras import ops

from tfnlp.layers.negative_sampling import CBOWLoss, SkipGramLoss
from tfnlp.layers.sampled_softmax import SampledSoftmax
from tfnlp.layers.types import Shape, Tensor
from tfnlp.layers.word_embedding import look_up


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
        words = self._sample()  # [K]
        log_expected = ops.convert_to_tensor(self._log_expected, "float32")  # [V]
        shifts = ops.take(self.bias, words) - ops.take(log_expected, words)
        noise = ops.matmul(x, ops.transpose(ops.take(self.kernel, words, axis=0))) + shifts
        true = self._true_scores(x, y) - ops.take(log_expected, y)
        return ops.softplus(-true) + ops.sum(ops.softplus(noise), -1)


class _Noise:
    """What both losses of word2vec add to those of negative sampling: biases, and log(k q)."""

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        shape, uniform = (self.vocab_size,), keras.initializers.Constant(-math.log(self.vocab_size))
        self.bias = self.float32_weight("bias", shape, uniform)
        self.log_noise = self.float32_weight("log_noise", shape, uniform, trainable=False)

    def set_counts(self, counts: np.ndarray) -> None:
        """Take `counts^0.75`, int `[V]`, as the noise that `negative_ids` are drawn from."""
        weights = np.asarray(counts, "float64") ** 0.75
        # Words that are never drawn are never a target either; they only need a finite number.
        least = weights[weights > 0].min()
        self.log_noise.assign(np.log(np.maximum(weights, least) / weights.sum()))

    def _shifts(self, ids: Tensor) -> Tensor:
        noise = math.log(self.negatives) + look_up(self.log_noise, ids)
        return look_up(self.bias, ids) - noise


@keras.saving.register_keras_serializable(package="tfnlp")
class NCESkipGramLoss(_Noise, SkipGramLoss):
    """`-log sigmoid(s_co - log(k q_c)) - k/N sum over n of log sigmoid(-(s_no - log(k q_n)))`.

    The sum over pairs (c, o) and negatives n as in `SkipGramLoss`, with `s_co = u_c . v_o + b_c`. q
    is the noise that negatives are drawn from, at first uniform (see `set_counts`). Where the
    loss is least, `exp s_co` is the probability of c beside o.

    Args, call, returns: as `SkipGramLoss`.
    """


@keras.saving.register_keras_serializable(package="tfnlp")
class NCECBOWLoss(_Noise, CBOWLoss):
    """`-log sigmoid(s_c - log(k q_c)) - k/N sum over n of log sigmoid(-(s_n - log(k q_n)))`.

    The sum of this over centres c and negatives n as in `CBOWLoss`, `s_n = u_n . h_c + b_n`; see
    `NCESkipGramLoss`.

    Args, call, returns: as `CBOWLoss`.
    """

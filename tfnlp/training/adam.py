"""Optimizers with two moments: AdamW in its forms, and LAMB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfnlp.training.optimizer_base import Optimizer


class AdamW(Optimizer):
    """Adam with decoupled weight decay, `w -= rate (m^ / (sqrt v^ + eps) + lambda w)`.

    `m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`,
    `m^ = m / (1 - b1^t)` and `v^ = v / (1 - b2^t)` in update t = 1, 2, ...: Loshchilov & Hutter
    2019, algorithm 2, and torch's `AdamW`. Two other forms:

    - `epsilon_hat=True`: epsilon stands beside the uncorrected root,
      `m^ / ((sqrt v + eps) / sqrt(1 - b2^t))`, as in the Adam and AdamW of Keras and TensorFlow
      ("epsilon hat" in Kingma & Ba 2015, section 2).
    - `bias_correction=False`: `m^ = m` and `v^ = v`, as in BERT's reference code; see `bert_adamw`.

    Args:
        beta_1: b1.
        beta_2: b2.
        epsilon: eps.
        weight_decay: lambda.
        exclude: see `Optimizer`.
        bias_correction: see above.
        epsilon_hat: see above.
    """

    slot_names = ("m", "v")

    def __init__(
        self,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        exclude: Sequence[str] | None = None,
        bias_correction: bool = True,
        epsilon_hat: bool = False,
    ) -> None:
        super().__init__(weight_decay, exclude)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction, self.epsilon_hat = bias_correction, epsilon_hat

    def scalars(self, rate: tf.Tensor, step: tf.Tensor) -> dict[str, Any]:
        powers, epsilon = [tf.constant(0.0)] * 2, tf.constant(self.epsilon)
        if self.bias_correction:
            updates = tf.cast(step, "float32") + 1.0
            powers = [tf.pow(b, updates) for b in (self.beta_1, self.beta_2)]
            if not self.epsilon_hat:
                epsilon *= tf.sqrt(1.0 - powers[1])
        return {
            **super().scalars(rate, step),
            # With these powers p the kernel computes rate sqrt(1 - p2) / (1 - p1) m / (sqrt v + e).
            "beta1_power": powers[0],
            "beta2_power": powers[1],
            "beta1": tf.constant(self.beta_1),
            "beta2": tf.constant(self.beta_2),
            "epsilon": epsilon,
        }

    def update(
        self,
        var: tf.Variable,
        gradient: tf.Tensor,
        decays: bool,
        m: tf.Variable,
        v: tf.Variable,
        rate: tf.Tensor,
        decay: tf.Tensor | None,
        **settings: tf.Tensor,
    ) -> None:
        if decays:
            var.assign_sub(decay * var)
        # One fused pass over w, m and v.
        tf.raw_ops.ResourceApplyAdam(
            var=var.handle, m=m.handle, v=v.handle, lr=rate, grad=gradient, **settings
        )


class LAMB(Optimizer):
    """`u = m^ / (sqrt v^ + eps) + lambda w`, `w -= rate * |w| / |u| * u` for each variable.

    You et al. 2020, algorithm 2 (with bias correction). Variables that are not decayed keep a
    ratio of 1, as in the authors' code.
    """

    slot_names = ("m", "v")

    def __init__(
        self,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        exclude: Sequence[str] | None = None,
    ) -> None:
        super().__init__(weight_decay, exclude)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def scalars(self, rate: tf.Tensor, step: tf.Tensor) -> dict[str, Any]:
        updates = tf.cast(step, "float32") + 1.0
        betas = self.beta_1, self.beta_2
        return {
            "rate": rate,
            "decay": tf.constant(self.weight_decay),
            "keep": [tf.constant(b) for b in betas],
            "add": [tf.constant(1 - b) for b in betas],
            "corrections": [1 - tf.pow(b, updates) for b in betas],
            "epsilon": tf.constant(self.epsilon),
        }

    def update(
        self,
        var: tf.Variable,
        gradient: tf.Tensor,
        decays: bool,
        m: tf.Variable,
        v: tf.Variable,
        rate: tf.Tensor,
        decay: tf.Tensor,
        keep: list[tf.Tensor],
        add: list[tf.Tensor],
        corrections: list[tf.Tensor],
        epsilon: tf.Tensor,
    ) -> None:
        new_m = m.assign(keep[0] * m + add[0] * gradient)
        new_v = v.assign(keep[1] * v + add[1] * tf.square(gradient))
        u = (new_m / corrections[0]) / (tf.sqrt(new_v / corrections[1]) + epsilon)
        if decays:
            u += decay * var
            w_norm, u_norm = tf.norm(var), tf.norm(u)
            rate *= tf.where((w_norm > 0) & (u_norm > 0), w_norm / u_norm, 1.0)
        var.assign_sub(rate * u)


def adam(weight_decay: float = 0.0) -> AdamW:
    """Return the Adam that trained the Transformer (Vaswani et al. 2017, section 5.3).

    `AdamW` with b2 = 0.98, epsilon = 1e-9 and bias correction, by default without weight decay.
    Epsilon stands where TensorFlow's Adam, which the authors used, has it (`epsilon_hat`).
    """
    return AdamW(0.9, 0.98, 1e-9, weight_decay=weight_decay, epsilon_hat=True)


def bert_adamw(weight_decay: float = 0.01) -> AdamW:
    """Return the AdamW of BERT's reference code: no bias correction, epsilon = 1e-6."""
    return AdamW(epsilon=1e-6, weight_decay=weight_decay, bias_correction=False)


def roberta_adamw(weight_decay: float = 0.01) -> AdamW:
    """Return the AdamW of RoBERTa: b2 = 0.98, epsilon = 1e-6 (Liu et al. 2019, section 3.1)."""
    return AdamW(beta_2=0.98, epsilon=1e-6, weight_decay=weight_decay)


def adamw_hat(weight_decay: float = 0.01) -> AdamW:
    """Return the AdamW with which version 0.1 fine-tuned, for runs that go on."""
    return AdamW(epsilon=1e-6, weight_decay=weight_decay, epsilon_hat=True)

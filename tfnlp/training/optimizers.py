"""Optimizers on `tf.distribute`'s public API: AdamW, LAMB, Adagrad and row-wise Adagrad.

Keras's own optimizers sum gradients over replicas a second time and clip before they sum; these
apply gradients that the trainer has already summed and clipped. `KerasOptimizer` adapts those of
Keras.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

Gradient = tf.Tensor | tf.IndexedSlices
Scalars = Any  # a scalar tensor or a list of them

# Keras's names of biases and of the scale and shift of layer norms.
NOT_DECAYED = (r"(^|/)bias$", r"(^|/)gamma$", r"(^|/)beta$")


class Optimizer:
    """Base: weight-decay bookkeeping, slots, and applying one update on every replica.

    Args:
        weight_decay: lambda.
        exclude: regular expressions; a variable whose `path` one of them matches is not decayed.
            None takes the biases and layer-norm weights. A given pattern that matches no variable
            is an error.

    Attributes:
        takes_rows: whether a gradient may be a `tf.IndexedSlices` in which no row comes twice;
            without weight decay the rows that it does not name do not change.
        slots: dict of name to `tf.Variable`.

    Raises:
        ValueError: for a weight_decay that is negative.
    """

    slot_names: tuple[str, ...] = ()
    takes_rows = False

    def __init__(self, weight_decay: float = 0.0, exclude: Sequence[str] | None = None) -> None:
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay={weight_decay} must not be negative")
        self.weight_decay = weight_decay
        self.exclude = exclude
        self.slots = {}

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots of `variables`; call it in the strategy's scope.

        Raises:
            ValueError: for an exclude pattern that matches no variable.
        """
        patterns = NOT_DECAYED if self.exclude is None else self.exclude
        for pattern in patterns if self.exclude is not None else ():
            if not any(re.search(pattern, v.path) for v in variables):
                raise ValueError(
                    f"exclude pattern {pattern!r} matches none of the model's variables"
                )
        self.variables = list(variables)
        self.decays = [
            0.0 if any(re.search(p, v.path) for p in patterns) else self.weight_decay
            for v in variables
        ]
        self.slots = {
            f"{name}/{v.path}": tf.Variable(
                tf.fill(self.slot_shape(v.shape), tf.cast(self.slot_value(name), v.dtype)),
                trainable=False,
                name=f"{name}/{v.path}",
            )
            for v in variables
            for name in self.slot_names
        }

    def slot_value(self, name: str) -> float:
        """Return the value of the slot called `name` before the first update."""
        return 0.0

    def slot_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the slots of a variable."""
        return shape

    def scalars(self, rate: tf.Tensor, step: tf.Tensor) -> dict[str, Any]:
        """Return the arguments of `update` that variables of one rate and step share.

        In a graph every constant is an operation: one for each variable would be a fifth of the
        operations of a small model's training step, which takes that much longer to trace.
        """
        return {"rate": rate, "decay": rate * self.weight_decay if self.weight_decay else None}

    def update(
        self,
        var: tf.Variable,
        gradient: Gradient,
        decays: bool,
        *slots: tf.Variable,
        **scalars: Any,
    ) -> None:
        """Update one variable and its slots in place.

        Args:
            var: the variable.
            gradient: of `var`.
            decays: whether weight decay applies to it.
            slots: in the order of `slot_names`.
            scalars: from `scalars`.
        """
        raise NotImplementedError

    def apply(self, gradients: Sequence[Gradient], learning_rate: Scalars, step: Scalars) -> None:
        """Make one update, in replica context.

        Args:
            gradients: one for each variable, summed over replicas; dense, unless `takes_rows`.
            learning_rate: a scalar, or a list of one for each variable.
            step: number of updates before this one; a scalar, or a list of one for each variable.
        """
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            self._apply_all(None, gradients, learning_rate, step)
        else:
            tf.distribute.get_replica_context().merge_call(
                self._apply_all, args=(gradients, learning_rate, step)
            )

    def _apply_all(
        self,
        strategy: tf.distribute.Strategy | None,
        gradients: Sequence[Gradient],
        learning_rate: Scalars,
        step: Scalars,
    ) -> None:
        count = len(self.variables)
        rates = learning_rate if isinstance(learning_rate, list) else [learning_rate] * count
        steps = step if isinstance(step, list) else [step] * count
        shared = {}

        def update(
            var: tf.Variable,
            gradient: Gradient,
            rate: tf.Tensor,
            step: tf.Tensor,
            *slots: tf.Variable,
            decays: bool,
        ) -> None:
            key = id(rate), id(step)  # each replica has its own
            if key not in shared:  # both are kept, so that no other object gets their ids
                shared[key] = rate, step, self.scalars(rate, step)
            self.update(var, gradient, decays, *slots, **shared[key][-1])

        for variable, decay, gradient, rate, step in zip(
            self.variables, self.decays, gradients, rates, steps, strict=True
        ):
            slots = [self.slots[f"{name}/{variable.path}"] for name in self.slot_names]
            args = (gradient, rate, step, *slots)
            if strategy is None:
                update(variable.value, *args, decays=decay > 0)
            else:
                strategy.extended.update(
                    variable.value, update, args=args, kwargs={"decays": decay > 0}, group=False
                )


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


class Adagrad(Optimizer):
    """`a += g^2`, `w -= rate * g / sqrt(a)` (Duchi et al. 2011).

    Args:
        initial_accumulator: `a` before the first update; 1.0 in ELMo's reference code.

    Raises:
        ValueError: for an initial_accumulator that is not positive, or a weight_decay that is
            negative.
    """

    slot_names = ("accumulator",)

    def __init__(
        self,
        initial_accumulator: float = 1.0,
        weight_decay: float = 0.0,
        exclude: Sequence[str] | None = None,
    ) -> None:
        super().__init__(weight_decay, exclude)
        if not initial_accumulator > 0:
            raise ValueError(f"initial_accumulator={initial_accumulator} must be positive")
        self.initial_accumulator = initial_accumulator

    def slot_value(self, name: str) -> float:
        return self.initial_accumulator

    def update(
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


class RowwiseAdagrad(Optimizer):
    """`a_r += mean(g_r^2)`, `w_r -= rate * g_r / sqrt(a_r)`: Adagrad with one number a row.

    r is an index of the first axis, and the mean is over all others. It suits tables of which a
    step uses few rows: with a gradient of these rows alone, no other rows are read.

    Args:
        initial_accumulator: `a` before the first update.

    Raises:
        ValueError: for an initial_accumulator that is not positive, or a weight_decay that is
            negative.
    """

    slot_names = ("accumulator",)
    takes_rows = True

    def __init__(
        self,
        initial_accumulator: float = 1.0,
        weight_decay: float = 0.0,
        exclude: Sequence[str] | None = None,
    ) -> None:
        super().__init__(weight_decay, exclude)
        if not initial_accumulator > 0:
            raise ValueError(f"initial_accumulator={initial_accumulator} must be positive")
        self.initial_accumulator = initial_accumulator

    def slot_value(self, name: str) -> float:
        return self.initial_accumulator

    def slot_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:1], *[1] * (len(shape) - 1))

    def update(
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
        rows = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        squares = tf.square(rows)
        if len(rows.shape) > 1:
            squares = tf.reduce_mean(squares, axis=range(1, len(rows.shape)), keepdims=True)
        if rows is gradient:
            var.assign_sub(rate * rows * tf.math.rsqrt(accumulator.assign_add(squares)))
            return
        # Every row is named once. To read it and write it back is faster than to subtract in place.
        total = tf.gather(accumulator, gradient.indices) + squares  # [rows, 1]
        new = tf.gather(var, gradient.indices) - rows * (rate * tf.math.rsqrt(total))
        for variable, values in ((accumulator, total), (var, new)):
            variable.scatter_update(tf.IndexedSlices(values, gradient.indices))


def adam(weight_decay: float = 0.0) -> AdamW:
    """Return the Adam that trained the Transformer (Vaswani et al. 2017, section 5.3).

    `AdamW` with b2 = 0.98, epsilon = 1e-9 and bias correction, by default without weight decay.
    Epsilon stands where TensorFlow's Adam, which the authors used, has it (`epsilon_hat`).
    """
    return AdamW(0.9, 0.98, 1e-9, weight_decay=weight_decay, epsilon_hat=True)


def bert_adamw(weight_decay: float = 0.01) -> AdamW:
    """Return the AdamW of BERT's reference code: no bias correction, epsilon = 1e-6."""
    return AdamW(epsilon=1e-6, weight_decay=weight_decay, bias_correction=False)


def adamw_hat(weight_decay: float = 0.01) -> AdamW:
    """Return the AdamW with which version 0.1 fine-tuned, for runs that go on."""
    return AdamW(epsilon=1e-6, weight_decay=weight_decay, epsilon_hat=True)


OPTIMIZERS = {
    "adam": adam,
    "adamw": AdamW,
    "adamw_hat": adamw_hat,
    "bert_adamw": bert_adamw,
    "lamb": LAMB,
    "adagrad": Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
}


def optimizer(name: str, weight_decay: float | None = None) -> Optimizer:
    """Return the optimizer called `name` with the settings of its paper.

    Args:
        name: "adam" (the Transformer's), "adamw" (the textbook's), "bert_adamw", "adamw_hat",
            "lamb", "adagrad" or "rowwise_adagrad".
        weight_decay: lambda; None: the optimizer's default.

    Raises:
        ValueError: for another name.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer={name!r} is unknown; choose one of {sorted(OPTIMIZERS)}")
    make = OPTIMIZERS[name]
    return make() if weight_decay is None else make(weight_decay=weight_decay)

"""Optimizers on `tf.distribute`'s public API, and by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.optional_tensorflow import tf
from tfnlp.training.optimizer_base import Gradient, KerasOptimizer, Named, Optimizer
from tfnlp.training.schedules import Rate


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
        weight_decay: lambda, see `Optimizer`.
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
        bias_correction: bool = True,
        epsilon_hat: bool = False,
    ) -> None:
        super().__init__(weight_decay)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction, self.epsilon_hat = bias_correction, epsilon_hat

    def scalars(self, rate: Tensor, step: Tensor) -> Named:
        betas, epsilon = (self.beta_1, self.beta_2), _float32(self.epsilon)
        powers = [_float32(0.0)] * 2
        if self.bias_correction:
            updates = ops.cast(step, "float32") + 1.0
            powers = [ops.power(_float32(b), updates) for b in betas]
            if not self.epsilon_hat:
                epsilon *= ops.sqrt(1.0 - powers[1])
        return {
            **super().scalars(rate, step),
            # With these powers p an update is rate sqrt(1 - p2) / (1 - p1) m / (sqrt v + epsilon).
            "beta1_power": powers[0],
            "beta2_power": powers[1],
            "beta1": _float32(self.beta_1),
            "beta2": _float32(self.beta_2),
            "epsilon": epsilon,
        }

    def update(
        self, weight: Tensor, gradient: Tensor, slots: Sequence[Tensor], scalars: Named
    ) -> tuple[Tensor, ...]:
        m, v = slots
        m += (gradient - m) * (1.0 - scalars["beta1"])
        v += (ops.square(gradient) - v) * (1.0 - scalars["beta2"])
        beta1_power, beta2_power = scalars["beta1_power"], scalars["beta2_power"]
        rate = scalars["rate"] * (ops.sqrt(1.0 - beta2_power) / (1.0 - beta1_power))
        return _decayed(weight, scalars) - rate * m / (ops.sqrt(v) + scalars["epsilon"]), m, v

    def assign(
        self, var: tf.Variable, gradient: Gradient, slots: Sequence[tf.Variable], scalars: Named
    ) -> None:
        _decay(var, scalars)
        m, v = (slot.handle for slot in slots)
        settings = {name: x for name, x in scalars.items() if name not in ("rate", "decay")}
        # One fused pass over w, m and v.
        tf.raw_ops.ResourceApplyAdam(
            var=var.handle, m=m, v=v, lr=scalars["rate"], grad=gradient, **settings
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
    ) -> None:
        super().__init__(weight_decay)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def scalars(self, rate: Tensor, step: Tensor) -> Named:
        updates, betas = ops.cast(step, "float32") + 1.0, (self.beta_1, self.beta_2)
        return {
            "rate": rate,
            "decay": _float32(self.weight_decay),
            "keep": [_float32(b) for b in betas],
            "add": [_float32(1 - b) for b in betas],
            "corrections": [1 - ops.power(_float32(b), updates) for b in betas],
            "epsilon": _float32(self.epsilon),
        }

    def update(
        self, weight: Tensor, gradient: Tensor, slots: Sequence[Tensor], scalars: Named
    ) -> tuple[Tensor, ...]:
        keep, add, corrections, rate = (scalars[x] for x in ("keep", "add", "corrections", "rate"))
        m = keep[0] * slots[0] + add[0] * gradient
        v = keep[1] * slots[1] + add[1] * ops.square(gradient)
        u = (m / corrections[0]) / (ops.sqrt(v / corrections[1]) + scalars["epsilon"])
        if scalars["decay"] is not None:
            u += scalars["decay"] * weight
            w_norm, u_norm = ops.norm(weight), ops.norm(u)
            trusted = ops.logical_and(w_norm > 0, u_norm > 0)
            rate *= ops.where(trusted, w_norm / u_norm, 1.0)
        return weight - rate * u, m, v


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
        self, weight: Tensor, gradient: Tensor, slots: Sequence[Tensor], scalars: Named
    ) -> tuple[Tensor, ...]:
        accumulator = slots[0] + ops.square(gradient)
        step = scalars["rate"] * gradient * ops.rsqrt(accumulator)
        return _decayed(weight, scalars) - step, accumulator

    def assign(
        self, var: tf.Variable, gradient: Gradient, slots: Sequence[tf.Variable], scalars: Named
    ) -> None:
        _decay(var, scalars)
        tf.raw_ops.ResourceApplyAdagrad(
            var=var.handle, accum=slots[0].handle, lr=scalars["rate"], grad=gradient
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
        self, weight: Tensor, gradient: Tensor, slots: Sequence[Tensor], scalars: Named
    ) -> tuple[Tensor, ...]:
        squares = ops.square(gradient)
        if len(gradient.shape) > 1:
            axes = tuple(range(1, len(gradient.shape)))
            squares = ops.mean(squares, axis=axes, keepdims=True)
        accumulator = slots[0] + squares  # [rows, 1]
        step = gradient * (scalars["rate"] * ops.rsqrt(accumulator))
        return _decayed(weight, scalars) - step, accumulator

    def assign(
        self, var: tf.Variable, gradient: Gradient, slots: Sequence[tf.Variable], scalars: Named
    ) -> None:
        if not isinstance(gradient, tf.IndexedSlices):
            Optimizer.assign(self, var, gradient, slots, scalars)
            return
        _decay(var, scalars)
        # Every row is named once. To read it and write it back is faster than to subtract in place.
        weight, *values = (tf.gather(x, gradient.indices) for x in (var, *slots))
        new = self.update(weight, gradient.values, values, {**scalars, "decay": None})
        for variable, rows in zip((var, *slots), new, strict=True):
            variable.scatter_update(tf.IndexedSlices(rows, gradient.indices))


def _decayed(weight: Tensor, scalars: Named) -> Tensor:
    return weight if scalars["decay"] is None else weight - scalars["decay"] * weight


def _decay(var: tf.Variable, scalars: Named) -> None:
    if scalars["decay"] is not None:
        var.assign_sub(scalars["decay"] * var)


def _float32(value: float) -> Tensor:
    return ops.convert_to_tensor(value, "float32")


OPTIMIZERS = {
    "adam": adam,
    "adamw": AdamW,
    "bert_adamw": bert_adamw,
    "roberta_adamw": roberta_adamw,
    "lamb": LAMB,
    "adagrad": Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
}


def optimizer(name: str, weight_decay: float | None = None) -> Optimizer:
    """Return the optimizer called `name` with the settings of its paper.

    Args:
        name: "adam" (the Transformer's), "adamw" (the textbook's), "bert_adamw",
            "roberta_adamw", "lamb", "adagrad" or "rowwise_adagrad".
        weight_decay: lambda; None: the optimizer's default.

    Raises:
        ValueError: for another name.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer={name!r} is unknown; choose one of {sorted(OPTIMIZERS)}")
    make = OPTIMIZERS[name]
    return make() if weight_decay is None else make(weight_decay=weight_decay)


def as_optimizer(optimizer: Any, rate: Rate | None) -> Optimizer | KerasOptimizer:
    """Return an optimizer for the trainer's step; call it in the strategy's scope.

    It is one of `tfnlp.training` or of Keras, or a name; the rate is a function of the step, or
    None.
    """
    if isinstance(optimizer, str):
        name, make = optimizer, OPTIMIZERS.get(optimizer)
        try:
            optimizer = make() if make is not None else keras.optimizers.get(name)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"optimizer={name!r} is unknown; choose one of {', '.join(OPTIMIZERS)}, or "
                "the name of a Keras optimizer"
            ) from error
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return KerasOptimizer(optimizer, rate)
    if not isinstance(optimizer, Optimizer):
        raise ValueError(
            "optimizer must be one of tfnlp.training or of Keras, or a name, not "
            f"{type(optimizer).__name__}"
        )
    if rate is None:
        raise ValueError(f"optimizer {type(optimizer).__name__} needs a learning_rate")
    return optimizer


def optimizer_settings(optimizer: Optimizer | KerasOptimizer) -> dict[str, Any]:
    """Return the class and the arguments of an optimizer."""
    if isinstance(optimizer, KerasOptimizer):
        return {"name": f"keras.{type(optimizer.optimizer).__name__}", **optimizer.settings()}
    arguments = inspect.signature(type(optimizer)).parameters
    values = {name: getattr(optimizer, name, None) for name in arguments}
    return {"name": type(optimizer).__name__, **values}

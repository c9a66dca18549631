"""Optimizers on `tf.distribute`'s public API: AdamW, LAMB, Adagrad, also by row.

Keras's own optimizers sum gradients over replicas a second time and clip before they sum; these
take gradients that the trainer has already summed and clipped, and only apply them.
"""

import re

import tensorflow as tf

# Biases, and the scale and shift of layer norms, under the names that Keras gives them.
NOT_DECAYED = (r"(^|/)bias$", r"(^|/)gamma$", r"(^|/)beta$")


class Optimizer:
    """Base: weight-decay bookkeeping, slots, and applying one update on every replica.

    Args:
        weight_decay: lambda.
        exclude: regular expressions; a variable whose `path` one of them matches is not decayed.
            None takes the biases and layer-norm weights. A given pattern that matches nothing is
            an error: an exclusion that does not exclude is worse than none.

    Attributes:
        takes_rows: whether a gradient may be a `tf.IndexedSlices` in which no row comes twice;
            without weight decay the rows that it does not name stay as they are.
    """

    slot_names = ()
    takes_rows = False

    def __init__(self, weight_decay=0.0, exclude=None):
        if weight_decay < 0:
            raise ValueError(f"weight_decay={weight_decay} must not be negative")
        self.weight_decay = weight_decay
        self.exclude = exclude
        self.slots = {}

    def build(self, variables):
        """Makes the slots of `variables` (Keras variables); call it in the strategy's scope."""
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

    def slot_value(self, name):
        """What the slot called `name` holds before the first update."""
        return 0.0

    def slot_shape(self, shape):
        """The shape of the slots of a variable."""
        return shape

    def scalars(self, rate, step):
        """What the updates of all variables of one rate and step share, for `update`.

        In a graph every constant is an operation: made for each variable anew they would be a
        fifth of a small model's training step, which takes that much longer to trace.
        """
        return {"rate": rate, "decay": rate * self.weight_decay if self.weight_decay else None}

    def apply(self, gradients, learning_rate, step):
        """One update from `gradients`, dense but for `takes_rows`, in replica context; `step`
        counts from 0.

        `learning_rate` and `step` are scalars or lists of them, one for each variable.
        """
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            self._apply_all(None, gradients, learning_rate, step)
        else:
            tf.distribute.get_replica_context().merge_call(
                self._apply_all, args=(gradients, learning_rate, step)
            )

    def _apply_all(self, strategy, gradients, learning_rate, step):
        count = len(self.variables)
        rates = learning_rate if isinstance(learning_rate, list) else [learning_rate] * count
        steps = step if isinstance(step, list) else [step] * count
        shared = {}

        def update(var, gradient, rate, step, *slots, decays):
            key = id(rate), id(step)  # each replica has its own
            if key not in shared:  # both are kept, or else others could get their ids
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
    """`m = b1 m + (1-b1) g`, `v = b2 v + (1-b2) g^2`, `w -= rate (m / (sqrt v + eps) + lambda w)`.

    Loshchilov & Hutter 2019, algorithm 2. BERT's reference code leaves the bias correction out
    (`bias_correction=False`, the default); with it, `m / (1 - b1^t)` and `v / (1 - b2^t)` are used.
    """

    slot_names = ("m", "v")

    def __init__(
        self,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.01,
        exclude=None,
        bias_correction=False,
    ):
        super().__init__(weight_decay, exclude)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bias_correction

    def scalars(self, rate, step):
        powers = [tf.constant(0.0)] * 2
        if self.bias_correction:
            updates = tf.cast(step, "float32") + 1.0
            powers = [tf.pow(b, updates) for b in (self.beta_1, self.beta_2)]
        return {
            **super().scalars(rate, step),
            # The kernel scales its rate by sqrt(1 - p2) / (1 - p1) with these powers: 0 means not.
            "beta1_power": powers[0],
            "beta2_power": powers[1],
            "beta1": tf.constant(self.beta_1),
            "beta2": tf.constant(self.beta_2),
            "epsilon": tf.constant(self.epsilon),
        }

    def update(self, var, gradient, decays, m, v, rate, decay, **settings):
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

    def __init__(self, beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=0.01, exclude=None):
        super().__init__(weight_decay, exclude)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def scalars(self, rate, step):
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

    def update(self, var, gradient, decays, m, v, rate, decay, keep, add, corrections, epsilon):
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
    """

    slot_names = ("accumulator",)

    def __init__(self, initial_accumulator=1.0, weight_decay=0.0, exclude=None):
        super().__init__(weight_decay, exclude)
        if initial_accumulator <= 0:
            raise ValueError(f"initial_accumulator={initial_accumulator} must be positive")
        self.initial_accumulator = initial_accumulator

    def slot_value(self, name):
        return self.initial_accumulator

    def update(self, var, gradient, decays, accumulator, rate, decay):
        if decays:
            var.assign_sub(decay * var)
        tf.raw_ops.ResourceApplyAdagrad(
            var=var.handle, accum=accumulator.handle, lr=rate, grad=gradient
        )


class RowwiseAdagrad(Optimizer):
    """`a_r += mean(g_r^2)`, `w_r -= rate * g_r / sqrt(a_r)`: Adagrad with one number a row.

    r is an index of the first axis, and the mean is over all others. For tables of which a step
    touches few rows: with a gradient of these rows alone, no others are looked at.

    Args:
        initial_accumulator: `a` before the first update.
    """

    slot_names = ("accumulator",)
    takes_rows = True

    def __init__(self, initial_accumulator=1.0, weight_decay=0.0, exclude=None):
        super().__init__(weight_decay, exclude)
        if initial_accumulator <= 0:
            raise ValueError(f"initial_accumulator={initial_accumulator} must be positive")
        self.initial_accumulator = initial_accumulator

    def slot_value(self, name):
        return self.initial_accumulator

    def slot_shape(self, shape):
        return (*shape[:1], *[1] * (len(shape) - 1))

    def update(self, var, gradient, decays, accumulator, rate, decay):
        if decays:
            var.assign_sub(decay * var)
        rows = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        squares = tf.square(rows)
        if len(rows.shape) > 1:
            squares = tf.reduce_mean(squares, axis=range(1, len(rows.shape)), keepdims=True)
        if rows is gradient:
            var.assign_sub(rate * rows * tf.math.rsqrt(accumulator.assign_add(squares)))
            return
        # Every row is named once: it is read and written back, which is faster than subtracting
        # in place.
        total = tf.gather(accumulator, gradient.indices) + squares  # [rows, 1]
        new = tf.gather(var, gradient.indices) - rows * (rate * tf.math.rsqrt(total))
        for variable, values in ((accumulator, total), (var, new)):
            variable.scatter_update(tf.IndexedSlices(values, gradient.indices))


def adam(weight_decay=0.0):
    """Adam as the Transformer was trained with (Vaswani et al. 2017, section 5.3).

    `AdamW` with b2 = 0.98, epsilon = 1e-9 and bias correction, and nothing decays.
    """
    return AdamW(0.9, 0.98, 1e-9, weight_decay=weight_decay, bias_correction=True)


def optimizer(name, weight_decay=None):
    """The optimizer called `name`, with its paper's settings: "adam" (the Transformer's), "adamw",
    "lamb", "adagrad" or "rowwise_adagrad"."""
    makers = {"adam": adam, "adamw": AdamW, "lamb": LAMB, "adagrad": Adagrad}
    makers["rowwise_adagrad"] = RowwiseAdagrad
    if name not in makers:
        raise ValueError(f"optimizer={name!r} is unknown; choose one of {sorted(makers)}")
    return makers[name]() if weight_decay is None else makers[name](weight_decay=weight_decay)

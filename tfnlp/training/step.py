"""One training step, the same code on one device and on many.

Order of events, which is what makes the numbers independent of how the batch is split:
targets are counted over the global batch; every replica takes gradients of its share of
`sum of losses / global count`, micro-batch by micro-batch; gradients are summed over replicas;
only then is their global norm clipped; only then is the update applied.
"""

import tensorflow as tf

from tfnlp.training.randomness import seeded, step_seed


class Step:
    """Training and evaluation of one global batch, to be run by `strategy.run`.

    Args:
        task: see `tfnlp.tasks`; owns model, losses, metrics.
        optimizer: from `tfnlp.training.optimizers`, built.
        rate: function of the step to the learning rate.
        clip_norm: largest global norm of the summed gradient, or None.
        accumulation: micro-batches that each replica's share is cut into.
        jit_compile: compile forward and backward pass with XLA.
        seed: of dropout.
        replicas: number of replicas in sync.
    """

    def __init__(
        self, task, optimizer, rate, clip_norm, accumulation, jit_compile, seed, replicas
    ):
        self.task, self.model = task, task.model
        self.optimizer, self.rate = optimizer, rate
        self.clip_norm, self.accumulation, self.seed = clip_norm, accumulation, seed
        self.replicas = replicas
        self.inputs = list(task.model.input)
        # Communication between replicas can't be compiled; the arithmetic before it can.
        self._gradients = tf.function(self._all_gradients, jit_compile=jit_compile or None)
        self._sums = tf.function(self._evaluation_sums, jit_compile=jit_compile or None)

    def train(self, batch, step):
        """Updates the weights; returns global sums and counts as a dict of float32 scalars."""
        context = tf.distribute.get_replica_context()
        counts = self._reduce(self.task.targets(batch))
        replica = context.replica_id_in_sync_group
        gradients, sums = self._gradients(batch, counts, step, replica)
        gradients = self._reduce(gradients)
        totals = {**self._reduce(sums), **_count_keys(counts)}

        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm is not None:
            scale = self.clip_norm / tf.maximum(norm, self.clip_norm)
            gradients = [g * tf.cast(scale, g.dtype) for g in gradients]
        rate = self.rate(step)
        self.optimizer.apply(gradients, rate, step)
        totals.update({"sum/gradient_norm": norm, "sum/learning_rate": rate, "steps": 1.0})
        return {name: tf.cast(value, "float32") for name, value in totals.items()}

    def evaluate(self, batch):
        """Global sums and counts of one batch, without dropout and without an update."""
        totals = _count_keys(self.task.targets(batch))
        totals.update(self._sums(batch))
        return self._reduce(totals)

    def _reduce(self, values):
        if self.replicas == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _call_model(self, batch, training):
        return self.model({name: batch[name] for name in self.inputs}, training=training)

    def _task_sums(self, batch, outputs):
        sums = {f"loss/{k}": v for k, v in self.task.losses(batch, outputs).items()}
        for name, (target, value) in self.task.metrics(batch, outputs).items():
            sums[f"metric/{name}/{target}"] = value
        return sums

    def _evaluation_sums(self, batch):
        return self._task_sums(batch, self._call_model(batch, training=False))

    def _all_gradients(self, batch, counts, step, replica):
        """Gradients and sums of this replica's share, over all of its micro-batches."""
        if self.accumulation == 1:
            return self._micro_gradients(batch, counts, step, 0, replica)
        parts = {
            k: tf.reshape(v, [self.accumulation, -1, *v.shape[1:]]) for k, v in batch.items()
        }  # [A, B/A, ...]

        def body(index, gradients, sums):
            part = {k: v[index] for k, v in parts.items()}
            more, more_sums = self._micro_gradients(part, counts, step, index, replica)
            return (
                index + 1,
                [a + b for a, b in zip(gradients, more, strict=True)],
                {k: sums[k] + more_sums[k] for k in sums},
            )

        first = self._micro_gradients({k: v[0] for k, v in parts.items()}, counts, step, 0, replica)
        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < self.accumulation,
            body,
            (tf.constant(1), *first),
            maximum_iterations=self.accumulation - 1,
        )
        return gradients, sums

    def _micro_gradients(self, batch, counts, step, micro_batch, replica):
        variables = [v.value for v in self.model.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            with seeded(self.model, step_seed(self.seed, step, micro_batch, replica)) as scope:
                outputs = self._call_model(batch, training=True)
                sums = self._task_sums(batch, outputs)
            penalties = scope.losses + [
                v.regularizer(v) for v in self.model.trainable_variables if v.regularizer
            ]
            loss = tf.add_n(
                [sums[f"loss/{name}"] / tf.maximum(n, 1.0) for name, n in counts.items()]
            )
            if penalties:  # every share of the batch adds its part
                loss += tf.add_n(penalties) / (self.replicas * self.accumulation)
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        # An embedding's gradient comes as rows, the same row several times; as a dense tensor
        # its norm and its squares are those of the summed rows.
        return [tf.convert_to_tensor(g) for g in gradients], sums


def _count_keys(counts):
    return {f"count/{name}": value for name, value in counts.items()}


def means(totals):
    """Readable means from summed totals: `loss`, `NAME_loss`, metrics, `learning_rate`, ..."""
    logs, loss = {}, 0.0
    for key, value in totals.items():
        kind, _, rest = key.partition("/")
        if kind == "loss":
            logs[f"{rest}_loss"] = value / max(1.0, totals[f"count/{rest}"])
            loss += logs[f"{rest}_loss"]
        elif kind == "metric":
            name, _, target = rest.partition("/")
            logs[name] = value / max(1.0, totals[f"count/{target}"])
        elif kind == "sum":
            logs[rest] = value / totals["steps"]
    return {"loss": loss, **logs}

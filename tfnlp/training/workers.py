"""The workers of a cluster: their addresses, and the numbers that they exchange."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

import numpy as np

from tfnlp.optional_tensorflow import tf
from tfnlp.training.rendezvous import host_and_port


def read_cluster(
    workers: Sequence[str] | None = None, index: int | None = None
) -> tuple[list[str], int]:
    """Return the addresses of all workers and the index of this one.

    Args:
        workers: "host:port" of every worker; None: read from `TF_CONFIG`, as TensorFlow and most
            job schedulers write it, `{"cluster": {"worker": [...]}, "task": {"type": "worker",
            "index": i}}`; a "chief" counts as the first worker.
        index: which of them this process is, from 0.

    Raises:
        ValueError: if no cluster is given, or it is malformed.
    """
    if workers is None:
        workers, index = _read_tf_config()
    elif index is None:
        raise ValueError("--index is missing: which of the --workers is this process, from 0?")
    if not workers:
        raise ValueError("the list of workers is empty; give host:port of each")
    for address in workers:
        host_and_port(address)
    if len(set(workers)) < len(workers):
        raise ValueError(f"the list of workers names one twice: {', '.join(workers)}")
    if not 0 <= index < len(workers):
        raise ValueError(
            f"--index {index} must be one of 0 to {len(workers) - 1}, one for each worker"
        )
    return list(workers), index


def _read_tf_config() -> tuple[list[str], int]:
    text = os.environ.get("TF_CONFIG")
    if not text:
        raise ValueError(
            "the addresses of the workers are missing: give --workers host:port,... and --index i, "
            "or set TF_CONFIG"
        )
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        chiefs, workers = cluster.get("chief", []), cluster.get("worker", [])
        kind, index = task["type"], int(task["index"])
        others = set(cluster) - {"chief", "worker"}
        well_formed = all(isinstance(address, str) for address in chiefs + workers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"TF_CONFIG is not a cluster and a task in JSON: {text}") from error
    if others or kind not in ("chief", "worker") or not well_formed:
        raise ValueError(
            "TF_CONFIG must name addresses of a chief and workers only, and its task must be one: "
            f"{text}"
        )
    return chiefs + workers, index + (len(chiefs) if kind == "worker" else 0)


class WorkerLost(ConnectionError):
    """Another worker does not answer any more; the steps since the last checkpoint are lost."""


class Workers:
    """The workers of a strategy; most strategies have one.

    Attributes:
        count: how many there are.
        index: which of them this process is. The first one, the chief, writes files and reports.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.count, self.index = 1, 0
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            spec = resolver.cluster_spec()
            if spec:
                self.count, self.index = spec.num_tasks("worker"), resolver.task_id
                self._addresses = spec.job_tasks("worker")
        self._sum = None

    @property
    def chief(self) -> bool:
        """Whether this process writes checkpoints and shows progress."""
        return self.index == 0

    def gather(self, *numbers: int) -> np.ndarray:
        """Return the integers that every worker passes: int64 `[count, len(numbers)]`.

        All workers must call it, and none returns before all have.
        """
        rows = np.zeros((self.count, len(numbers)), "int64")
        rows[self.index] = numbers
        return rows if self.count == 1 else self._total(rows)

    def _total(self, rows: np.ndarray) -> np.ndarray:
        """Return the sum of the arrays of all workers; at most one has a number at a place."""
        strategy = self._strategy
        if self._sum is None:

            def add(x: tf.Tensor) -> tf.Tensor:
                context = tf.distribute.get_replica_context()
                # One replica of each worker counts.
                first = context.replica_id_in_sync_group % self._local == 0
                return context.all_reduce("sum", x * tf.cast(first, x.dtype))

            self._local = strategy.num_replicas_in_sync // self.count
            self._sum = tf.function(lambda x: strategy.run(add, args=(x,)), autograph=False)
        total = self._sum(tf.constant(rows))
        return strategy.experimental_local_results(total)[0].numpy()

    def lost(self, error: Exception) -> WorkerLost | None:
        """Return a `WorkerLost` that names the lost workers; None for any other error."""
        kinds = (
            tf.errors.UnavailableError,
            tf.errors.AbortedError,
            tf.errors.CancelledError,
            tf.errors.DeadlineExceededError,
            tf.errors.InternalError,
        )
        if self.count == 1 or not isinstance(error, kinds):
            return None
        named = {int(n) for n in re.findall(r"/job:worker/(?:replica:\d+/)?task:(\d+)", str(error))}
        named = sorted(n for n in named if n != self.index and n < self.count)
        names = ", ".join(f"worker {n} ({self._addresses[n]})" for n in named)
        return WorkerLost(f"{names or 'another worker'} does not answer any more")

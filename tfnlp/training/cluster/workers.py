"""Several processes that train one model: who they are, and what they tell each other."""

import functools
import json
import os
import re

import numpy as np
import tensorflow as tf

from tfnlp.training.cluster.peers import host_and_port


def read_cluster(workers=None, index=None):
    """Who trains together.

    Args:
        workers: "host:port" of every worker, or None: `TF_CONFIG` says, as TensorFlow and most
            job schedulers write it, `{"cluster": {"worker": [...]}, "task": {"type": "worker",
            "index": i}}`; a "chief" counts as the first worker.
        index: which of them this process is, from 0.

    Returns:
        (addresses, index).

    Raises:
        ValueError: if there is no cluster, or it is not well-formed.
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
        raise ValueError(f"--index {index} must be one of 0 to {len(workers) - 1}, a worker each")
    return list(workers), index


def _read_tf_config():
    text = os.environ.get("TF_CONFIG")
    if not text:
        raise ValueError(
            "several workers need to know each other: give --workers host:port,... and --index i, "
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
            f"TF_CONFIG must name addresses of a chief and workers only, and be for one of them: "
            f"{text}"
        )
    return chiefs + workers, index + (len(chiefs) if kind == "worker" else 0)


class WorkerLost(ConnectionError):
    """Another worker no longer answers; what was trained since the last checkpoint is lost."""


class Crew:
    """The workers of a strategy, of which most have one.

    Attributes:
        count: how many there are.
        index: which of them this process is; the first, the chief, writes and speaks for all.
    """

    def __init__(self, strategy):
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
    def chief(self):
        """Whether this process writes checkpoints and shows progress."""
        return self.index == 0

    def gather(self, *numbers):
        """What every worker says, each a few integers: int64 `[count, len(numbers)]`.

        All workers must call it, and none returns before all have.
        """
        said = np.zeros((self.count, len(numbers)), "int64")
        said[self.index] = numbers
        if self.count == 1:
            return said
        strategy = self._strategy
        if self._sum is None:

            def add(x):
                context = tf.distribute.get_replica_context()
                first = context.replica_id_in_sync_group % self._local == 0  # one replica a worker
                return context.all_reduce("sum", x * tf.cast(first, x.dtype))

            self._local = strategy.num_replicas_in_sync // self.count
            self._sum = tf.function(lambda x: strategy.run(add, args=(x,)), autograph=False)
        total = self._sum(tf.constant(said))
        return strategy.experimental_local_results(total)[0].numpy()

    def lost(self, error):
        """The `WorkerLost` that a TensorFlow error comes from, or None if it is of another kind."""
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
        who = ", ".join(f"worker {n} ({self._addresses[n]})" for n in named)
        return WorkerLost(f"{who or 'another worker'} does not answer any more")


def watched(method):
    """A method of an object with a `crew`, of which the end of a worker raises `WorkerLost`."""

    @functools.wraps(method)
    def watching(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except tf.errors.OpError as error:
            lost = self.crew.lost(error)
            if lost is None:
                raise
            raise lost from error

    return watching

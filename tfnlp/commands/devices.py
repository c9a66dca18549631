"""Which devices a command trains on; several workers as one."""

import contextlib
import os
import sys

_REJOINED = "TFNLP_REJOINED"


def add_devices(parser, workers=True):
    """`--strategy` and what belongs to it; `workers`: whether several processes can train."""
    names = ["auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu"]
    if not workers:
        names.remove("multi_worker")
    parser.add_argument(
        "--strategy",
        choices=names,
        default="auto",
        help="devices; auto: a TPU, else all GPUs, else the CPU",
    )
    parser.add_argument(
        "--tpu", metavar="NAME", help="which TPU: a Cloud TPU's name, grpc://host:port, or local"
    )
    parser.add_argument(
        "--wait", type=float, default=300.0, help="seconds to wait for a TPU or other workers"
    )
    if not workers:
        parser.set_defaults(workers=None, index=None)
        return
    parser.add_argument(
        "--workers",
        metavar="HOST:PORT,...",
        help="all processes that train together, the same list for each (or TF_CONFIG)",
    )
    parser.add_argument("--index", type=int, help="which of the --workers this is, from 0")


def several_workers(args):
    """Whether the command is to train with other processes: then TensorFlow must not have run."""
    return getattr(args, "strategy", None) == "multi_worker" or bool(
        getattr(args, "workers", None)
    )


@contextlib.contextmanager
def strategy(args):
    """The `tf.distribute` strategy that the command line asks for, while open.

    Only the first worker prints. When another one is lost, this process starts anew, waits for it
    to come back, and goes on from the last checkpoint.
    """
    from tfnlp import training

    workers = args.workers and args.workers.split(",")
    name = "multi_worker" if several_workers(args) else args.strategy
    if name != args.strategy and args.strategy != "auto":
        raise ValueError(f"--workers needs --strategy multi_worker, not {args.strategy}")
    if os.environ.get(_REJOINED):
        args.restart = False  # that was done when the run began
    made = training.make_strategy(
        name, tpu=args.tpu, workers=workers, index=args.index, wait=args.wait
    )
    workers = training.Workers(made)
    try:
        with contextlib.ExitStack() as stack:
            if not workers.chief:
                silence = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(contextlib.redirect_stdout(silence))
            yield made
    except Exception as error:
        lost = error if isinstance(error, training.WorkerLost) else workers.lost(error)
        if lost is None:
            raise
        print(
            f"tfnlp: {lost}; starting again with it, for which it has {args.wait:g} seconds",
            file=sys.stderr,
            flush=True,
        )
        # A cluster of TensorFlow can't be joined twice by one process.
        os.environ[_REJOINED] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def is_tpu(strategy):
    """Whether the steps are compiled for a TPU, so that all shapes must be known."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.TPUStrategy)

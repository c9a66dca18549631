"""Training of toy models in a process: `python -m tests.training.scale_run OUTPUT [arguments]`.

Keras's backend is that of KERAS_BACKEND. Prints a line a step. Writes OUTPUT/MODEL.json, a row a
step and the held-out rows, and OUTPUT/MODEL.npz, the weights and the state.
"""

import argparse
import json
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from tests.training import elmo_toy, toy
from tfnlp import training

STEPS = 4


class Lines(keras.callbacks.Callback):
    """Print the number of each step."""

    def on_train_batch_end(self, batch, logs=None):
        print(batch + 1, flush=True)


TOYS = {
    "bert": lambda strategy, **more: (
        toy.toy_trainer(strategy, **more),
        toy.ToyBatches(),
        [toy.ToyBatches(seed=99).batch(0)],
    ),
    "elmo": lambda strategy, dropout=0.0, **more: (
        elmo_toy.toy_trainer(
            strategy, dict(dropout=dropout, num_samples=5 if dropout else None), **more
        ),
        elmo_toy.toy_windows(),
        elmo_toy.toy_windows().evaluation_batches(3),
    ),
    "gpt": lambda strategy, **more: (
        toy.gpt_trainer(strategy, **more),
        toy.gpt_windows(),
        toy.gpt_held_out(),
    ),
    "transformer": lambda strategy, **more: (
        toy.translation_trainer(strategy, **more),
        toy.PairBatches(),
        [toy.PairBatches(seed=99).batch(0)],
    ),
}


def draw_weights(model):
    """Assign the same weights on every backend, whose own random numbers differ."""
    rng = np.random.default_rng(8)
    for variable in model.trainable_variables:
        variable.assign(variable.numpy() * 0 + rng.normal(0, 0.2, variable.shape))


def train(
    name, strategy, output, steps=STEPS, directory=None, draw=False, every=1, save=1, **arguments
):
    """Train one toy, with a row `every` and a checkpoint each `save` steps; it may resume."""
    trainer, data, held_out = TOYS[name](strategy, directory=directory, **arguments)
    if draw:
        draw_weights(trainer.objective.model)
    history = trainer.fit(
        data,
        steps,
        validation=held_out,
        evaluate_every=2 * every,
        checkpoint_every=save,
        log_every=every,
        callbacks=[Lines()],
        progress=False,
    )
    rows = {"train": history.train, "validation": history.validation}
    (output / f"{name}.json").write_text(json.dumps(rows))
    weights = [v.numpy() for v in trainer.objective.model.trainable_variables]
    weights += [v.numpy() for v in trainer.objective.state.values()]
    np.savez(output / f"{name}.npz", *weights)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["bert", "elmo", "gpt"])
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--workers", help="comma-separated; empty: from TF_CONFIG")
    parser.add_argument("--index", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--every", type=int, default=1, help="steps between rows of the history")
    parser.add_argument("--save-every", type=int, default=1, help="steps between checkpoints")
    parser.add_argument("--directory")
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--accumulation", type=int)
    parser.add_argument("--steps-per-call", type=int)
    parser.add_argument("--shard-optimizer", action="store_true")
    parser.add_argument("--draw", action="store_true", help="weights from numpy")
    parser.add_argument("--wait", type=float, default=120.0)
    args = parser.parse_args()
    if args.devices > 1 and keras.backend.backend() == "tensorflow":
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * args.devices,
        )
    kind = "multi_worker" if args.workers is not None else "mirrored" if args.devices > 1 else "cpu"
    strategy = training.make_strategy(
        kind,
        workers=args.workers.split(",") if args.workers else None,
        index=args.index,
        wait=args.wait,
        shard_optimizer=args.shard_optimizer,
    )
    args.output.mkdir(parents=True, exist_ok=True)
    more = {name: getattr(args, name) for name in ("dropout", "accumulation", "steps_per_call")}
    more = {name: value for name, value in more.items() if value is not None}
    for name in args.models:
        directory = args.directory and os.path.join(args.directory, name)
        plan = (args.steps, directory, args.draw, args.every, args.save_every)
        train(name, strategy, args.output, *plan, **more)


if __name__ == "__main__":
    main()

"""What it saves that sentences of like length are computed together: training with and without.

    python -m benchmarks.buckets classify --model DIR --train FILE --dev FILE [--dropout 0]

writes nothing. Both trainings see the same
examples in the same order; one pads all batches to the longest example, the other cuts each batch
into parts of similar length. They run in turns. With
`--dropout 0` their losses are equal, too: what is dropped depends on the shape of a batch.
"""

import argparse
import time

import tensorflow as tf

from tfnlp.runs import task_folder
from tfnlp.runs.finetune_config import FILL, TASKS, settings_of
from tfnlp.runs.finetune_trainer import make_trainer, micro_batches, task_of
from tfnlp.runs.finetuning import Finetuning


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=[name for name in TASKS if name != FILL])
    for name in ("model", "train", "dev"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--turns", type=int, default=6, help="turns of each training")
    parser.add_argument("--steps", type=int, default=20, help="steps of a turn")
    given = vars(parser.parse_args())
    task, turns, turn = (given.pop(name) for name in ("task", "turns", "steps"))
    config = TASKS[task][0].make(output="", **{n: v for n, v in given.items() if v is not None})
    work = Finetuning(task, config, tf.distribute.get_strategy())
    seconds, losses, tokens = {}, {}, {}
    runs = {}
    for padded in (False, True):
        runs[padded] = _run(work, padded, turn * (turns + 1))
        seconds[padded], losses[padded], tokens[padded] = [], [], 0
        _turn(*runs[padded], turn)  # traces
    for _ in range(turns):
        for padded, run in runs.items():
            started = time.monotonic()
            losses[padded].append(_turn(*run, turn))
            seconds[padded].append(time.monotonic() - started)
    ratios = sorted(a / b for a, b in zip(seconds[True], seconds[False], strict=True))
    for padded, name in ((False, "in parts"), (True, "all padded")):
        rate = turn * config.batch_size * turns / sum(seconds[padded])
        print(f"{name:12s}{rate:8.1f} examples/s, loss {sum(losses[padded]) / turns:.4f}")
    print(f"speed-up: {ratios[len(ratios) // 2]:.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f})")


def _run(work, padded, steps):
    """A trainer of so many steps, and the iterator over its batches."""
    import keras

    settings = settings_of(work.config, work.backbone, work.features)
    parts = micro_batches(work.config, work.strategy, work.features)
    settings["accumulation"] = 1 if padded else parts
    keras.utils.set_random_seed(1)
    config = {
        "spec": work.spec.config(),
        "features": work.features,
        "head": {"dropout": settings["dropout"]},
    }
    dtype = "mixed_bfloat16" if work.config.bf16 else None
    model = task_folder.make_task_model(work.backbone, config, dtype=dtype)
    (train,) = model.prepare([work.train])
    batches = model.batches(train, settings["batch_size"], work.train, seed=1, pad_all=padded)
    learnt = task_of(model, settings)
    shared = (work.config, work.strategy)
    trainer = make_trainer(*shared, learnt, settings, steps, None, 1)
    return trainer, iter(batches.dataset())


def _turn(trainer, iterator, steps):
    """Some steps; their mean loss."""
    totals = trainer.train_steps(iterator, tf.constant(steps))
    losses = {k: float(v) for k, v in totals.items() if k.startswith(("loss/", "count/"))}
    return sum(
        value / losses[f"count/{key[5:]}"] for key, value in losses.items() if key[:5] == "loss/"
    )


if __name__ == "__main__":
    main()

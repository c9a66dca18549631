"""One training of `benchmarks.published_finetuning` by tfnlp: what `tfnlp finetune` does, in turns.

    python -m benchmarks.published_tfnlp SETTINGS

SETTINGS is a JSON file of the parent. As with the peer nothing is measured or saved on the way.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

from benchmarks.turns import Turns

RECIPE = (
    "epochs", "batch_size", "learning_rate", "warmup", "weight_decay", "clip_norm", "dropout",
    "max_length", "stride",
)  # fmt: skip


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    work, model, train, trainer, batches = prepare(settings)
    turns = Turns(settings["turn"])
    trainer.fit(
        batches, trainer.steps, evaluate_every=trainer.steps, progress=False,
        callbacks=[Clock(turns, batches)],
    )  # fmt: skip
    turns.report()
    turns.wait()
    predictions = model.predict(work.dev)
    with open(settings["predictions"], "w", encoding="utf-8") as file:
        file.writelines(json.dumps(p, ensure_ascii=False) + "\n" for p in predictions)
    turns.report(done=True, sequences=len(train.encoded.row), spec=work.spec.config())


def prepare(settings):
    """The pieces of a `tfnlp finetune` with these settings."""
    from tfnlp.runs import task_folder
    from tfnlp.runs.finetune_config import TASKS, settings_of
    from tfnlp.runs.finetune_trainer import make_trainer, micro_batches
    from tfnlp.runs.finetuning import Finetuning

    rows = {part: _rows(settings[part]) for part in ("train", "dev")}
    given = {name: settings[name] for name in RECIPE if settings.get(name) is not None}
    config = TASKS[settings["task"]][0].make(
        output="", model=settings["model"], seeds=[settings["seed"]], **rows, **given
    )
    work = Finetuning(settings["task"], config, tf.distribute.get_strategy())
    numbers = settings_of(config, work.backbone, None)
    numbers["accumulation"] = micro_batches(config, work.strategy, None)
    keras.utils.set_random_seed(settings["seed"])
    made = {"spec": work.spec.config(), "features": None, "head": {"dropout": numbers["dropout"]}}
    model = task_folder.make_task_model(work.backbone, made)
    (train,) = model.prepare([work.train])
    batches = model.batches(
        train, numbers["batch_size"], work.train, seed=settings["seed"],
        pad_all=settings["pad_all"],
    )  # fmt: skip
    steps = max(1, round(numbers["epochs"] * batches.steps_per_epoch))
    trainer = make_trainer(config, work.strategy, model, numbers, steps, None, settings["seed"])
    trainer.steps = steps
    return work, model, train, trainer, batches


def _rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Clock(keras.callbacks.Callback):
    """Counts the examples of each call into TensorFlow, without the repeated ones."""

    def __init__(self, turns, batches):
        super().__init__()
        self.turns, self.batches, self.step = turns, batches, 0

    def on_train_batch_end(self, last, logs=None):
        steps = range(self.step, last + 1)
        self.step = last + 1
        size = self.batches.steps_per_epoch
        found = sum(self.batches.plan(step // size)[step % size][2] for step in steps)
        self.turns.stepped(len(steps), found)


if __name__ == "__main__":
    main()

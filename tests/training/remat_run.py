"""Toys trained with and without rematerialisation: `python -m tests.training.remat_run`.

Keras's backend is that of KERAS_BACKEND. Prints, for each toy, the losses of both runs and the
largest difference of their weights, as JSON.
"""

import json
import sys

import numpy as np

from tests.training import elmo_toy, toy

STEPS = 4


def trained(name, remat):
    """The losses and the weights of a run with dropout."""
    if name == "bert":
        trainer = toy.toy_trainer(dropout=0.2, num_layers=2, accumulation=2, remat=remat)
        data = toy.ToyBatches()
    else:
        trainer = elmo_toy.toy_trainer(task=dict(dropout=0.2, num_samples=5), remat=remat)
        data = elmo_toy.toy_windows()
    history = trainer.fit(data, STEPS, log_every=1, progress=False)
    losses = [row["loss"] for row in history.train]
    return losses, [v.numpy() for v in trainer.task.model.trainable_variables]


def main():
    found = {}
    for name in ("bert", "elmo"):
        (losses, weights), (again, other) = (trained(name, remat) for remat in ("none", "full"))
        apart = max(np.abs(a - b).max() for a, b in zip(weights, other, strict=True))
        found[name] = {"losses": [losses, again], "weights": float(apart)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()

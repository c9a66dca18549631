"""A run to be killed: `python -m tests.training.gpt_killed_run DIRECTORY WEIGHTS.npz`.

Prints a line a step, and writes the final weights.
"""

import sys

import keras
import numpy as np

from tests.training.gpt_toy import held_out, toy_trainer, toy_windows, weights

STEPS = 9  # over the end of an epoch


class Lines(keras.callbacks.Callback):
    """Tells the parent process where the run is."""

    def on_train_batch_end(self, batch, logs=None):
        print(batch + 1, flush=True)


if __name__ == "__main__":
    trainer = toy_trainer(dropout=0.2, directory=sys.argv[1])
    trainer.fit(
        toy_windows(),
        STEPS,
        validation=held_out(),
        evaluate_every=4,
        checkpoint_every=1,
        callbacks=[Lines()],
        progress=False,
    )
    np.savez(sys.argv[2], *weights(trainer))

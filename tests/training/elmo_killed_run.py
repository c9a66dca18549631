"""A run to be killed: `python -m tests.training.elmo_killed_run DIRECTORY RESULT.npz`.

Prints a line a step, and writes the final weights and the final state.
"""

import sys

import keras
import numpy as np

from tests.training.elmo_toy import state, toy_trainer, toy_windows, weights


class Lines(keras.callbacks.Callback):
    """Tells the parent process where the run is."""

    def on_train_batch_end(self, batch, logs=None):
        print(batch + 1, flush=True)


if __name__ == "__main__":
    trainer = toy_trainer(directory=sys.argv[1], task=dict(dropout=0.2, num_samples=5))
    windows = toy_windows()
    trainer.fit(
        windows,
        windows.steps_per_epoch + 3,
        checkpoint_every=1,
        callbacks=[Lines()],
        progress=False,
    )
    np.savez(sys.argv[2], state(trainer), *weights(trainer))

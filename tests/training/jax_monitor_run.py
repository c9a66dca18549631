"""A run with speeds and a profile, for a process whose backend is JAX."""

import pathlib
import sys

from tests.training.toy import ToyBatches, toy_trainer
from tfnlp.training import monitor


def main():
    """Train in the folder that the command line names."""
    monitor.MEASURE_AFTER = 0.0  # so that a short run measures the peak
    trainer = toy_trainer(steps_per_call=2, directory=pathlib.Path(sys.argv[1]))
    trainer.fit(ToyBatches(), 6, log_every=2, evaluate_every=6, profile=(2, 4))

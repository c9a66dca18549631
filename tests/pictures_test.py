"""Pictures leave the caller's matplotlib as it is, and are the same for the same numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tfnlp.pictures import plot_history
from tfnlp.training.history import History


@pytest.mark.slow
def test_backend_and_open_figures_stay_those_of_the_caller(tmp_path):
    before = plt.get_backend()
    plt.switch_backend("svg")  # another one than draws PNG files, as a notebook's is
    try:
        mine = plt.figure()
        history = History([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}])
        plot_history(history, tmp_path / "curve.png")
        assert plt.get_backend() == "svg"
        assert plt.get_fignums() == [mine.number]
    finally:
        plt.close("all")
        plt.switch_backend(before)
    pixels = plt.imread(tmp_path / "curve.png")
    assert len(np.unique(pixels[:, :, :3].reshape(-1, 3), axis=0)) > 5


@pytest.mark.slow
def test_the_order_of_names_does_not_matter(tmp_path):
    """A history that was read from a checkpoint has its names in another one."""
    row = {"step": 1, "loss": 2.0, "masked_lm_accuracy": 0.5, "discriminator_accuracy": 0.25}
    for name, names in (("a.png", list(row)), ("b.png", sorted(row))):
        plot_history(History([{name: row[name] for name in names}] * 2), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()

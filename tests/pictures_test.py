"""Pictures leave the caller's matplotlib as it is."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tfnlp.pictures import plot_search


@pytest.mark.slow
def test_backend_and_open_figures_stay_those_of_the_caller(tmp_path):
    before = plt.get_backend()
    plt.switch_backend("svg")  # another one than draws PNG files, as a notebook's is
    try:
        mine = plt.figure()
        trials = [{"settings": {"learning_rate": r}, "value": r, "trial": "1"} for r in (0.1, 0.2)]
        plot_search(trials, tmp_path / "search.png", "accuracy")
        assert plt.get_backend() == "svg"
        assert plt.get_fignums() == [mine.number]
    finally:
        plt.close("all")
        plt.switch_backend(before)
    pixels = plt.imread(tmp_path / "search.png")
    assert len(np.unique(pixels[:, :, :3].reshape(-1, 3), axis=0)) > 5

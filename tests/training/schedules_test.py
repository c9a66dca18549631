import numpy as np
import pytest

from tfnlp import training


def values(rate, steps):
    return np.array([float(rate(step)) for step in range(steps)])


def test_linear_rises_to_the_peak_and_falls_to_the_end():
    got = values(training.linear(2.0, 10, 4), 12)
    want = [0.5, 1.0, 1.5, 2.0, 2.0, 2 * 5 / 6, 2 * 4 / 6, 2 * 3 / 6, 2 * 2 / 6, 2 * 1 / 6, 0, 0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_cosine_follows_half_a_wave():
    got = values(training.cosine(3.0, 12, 2), 12)
    want = 3 * 0.5 * (1 + np.cos(np.pi * (np.arange(2, 12) - 2) / 10))
    np.testing.assert_allclose(got[2:], want, rtol=1e-5)
    np.testing.assert_allclose(got[:2], [1.5, 3.0], rtol=1e-6)


def test_constant_after_the_warmup():
    np.testing.assert_allclose(values(training.constant(0.4, 2), 4), [0.2, 0.4, 0.4, 0.4])


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_no_update_is_wasted_on_a_rate_of_zero(name):
    assert (values(training.schedule(name, 1e-3, 20, 5), 20) > 0).all()


def test_noam_is_equation_3():
    # lrate = d^-0.5 min(n^-0.5, n w^-1.5), n counted from 1.
    d, w = 256, 9
    n = np.arange(1, 60)
    want = d**-0.5 * np.minimum(n**-0.5, n * w**-1.5)
    np.testing.assert_allclose(values(training.noam(d, w), 59), want, rtol=1e-5)
    np.testing.assert_allclose(values(training.noam(d, w, scale=2.5), 59), 2.5 * want, rtol=1e-5)
    assert want.argmax() == w - 1  # it peaks where the warm-up ends

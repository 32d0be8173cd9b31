"""The noise of repeated runs, by hand and by simulation.

Run: .venv/bin/python -m pytest tests/unit/stats/test_noise.py
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.stats import noise_band


def test_noise_by_hand() -> None:
    # Totals 2, 3, 1. Flips between pairs of runs: 1, 1 and 2 of 3 tasks. Quantiles 1.05 and 2.95.
    band = noise_band(np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1]]))
    assert (band.runs, band.tasks) == (3, 3)
    assert band.mean_tasks == pytest.approx(2)
    assert band.sd_tasks == pytest.approx(1)
    assert band.flip_rate == pytest.approx(4 / 9)
    assert (band.low, band.high) == pytest.approx((0.35, 2.95 / 3))
    assert band.half_width_tasks == pytest.approx(0.95)
    assert band.difference_half_width() == pytest.approx(1.95996 * 2**0.5, abs=1e-4)
    assert band.difference_half_width(4, 4) == pytest.approx(1.95996 * 0.5**0.5, abs=1e-4)


def test_runs_that_never_differ_have_no_noise() -> None:
    band = noise_band(np.tile([1.0, 0.0, 1.0], (5, 1)))
    assert (band.sd_tasks, band.half_width_tasks, band.flip_rate, band.difference_half_width()) == (0, 0, 0, 0)


@pytest.mark.parametrize("shape", [(1, 5), (5,), (3, 0), (0, 3)])
def test_one_run_shows_no_noise(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="two or more runs"):
        noise_band(np.zeros(shape))


@given(st.integers(2, 12), st.integers(1, 20), st.integers(0, 1000))
def test_flip_rate_of_coin_tosses_is_two_p_q_seen_in_pairs(runs: int, tasks: int, seed: int) -> None:
    scores = (np.random.default_rng(seed).random((runs, tasks)) < 0.4).astype(float)
    c = scores.sum(axis=0)
    assert noise_band(scores).flip_rate == pytest.approx(
        float((2 * c * (runs - c)).sum() / (runs * (runs - 1)) / tasks)
    )


def test_two_runs_of_one_model_differ_by_less_than_the_band_19_times_in_20() -> None:
    rng = np.random.default_rng(4)
    p = rng.beta(0.5, 0.5, 168)
    band = noise_band((rng.random((40, 168)) < p).astype(float))
    for samples in (1, 4):
        one, two = ((rng.random((4000, samples, 168)) < p).mean(axis=1).sum(axis=1) for _ in range(2))
        inside = np.mean(np.abs(one - two) <= band.difference_half_width(samples, samples))
        assert 0.88 <= inside <= 0.99

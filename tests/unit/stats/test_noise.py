"""The noise of repeated runs, by hand and by simulation.

Run: .venv/bin/python -m pytest tests/unit/stats/test_noise.py
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.stats import evaluations_to_tell, noise_band, runs_to_know_noise, sample_noise


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


def test_noise_from_samples_by_hand() -> None:
    # Variances of the tasks (n − 1): 1/2, 0 and, in the other model, 0, 1/2: a total's variance is 1/2 in both.
    band = sample_noise(np.array([[[1, 0], [1, 1]], [[0, 0], [1, 0]]]))
    assert (band.runs, band.tasks, band.models, band.samples) == (2, 2, 2, 1)
    assert band.sd_tasks == pytest.approx(0.5**0.5)
    assert band.mean_tasks == pytest.approx((1.5 + 0.5) / 2)
    assert band.flip_rate == pytest.approx(0.5)
    assert band.half_width_tasks == pytest.approx(1.95996 * 0.5**0.5, abs=1e-4)
    assert (band.low, band.high) == (0.0, 1.0)


def test_a_model_that_lacks_a_task_stands_for_it_with_the_others() -> None:
    whole = sample_noise(np.array([[[1, 0], [1, 0]], [[1, 0], [1, 0]]]))
    gap = sample_noise(np.array([[[1, 0], [1, 0]], [[1, 0], [np.nan, np.nan]]]))
    assert (gap.sd_tasks, gap.mean_tasks, gap.flip_rate) == pytest.approx(
        (whole.sd_tasks, whole.mean_tasks, whole.flip_rate)
    )


def test_noise_from_samples_is_that_of_runs() -> None:
    generator = np.random.default_rng(3)
    chance = generator.uniform(size=40)
    samples = (generator.uniform(size=(20, 40, 8)) < chance[:, None]).astype(float)
    runs = (generator.uniform(size=(4000, 40)) < chance).astype(float)
    assert sample_noise(samples).sd_tasks == pytest.approx(noise_band(runs).sd_tasks, rel=0.05)


@pytest.mark.parametrize("shape", [(1, 5, 1), (5, 2), (0, 3, 2), (2, 0, 2)])
def test_one_sample_shows_no_noise(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="two or more samples"):
        sample_noise(np.zeros(shape))


def test_evaluations_that_tell_two_models_apart_by_hand() -> None:
    # z² (0.25 + 0.24) / (100 · 0.1²) = 3.8415 · 0.49 = 1.88
    assert evaluations_to_tell(0.5, 0.6, 100) == 2
    # z² (0.25 + 0.2499) / (100 · 0.01²) = 192.03
    assert evaluations_to_tell(0.5, 0.51, 100) == evaluations_to_tell(0.51, 0.5, 100) == 193
    assert evaluations_to_tell(0.5, 0.5, 100) == 193, "equal means count as one task apart"
    assert evaluations_to_tell(1, 0, 1) == 1
    with pytest.raises(InputError, match="two means"):
        evaluations_to_tell(1.5, 0, 10)


def test_that_many_evaluations_do_tell_them_apart() -> None:
    generator = np.random.default_rng(1)
    needed = evaluations_to_tell(0.5, 0.6, 50)
    one, two = (generator.binomial(50 * needed, p, size=4000) / (50 * needed) for p in (0.5, 0.6))
    half = 1.95996 * np.std(one - two)
    assert half == pytest.approx(0.1, rel=0.15) and half <= 0.102


def test_runs_that_give_the_noise_its_size() -> None:
    # 1.95996 / √(2 · 8) = 0.49, and with seven degrees of freedom 0.52.
    assert runs_to_know_noise(0.5) == 9
    assert runs_to_know_noise(0.25) == 32

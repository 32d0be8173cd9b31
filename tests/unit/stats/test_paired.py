"""Paired tests and power, against hand calculation, enumeration and scipy.

Run: .venv/bin/python -m pytest tests/unit/stats/test_paired.py
"""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError
from core.stats import detectable_by_mcnemar, mcnemar, mcnemar_power, sign_flip
from core.stats.paired import detectable_by_mean


def test_mcnemar_by_hand() -> None:
    assert mcnemar(5, 1) == pytest.approx(2 * (1 + 6) / 64)
    assert mcnemar(4, 2) == pytest.approx(2 * (1 + 6 + 15) / 64)
    assert mcnemar(6, 0) == pytest.approx(2 / 64)
    assert mcnemar(3, 3) == 1
    assert mcnemar(0, 0) == 1
    with pytest.raises(InputError):
        mcnemar(-1, 3)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_symmetric_and_a_probability(gained: int, lost: int) -> None:
    assert mcnemar(gained, lost) == pytest.approx(mcnemar(lost, gained))
    assert 0 < mcnemar(gained, lost) <= 1


def test_sign_flip_by_hand() -> None:
    # ±1±2±3 reaches 6 in size twice of 8 times; ±2±1±1 reaches 2 six times of 8.
    assert sign_flip(np.array([1, 2, 3]), denominator=1) == (pytest.approx(0.25), True)
    assert sign_flip(np.array([2, 1, -1]), denominator=1) == (pytest.approx(0.75), True)
    assert sign_flip(np.array([0.0, 0.0]), denominator=1) == (1, True)
    assert sign_flip(np.array([]), denominator=1) == (1, True)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=10))
def test_sign_flip_counts_every_assignment_of_signs(values: list[int]) -> None:
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((-1, 1), repeat=len(values))
    ]
    expected = sum(one >= abs(sum(values)) for one in sums) / len(sums)
    assert sign_flip(np.array(values) / 8, denominator=8).p_value == pytest.approx(expected)
    # Without a grid, few units: scipy enumerates them.
    sampled = sign_flip(np.array(values) / 8)
    assert sampled.exact
    assert sampled.p_value == pytest.approx(expected)


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_flip_of_single_tasks_is_mcnemar(gained: int, lost: int) -> None:
    d = np.array([1.0] * gained + [-1.0] * lost + [0.0] * 5)
    assert sign_flip(d, denominator=1).p_value == pytest.approx(mcnemar(gained, lost), abs=1e-9)


def test_sign_flip_of_many_units_agrees_with_sampling() -> None:
    rng = np.random.default_rng(1)
    d = rng.integers(-8, 10, 3000) / 8
    exact = sign_flip(d, denominator=8)
    sampled = sign_flip(d)
    assert (exact.exact, sampled.exact) == (True, False)
    error = np.sqrt(exact.p_value * (1 - exact.p_value) / 9999)
    assert abs(exact.p_value - sampled.p_value) < 5 * error + 2e-4


def test_sampled_sign_flips_are_seeded() -> None:
    d = np.random.default_rng(2).normal(0.1, 1, 100)
    assert sign_flip(d, seed=1) == sign_flip(d, seed=1)
    assert sign_flip(d, seed=1) != sign_flip(d, seed=2)


@pytest.mark.parametrize(("difference", "discordance"), [(0.0, 0.5), (0.3, 0.5), (0.5, 0.5), (0.6, 1.0), (0.1, 0.3)])
def test_power_is_the_sum_over_every_outcome(difference: float, discordance: float) -> None:
    n, up = 14, (discordance + difference) / 2
    down = discordance - up
    expected = sum(
        comb(n, g) * comb(n - g, s) * up**g * down**s * (1 - discordance) ** (n - g - s)
        for g in range(n + 1)
        for s in range(n - g + 1)
        if mcnemar(g, s) <= 0.05
    )
    assert mcnemar_power(n, difference, discordance) == pytest.approx(expected, abs=1e-9)


def test_power_under_no_difference_is_the_size_of_the_test() -> None:
    for n in (20, 57, 168, 2000):
        for discordance in (0.05, 0.3, 1.0):
            assert mcnemar_power(n, 0, discordance) <= 0.05


def test_the_detectable_difference_has_80_percent_power() -> None:
    for n, discordant in ((57, 10), (168, 30), (168, 90), (1000, 100)):
        found = detectable_by_mcnemar(n, discordant)
        assert mcnemar_power(n, found, max(found, discordant / n)) == pytest.approx(0.8, abs=0.002)


def test_the_detectable_difference_without_discordance_by_hand() -> None:
    # Six tasks of 57, all one way, are the least that is significant: P(Binomial(57, δ) >= 6) = 0.8.
    found = detectable_by_mcnemar(57, 0)
    assert stats.binom.sf(5, 57, found) == pytest.approx(0.8, abs=1e-3)
    assert detectable_by_mcnemar(5, 2) == 1


def test_the_detectable_difference_nears_the_textbooks() -> None:
    # [1.95996 √ψ + 0.84162 √(ψ − δ²)]² = n δ² (Connor 1987) at ψ = 0.2, n = 10,000: δ = 0.01252.
    assert detectable_by_mcnemar(10_000, 2000) == pytest.approx(0.01252, rel=0.02)


def test_the_detectable_difference_shows_in_simulation() -> None:
    rng = np.random.default_rng(3)
    n, discordant = 168, 40
    difference, share = detectable_by_mcnemar(n, discordant), discordant / n
    up = (share + difference) / 2
    draws = rng.multinomial(n, [up, share - up, 1 - share], 3000)
    found = np.mean([mcnemar(int(g), int(s)) <= 0.05 for g, s, _ in draws])
    assert abs(found - 0.8) < 0.03


def test_the_detectable_mean_by_hand() -> None:
    # Residuals ±0.05 of four units: s = √(0.01 · 4/3)/4 = 0.028868; t of 3 degrees: 3.18245 + 0.97847.
    assert detectable_by_mean(np.array([0.1, 0, 0.1, 0]), np.ones(4)) == pytest.approx(0.028868 * 4.16092, abs=1e-5)
    assert detectable_by_mean(np.array([0.5]), np.ones(1)) == 1
    assert detectable_by_mean(np.zeros(9), np.ones(9)) == 0


@pytest.mark.parametrize("case", [(0, 0), (5, 6), (5, -1)])
def test_a_detectable_difference_of_no_tasks_is_refused(case: tuple[int, int]) -> None:
    with pytest.raises(InputError):
        detectable_by_mcnemar(*case)

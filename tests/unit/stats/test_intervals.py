"""Intervals: against hand calculation, scipy, and how often they hold the truth.

Run: .venv/bin/python -m pytest tests/unit/stats/test_intervals.py
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError
from core.stats import difference_interval, mean_interval, wilson_interval


def test_wilson_by_hand() -> None:
    # p = 2/3, z² = 3.8415: centre (0.66667 + 0.03370)/1.06739, half-width 0.12693/1.06739.
    assert wilson_interval(38, 57) == pytest.approx((0.53723, 0.77506), abs=1e-5)
    assert wilson_interval(0, 10) == (0, pytest.approx(0.27753, abs=1e-5))
    assert wilson_interval(10, 10) == (pytest.approx(0.72247, abs=1e-5), 1)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95]))
def test_wilson_is_scipys(case: tuple[int, int], confidence: float) -> None:
    found, theirs = (
        wilson_interval(*case, confidence),
        stats.binomtest(*case).proportion_ci(confidence, method="wilson"),
    )
    assert found == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert 0 <= found.low <= case[0] / case[1] <= found.high <= 1


@pytest.mark.parametrize("case", [(1, 0), (-1, 5), (6, 5), (math.nan, 5)])
def test_wilson_refuses_what_is_no_share(case: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="Wilson"):
        wilson_interval(*case)


def test_a_mean_of_lone_tasks_has_wilsons_interval() -> None:
    scores = np.array([1.0] * 38 + [0.0] * 19)
    assert mean_interval(scores) == pytest.approx(wilson_interval(38, 57))
    assert mean_interval(scores, range(57)) == pytest.approx(wilson_interval(38, 57))


def test_a_mean_of_clusters_by_hand() -> None:
    # Cluster sums of deviations ±1: v = 2/16 · 2/1 = 1/4, so n = 0.25/0.25 = 1, and t of 1 degree is 12.706.
    t = 12.7062
    half = 0.5 * t / math.sqrt(1 + t * t)
    assert mean_interval(np.array([1, 1, 0, 0]), "aabb") == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


def test_clusters_that_move_together_widen_the_interval() -> None:
    clusters = [i // 3 for i in range(57)]
    together, apart = np.repeat([1.0, 0.0] * 9 + [1.0], 3), np.array([1.0, 0.0] * 28 + [1.0])
    wide, narrow = mean_interval(together, clusters), mean_interval(apart, clusters)
    assert wide.high - wide.low > 1.4 * (narrow.high - narrow.low)


@pytest.mark.parametrize("clusters", [None, [i // 3 for i in range(30)]])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_scores_that_are_all_alike_still_have_an_interval(value: float, clusters: list[int] | None) -> None:
    low, high = mean_interval(np.full(30, value), clusters)
    assert 0 <= low <= value <= high <= 1
    assert high - low > 0.1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 5))
def test_an_interval_holds_its_mean(scores: list[float], size: int) -> None:
    low, high = mean_interval(np.array(scores), [i // size for i in range(len(scores))])
    assert -1e-12 <= low <= np.mean(scores) + 1e-9
    assert np.mean(scores) - 1e-9 <= high <= 1


@pytest.mark.parametrize("scores", [[], [np.nan], [2.0], [[0.5]]])
def test_what_are_no_scores_is_refused(scores: list[float]) -> None:
    with pytest.raises(InputError):
        mean_interval(np.array(scores))


def test_clustered_intervals_hold_the_truth_19_times_in_20() -> None:
    rng, held = np.random.default_rng(5), 0
    clusters = np.repeat(np.arange(19), 3)
    for _ in range(1500):
        level = np.repeat(rng.beta(2, 2, 19), 3)
        low, high = mean_interval((rng.random(57) < level).astype(float), clusters)
        held += low <= 0.5 <= high
    assert 0.93 <= held / 1500 <= 0.985


def test_a_paired_difference_by_the_binomial_it_is() -> None:
    # 30 of 100 tasks gained: a resampled sum is Binomial(100, 0.3), its tail 2.5 % widened for n = 100.
    d = np.array([1.0] * 30 + [0.0] * 70)
    tail = stats.norm.cdf(-math.sqrt(100 / 99) * stats.t.ppf(0.975, 99))
    expected = stats.binom.ppf([tail, 1 - tail], 100, 0.3) / 100
    assert difference_interval(d) == pytest.approx(tuple(expected), abs=0.0101)


def test_a_clustered_difference_agrees_with_scipys_bootstrap() -> None:
    rng = np.random.default_rng(2)
    sums, sizes = rng.integers(-3, 4, 19).astype(float), np.full(19, 3.0)
    clusters = np.repeat(np.arange(19), 3)
    d = np.repeat(sums / 3, 3)
    tail = stats.norm.cdf(-math.sqrt(19 / 18) * stats.t.ppf(0.975, 18))
    theirs = stats.bootstrap(
        (sums, sizes),
        lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=1 - 2 * tail,
        rng=rng,
    ).confidence_interval
    assert difference_interval(d, clusters) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_no_difference_at_all_is_not_certainty() -> None:
    # Nothing seen in 57 tasks: up to 1 − 0.025^(1/57) = 6.27 % may still move.
    assert difference_interval(np.zeros(57)) == pytest.approx((-0.06267, 0.06267), abs=1e-5)
    assert difference_interval(np.ones(4)) == (pytest.approx(0.39764, abs=1e-5), 1)
    assert difference_interval(np.array([0.0])) == pytest.approx((-0.975, 0.975))


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=40), st.integers(1, 4), st.randoms())
def test_a_difference_does_not_depend_on_order_and_holds_the_mean(values: list[int], size: int, random: object) -> None:
    d = np.array(values) / 8
    clusters = np.array([i // size for i in range(len(values))])
    found = difference_interval(d, clusters.tolist(), seed=1)
    order = np.random.default_rng(len(values)).permutation(len(values))
    assert difference_interval(d[order], clusters[order].tolist(), seed=1) == pytest.approx(found)
    assert -1 <= found.low <= d.mean() + 1e-9
    assert d.mean() - 1e-9 <= found.high <= 1


def test_the_seed_decides_the_interval() -> None:
    d = np.random.default_rng(0).normal(0, 0.2, 50).clip(-1, 1)
    assert difference_interval(d, seed=3) == difference_interval(d, seed=3)
    assert difference_interval(d, seed=3) != difference_interval(d, seed=4)


def test_difference_intervals_hold_the_truth_19_times_in_20() -> None:
    rng, held = np.random.default_rng(6), 0
    clusters = np.repeat(np.arange(19), 3).tolist()
    for _ in range(500):
        d = rng.choice([-1, 0, 1], 57, p=[0.1, 0.7, 0.2]) + 0.0
        low, high = difference_interval(d, clusters)
        held += low - 1e-9 <= 0.1 <= high + 1e-9
    assert held / 500 >= 0.925

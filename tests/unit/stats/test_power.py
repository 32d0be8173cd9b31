"""Power, variance by source, and what would settle a difference, by hand and against the textbooks.

Run: .venv/bin/python -m pytest tests/unit/stats/test_power.py
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError
from core.stats import Settling, Spread, mcnemar_power, power_by_mean, settling, spread_of, tasks_for_mcnemar
from core.stats.power import detectable_beyond


def test_a_spread_by_hand() -> None:
    # Differences 1/2, 0, −1/2, 1: mean 1/4, squares about it 1/16 + 1/16 + 9/16 + 9/16 = 5/4, over 4 · 3.
    a = [[0, 1], [1, 1], [1, 1], [0, 0]]
    b = [[1, 1], [1, 1], [0, 1], [1, 1]]
    found = spread_of(a, b)
    assert found.total == pytest.approx(5 / 4 / 12)
    # One side of two tasks is 0 and 1, of variance 1/2, over two samples: 1/4 twice, over 4².
    assert found.within == pytest.approx(0.5 / 16)
    assert found.between == pytest.approx(5 / 48 - 1 / 32)
    assert (found.tasks, found.units, found.samples) == (4, 4, 2)


def test_a_spread_over_scenarios_by_hand() -> None:
    # Scenario sums 1/2 and 1/2 of two tasks each: nothing lies between them.
    found = spread_of([[0, 1], [1, 1], [1, 1], [0, 0]], [[1, 1], [1, 1], [0, 1], [1, 1]], "xxyy")
    assert (found.total, found.between, found.units) == (0, 0, 2)


def test_one_sample_a_task_does_not_tell_sampling_apart_unless_replicates_do() -> None:
    a, b = [[0], [1], [1]], [[1], [1], [0]]
    assert spread_of(a, b).within is None
    assert spread_of(a, b, within=0.01).within == 0.01
    uneven = spread_of([[0, 1], [1, 0]], [[1] * 6, [0, 1, 1, 1, 1, 1]])
    # Harmonic mean of 2, 2, 6, 6.
    assert uneven.samples == pytest.approx(3)
    with pytest.raises(InputError):
        spread_of([], [])


def test_power_by_mean_is_the_t_tests() -> None:
    # At no difference it is the level; far off it is the normal distribution's: Φ(2.8 − 1.96) = 0.7995.
    assert power_by_mean(0, 0.1, 20) == pytest.approx(0.05)
    assert power_by_mean(0.28, 0.1, 100_000) == pytest.approx(0.7995, abs=1e-3)
    assert power_by_mean(-0.28, 0.1, 100_000) == power_by_mean(0.28, 0.1, 100_000)
    # Cohen's table 2.3.5 for one sample: d = 0.5, n = 34 has a power of 0.81.
    assert power_by_mean(0.5, 1 / math.sqrt(34), 34) == pytest.approx(0.81, abs=0.005)
    assert power_by_mean(0.3, 0.1, 57, step=0.02) == pytest.approx(power_by_mean(0.28, 0.1, 57))
    assert (power_by_mean(0.1, 0, 5), power_by_mean(0, 0, 5)) == (1, 0)
    for error, units in ((0.1, 1), (-0.1, 5)):
        with pytest.raises(InputError):
            power_by_mean(0.1, error, units)


def test_tasks_needed_by_hand() -> None:
    # Every discordant task favours the one: six are needed, each is discordant, so six tasks.
    assert tasks_for_mcnemar(1, 1) == 6
    # P(Binomial(n, 1/2) ≥ 6) first reaches 0.8 at n = 15: 1 − 4944/32768 = 0.849, at 14 it is 1 − 3473/16384 = 0.788.
    assert tasks_for_mcnemar(0.5, 0.5) == 15
    # c = 1.95996 √ψ + 0.84162 √(ψ − δ²) = 1.25236 at ψ = 0.2, δ = 0.02, so n = c²/δ² = 3,921 (Connor 1987). The exact
    # test asks for one count more, as a continuity correction does: n·δ − 1 = c·√n gives n = 4,020.
    assert tasks_for_mcnemar(0.02, 0.2) == pytest.approx(4020, rel=0.005)
    assert tasks_for_mcnemar(-0.02, 0.2) == tasks_for_mcnemar(0.02, 0.2)
    assert tasks_for_mcnemar(1e-5, 0.5) is None
    for case in ((0, 0.5), (0.5, 0.2), (0.5, 1.2)):
        with pytest.raises(InputError):
            tasks_for_mcnemar(*case)


@given(st.floats(0.02, 0.6), st.floats(0, 0.4))
def test_the_tasks_needed_have_80_percent_power(difference: float, more: float) -> None:
    discordance = min(1.0, difference + more)
    n = tasks_for_mcnemar(difference, discordance)
    assert n is not None
    assert mcnemar_power(n, difference, discordance) >= 0.8
    assert mcnemar_power(n - 1, difference, discordance) < 0.8
    assert mcnemar_power(2 * n, difference, discordance) > 0.9


def test_more_samples_settle_by_hand() -> None:
    # t of 99 degrees: 1.98422 + 0.84523 = 2.82945. δ = 0.05 wants a variance of (0.05/2.82945)² = 0.00031227; 0.0001
    # lies between tasks, so sampling may add 0.00021227, of the 0.0009 that 4 samples add: 4 · 4.23989 = 16.96.
    spread = Spread(total=0.001, within=0.0009, tasks=100, units=100, samples=4)
    found = settling(0.05, spread)
    assert found is not None
    assert (found.samples, found.samples_at_least) == (17, False)
    # 100 · 0.001/0.00031227 = 320 tasks, fewer by the t of more degrees: 0.1 · (1.9675 + 0.8428)²/0.0025 = 315.9.
    assert found.tasks == 316
    assert found.sentence == (
        "If the true difference is what was seen, about 316 tasks or about 17 samples of each of these would settle it."
    )


def test_no_number_of_samples_settles_what_lies_between_tasks() -> None:
    found = settling(0.05, Spread(total=0.001, within=0.0005, tasks=100, units=100, samples=4))
    assert found is not None
    assert found.samples is None
    assert found.sentence.endswith("tasks would settle it, and no number of samples of these.")


def test_scenarios_settle_in_whole() -> None:
    lone = settling(0.05, Spread(0.001, 0.0009, 100, 100, 4))
    grouped = settling(0.05, Spread(0.001, 0.0009, 300, 100, 4))
    assert lone is not None
    assert grouped is not None
    assert (grouped.tasks, grouped.samples) == (3 * (lone.tasks or 0), lone.samples)


def test_what_is_not_known_is_said_to_be_a_least() -> None:
    found = settling(0.05, Spread(0.001, None, 100, 100, 1), discordance=0.1)
    assert found == Settling(tasks_for_mcnemar(0.05, 0.1), 4, samples_at_least=True)
    assert found is not None
    assert "at least 4 samples" in found.sentence
    assert settling(0.0, Spread(0.001, None, 100, 100, 1)) is None
    nobody = settling(1e-7, Spread(0.001, 0.0005, 100, 100, 1))
    assert nobody == Settling(None, None, samples_at_least=False)
    assert nobody is not None
    assert nobody.sentence == "A difference this small would take more tasks than anyone has."
    single = settling(0.5, spread_of([[0.0]], [[0.5]]))
    assert single == Settling(None, None, samples_at_least=False)


def test_beyond_a_band_by_hand() -> None:
    # Far above the test's limit, and known from many runs: the band itself and 0.84162 standard errors.
    assert detectable_beyond(0.01, 0.02, 0.2, 10**9) == pytest.approx(0.2 + 0.84162 * 0.02, abs=2e-5)
    # Far below it, it asks for nothing.
    assert detectable_beyond(0.3, 0.02, 0.1, 1000) == pytest.approx(0.3, abs=2e-5)
    # Few runs leave the band itself uncertain: by 0.2/√(2 · 9) = 0.04714, together √(0.02² + 0.04714²) = 0.05121.
    assert detectable_beyond(0.01, 0.02, 0.2, 10) == pytest.approx(0.2 + 0.84162 * 0.05121, abs=2e-3)
    assert detectable_beyond(0.01, 0, 0.2, 10) == 0.2
    assert stats.norm.cdf(0.84162) == pytest.approx(0.8, abs=1e-5)

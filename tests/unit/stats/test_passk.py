"""pass@k, mean@n and sample groups, against hand calculation and their definitions.

Run: .venv/bin/python -m pytest tests/unit/stats/test_passk.py
"""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.stats import Completion, GroupScore, group_scores, mean_at_n, pass_at_k, scenario_completion


def test_pass_at_k_by_hand() -> None:
    # Of C(4, 2) = 6 pairs of samples, one has neither of the two right ones.
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(16, 1, 4) == pytest.approx(0.25)
    assert pass_at_k(8, 0, 8) == 0
    assert pass_at_k(8, 6, 3) == 1
    assert pass_at_k(np.array([4, 4, 4]), np.array([0, 2, 4]), 2) == pytest.approx(np.array([0, 5 / 6, 1]))


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_its_definition(case: tuple[int, int, int]) -> None:
    n, c, k = case
    found = pass_at_k(n, c, k)
    assert found == pytest.approx(1 - comb(n - c, k) / comb(n, k), abs=1e-12)
    assert 0 <= found <= 1
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)


def test_pass_at_k_does_not_overflow() -> None:
    assert pass_at_k(100_000, 1, 1000) == pytest.approx(0.01)


def test_pass_at_k_is_unbiased() -> None:
    p, n, k = 0.3, 7, 3
    expected = sum(comb(n, c) * p**c * (1 - p) ** (n - c) * pass_at_k(n, c, k) for c in range(n + 1))
    assert expected == pytest.approx(1 - (1 - p) ** k)


@pytest.mark.parametrize("case", [(4, 2, 0), (4, 2, 5), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_has_no_meaning(case: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="pass@k needs"):
        pass_at_k(*case)


def test_mean_at_n_by_hand() -> None:
    assert mean_at_n({"a": [1, 0, 0, 0], "b": [1, 1]}) == pytest.approx((0.25 + 1) / 2)
    with pytest.raises(InputError):
        mean_at_n({})
    with pytest.raises(InputError):
        mean_at_n({"a": []})


def test_group_scores_by_hand() -> None:
    # Two tasks of which one is solved by one of four samples: Mean4 = 1/8, Pass4 = 1/2.
    scores = np.array([[0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    assert group_scores(scores, {"last": [2, 3, 4, 5], "first": [0]}) == {
        "last": GroupScore(4, 0.125, 0.5),
        "first": GroupScore(1, 0.5, 0.5),
    }
    for wrong in ([], [6], [-1]):
        with pytest.raises(InputError, match="group 'g' must name samples from 0 to 5"):
            group_scores(scores, {"g": wrong})
    with pytest.raises(InputError, match="tasks, samples"):
        group_scores(np.zeros(3), {"g": [0]})


def test_scenario_completion_by_hand() -> None:
    # Scenario x is whole, y is not, z is lone and right: 2 of 3.
    scores = {"a": [1], "b": [1], "c": [1], "d": [0], "e": [1]}
    scenarios = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "z"}
    assert scenario_completion(scores, scenarios) == Completion(pytest.approx(2 / 3), 3, 2)
    # With samples: 1/2 · 1, 1 · 3/4, and a score below 1 is not solved.
    several = {"a": [1, 0], "b": [1], "c": [1, 1], "d": [1, 1, 0, 1], "e": [0.9]}
    assert scenario_completion(several, scenarios) == Completion(pytest.approx((0.5 + 0.75 + 0) / 3), 3, 0)


def test_scenario_completion_is_unbiased() -> None:
    # Two tasks of one scenario with chances 0.3 and 0.6, two samples each: every outcome by its probability.
    expected = 0.0
    for first in range(3):
        for second in range(3):
            p = comb(2, first) * 0.3**first * 0.7 ** (2 - first) * comb(2, second) * 0.6**second * 0.4 ** (2 - second)
            samples = {"a": [1] * first + [0] * (2 - first), "b": [1] * second + [0] * (2 - second)}
            expected += p * scenario_completion(samples, {"a": "x", "b": "x"}).rate
    assert expected == pytest.approx(0.3 * 0.6)


def test_scenario_completion_refuses_what_has_no_meaning() -> None:
    for scores, scenarios in (({}, {}), ({"a": []}, {"a": "x"}), ({"a": [1]}, {})):
        with pytest.raises(InputError):
            scenario_completion(scores, scenarios)

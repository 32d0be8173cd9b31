"""Paired differences of several samples a task, and the optimism of the best of many, by hand.

Run: .venv/bin/python -m pytest tests/unit/stats/test_differences.py
"""

import math

import numpy as np
import pytest

from core.errors import InputError
from core.stats import Optimism, choice_warning, compare, paired_difference, selection_optimism


def test_a_paired_difference_by_hand() -> None:
    a = {"w": [0, 1], "x": [1, 1], "y": [1, 1], "z": [0, 0]}
    b = {"w": [1, 1], "x": [1, 1], "y": [0, 1], "z": [1, 1]}
    found = paired_difference(a, b, denominator=2)
    # Differences 1/2, 0, −1/2, 1: mean 1/4, error √(5/4/12); of 8 signs of (1, 1, 2)/2 those with |sum| ≥ 1 are 6.
    assert (found.tasks, found.units, found.difference) == (4, 4, 0.25)
    assert found.standard_error == pytest.approx(math.sqrt(5 / 48))
    assert (found.p_value, found.exact) == (pytest.approx(6 / 8), True)
    assert found.sampling_share == pytest.approx((0.5 / 16) / (5 / 48))
    assert found.interval.low < 0.25 < found.interval.high


def test_scenarios_are_one_number_each() -> None:
    a = {f"t{at}": [0.0, 0.0] for at in range(12)}
    b = a | {f"t{at}": [1.0, 0.0] for at in range(9)}
    clusters = {task: f"s{int(task[1:]) // 3}" for task in a}
    found = paired_difference(a, b, clusters=clusters, denominator=2)
    # Sums 3/2, 3/2, 3/2 and 0: all signs alike in 2 of 8.
    assert (found.units, found.difference) == (4, pytest.approx(9 / 24))
    assert found.p_value == pytest.approx(1 / 4)
    assert found.p_value == compare(a, b, clusters=clusters).p_value
    lone = paired_difference(a, b, denominator=2)
    assert lone.p_value == pytest.approx(2 / 2**9)


def test_a_single_sample_tells_no_sampling_share() -> None:
    a, b = {"x": [0.0], "y": [1.0]}, {"x": [1.0], "y": [1.0]}
    assert paired_difference(a, b).sampling_share is None
    assert paired_difference(a, a).p_value == 1
    for wrong in (({}, {}), (a, {"x": [1.0]}), ({"x": [0.0]}, {"x": [1.0]})):
        with pytest.raises(InputError):
            paired_difference(*wrong)
    with pytest.raises(InputError, match="no scenario"):
        paired_difference(a, b, clusters={"x": "s"})


def test_optimism_by_hand() -> None:
    # Two tasks, each solved by one candidate: half the tasks choose one that scores 1 there and 0 on the other half.
    found = selection_optimism(np.array([[1, 0], [0, 1]]))
    assert found == Optimism(2, 2, 0.5, pytest.approx(1 / math.sqrt(2)))
    assert found.corrected == pytest.approx(0.5 - 1 / math.sqrt(2))
    # A candidate that is better everywhere is no accident.
    assert selection_optimism(np.array([[1] * 6, [0] * 6])).amount == 0
    assert selection_optimism(np.array([[1, 0, 1]])) == Optimism(1, 3, pytest.approx(2 / 3), 0)


def test_optimism_counts_scenarios_as_one() -> None:
    rng = np.random.default_rng(0)
    scores = np.repeat((rng.random((8, 20)) < 0.5).astype(float), 4, axis=1)
    alone = selection_optimism(scores)
    together = selection_optimism(scores, [at // 4 for at in range(80)])
    # Four tasks that move as one are one: the deviation of a mean is twice as large.
    assert together.amount > 1.5 * alone.amount
    assert together == selection_optimism(scores, [at // 4 for at in range(80)])


def test_what_has_no_optimism_is_refused() -> None:
    for scores in (np.zeros((0, 3)), np.zeros(3), np.full((2, 3), np.nan)):
        with pytest.raises(InputError, match="optimism needs finite"):
            selection_optimism(scores)
    with pytest.raises(InputError, match="two or more tasks"):
        selection_optimism(np.ones((2, 3)), "aaa")


def test_the_warning_says_what_choosing_cost_and_what_was_held_out() -> None:
    assert choice_warning("dev", "test") == ""
    said = choice_warning(
        "dev", "dev", optimism=Optimism(11, 57, 0.7, 3.5 / 57), held_out={"dev": "no", "test": "unresolved."}
    )
    assert said == (
        "The recipe was chosen on dev, the tasks that it is judged by here, so it looks too good. The best of 11 on "
        "57 tasks can be expected to solve 3.5 fewer of as many fresh ones (-6.1 pp). On test, held out: unresolved."
    )
    assert choice_warning("dev", "dev").endswith("evaluate on tasks that chose nothing.")

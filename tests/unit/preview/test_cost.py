"""Estimates of a run before it starts: more work is never said to be quicker, earlier runs correct the guess.

Run: .venv/bin/python -m pytest tests/unit/preview/test_cost.py
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.preview.cost import START_SECONDS, Work, estimate, estimate_merge, expected_seconds

SMALL = Work(elements=400_000, members=16, evaluations=2, samples=225, tokens=32)


def test_a_small_run_is_a_matter_of_seconds_and_a_large_one_of_hours() -> None:
    assert START_SECONDS < expected_seconds(SMALL) < 60
    large = Work(elements=8_000_000_000, members=5, evaluations=1, samples=57, tokens=512)
    assert expected_seconds(large) > 3600


@given(st.sampled_from(["elements", "members", "evaluations", "samples", "tokens"]), st.integers(2, 50))
def test_more_work_never_takes_less_time(field: str, factor: int) -> None:
    more = replace(SMALL, **{field: getattr(SMALL, field) * factor})
    assert expected_seconds(more) >= expected_seconds(SMALL)


def test_without_earlier_runs_the_guess_says_that_it_rests_on_none() -> None:
    found = estimate(SMALL)
    assert (found.seconds, found.runs) == (expected_seconds(SMALL), 0)


def test_earlier_runs_correct_the_guess_by_their_median() -> None:
    usual = expected_seconds(SMALL)
    found = estimate(SMALL, [(SMALL, 2 * usual), (SMALL, 2.2 * usual), (SMALL, 90 * usual)])
    assert found.runs == 3
    assert found.seconds == pytest.approx(2.2 * usual)


def test_runs_without_a_duration_are_left_out() -> None:
    assert estimate(SMALL, [(SMALL, 0.0)]).runs == 0


def finished(elements: int, members: int, seconds: float) -> dict[str, object]:
    return {"elements": elements, "seconds": seconds, "election": {"member_changed": [1] * members}}


def test_a_merge_is_corrected_by_earlier_ones_of_its_size_only() -> None:
    alone = estimate_merge(100_000_000, 5)
    assert alone.runs == 0 and alone.seconds == pytest.approx(1 + 5e8 / 1.5e8)
    like = [finished(100_000_000, 5, 2 * alone.seconds), finished(200_000_000, 5, 0.0)]
    assert estimate_merge(100_000_000, 5, like).seconds == pytest.approx(2 * alone.seconds)
    small, mergekit = finished(400_000, 5, 60.0), finished(100_000_000, 0, 60.0)
    assert estimate_merge(100_000_000, 5, [small, mergekit]) == alone

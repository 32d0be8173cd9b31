"""Fractions and times left against values worked out by hand.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_timeline.py
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.jobs.timeline import Phase, Timeline

MERGE, DEV, TEST = Phase("merge", 10.0, "merge"), Phase("dev", 20.0, "eval"), Phase("test", 60.0, "eval")


def test_before_anything_nothing_is_known() -> None:
    line = Timeline([MERGE, DEV])
    assert (line.fraction, line.eta()) == (0.0, None)
    line.enter("merge", 100.0)
    assert (line.fraction, line.eta()) == (0.0, None)


def test_the_first_phase_goes_by_its_rate_and_the_others_by_what_is_expected() -> None:
    line = Timeline([MERGE, DEV, TEST])
    line.enter("merge", 0.0)
    line.advance(0.0, 0.0)
    line.advance(0.1, 1.0)
    assert line.eta() is None, "too early to tell"
    line.advance(0.25, 5.0)
    # A quarter took 5 s, so 15 s are left; of evaluations nothing is known but the expected 80.
    assert line.eta() == pytest.approx(15 + 80)
    assert line.fraction == pytest.approx(2.5 / 90)


def test_later_phases_follow_their_own_group() -> None:
    line = Timeline([MERGE, DEV, TEST])
    line.enter("merge", 0.0)
    line.advance(1.0, 30.0)
    line.enter("dev", 30.0)
    line.advance(0.0, 32.0)
    # This phase has not shown its rate: 18 of its expected 20 are left.
    assert line.eta() == pytest.approx(18 + 60)
    line.advance(0.5, 42.0)
    # 10 s for half since it moved: 10 left. 10 expected seconds took 12 (2 of loading), so 60 take 72.
    assert line.eta() == pytest.approx(10 + 72)
    line.enter("test", 54.0)
    # Nothing has moved, but dev took 24 s where 20 were expected.
    assert line.eta() == pytest.approx(72)
    assert line.fraction == pytest.approx(30 / 90)
    line.advance(1.0, 60.0)
    assert (line.eta(), line.fraction) == (0.0, 1.0)


def test_going_back_is_ignored_and_an_unknown_phase_is_a_defect() -> None:
    line = Timeline([MERGE])
    line.enter("merge", 0.0)
    line.advance(0.5, 1.0)
    line.advance(0.2, 2.0)
    assert line.fraction == 0.5
    with pytest.raises(KeyError):
        line.enter("lunch", 3.0)


@given(
    seconds=st.lists(st.floats(0.001, 1000), min_size=1, max_size=6),
    steps=st.lists(st.tuples(st.floats(-1, 2), st.floats(0, 100)), max_size=40),
)
def test_fraction_only_grows_and_time_left_is_never_negative(
    seconds: list[float], steps: list[tuple[float, float]]
) -> None:
    phases = [Phase(str(at), one, "eval" if at % 2 else "merge") for at, one in enumerate(seconds)]
    line, now, before = Timeline(phases), 0.0, 0.0
    for phase in phases:
        line.enter(phase.name, now)
        for share, took in steps:
            now += took
            line.advance(share, now)
            left = line.eta()
            assert left is None or left >= 0
            assert before <= line.fraction <= 1
            before = line.fraction

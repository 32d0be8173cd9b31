"""Scorers judge what people would, say why, and refuse what they cannot judge.

Run: .venv/bin/python -m pytest tests/unit/evals/test_scorers.py
"""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import TaskError
from core.evals import SCORERS, Task, score
from core.evals.scorers import scorer_of


def judged(scorer: Any, target: str, completion: str) -> float:
    """The score alone."""
    return score(Task("t", "t", "p", target, scorer), completion).score


@pytest.mark.parametrize(
    ("completion", "expected"),
    [("abc", 1), (" abc\n", 1), ("Abc", 0), ("abcd", 0), ("", 0), ("ab c", 0)],
)
def test_exact_is_equality_without_outer_white_space(completion: str, expected: int) -> None:
    assert judged("exact", "abc", completion) == expected


def test_exact_may_ignore_case() -> None:
    assert judged({"name": "exact", "ignore_case": True}, "Straße", "STRASSE") == 1


@pytest.mark.parametrize(
    ("target", "completion", "expected"),
    [
        ("15", "15", 1),
        ("15", "the answer is 15.", 1),
        ("15", "15.0", 1),
        ("15", "1.5e1", 1),
        ("15", "first 3, then 15", 1),
        ("15", "15, not 3", 0),
        ("15", "-15", 0),
        ("-15", "it is −15", 1),
        ("2", "5-2", 1),
        ("1500", "1,500", 1),
        ("500", "1,500", 0),
        ("0.1", ".1", 1),
        ("0.3", "0.30000000000000004", 0),
        ("15", "fifteen", 0),
        ("15", "", 0),
        ("9007199254740993", "9007199254740992", 0),
    ],
)
def test_numeric_reads_the_last_number_exactly(target: str, completion: str, expected: int) -> None:
    assert judged("numeric", target, completion) == expected


def test_numeric_options() -> None:
    assert judged({"name": "numeric", "tolerance": 0.01}, "3.14", "3.1415926") == 1
    assert judged({"name": "numeric", "tolerance": 0.001}, "3.14", "3.1415926") == 0
    assert judged({"name": "numeric", "relative_tolerance": 0.01}, "200", "201.9") == 1
    assert judged({"name": "numeric", "relative_tolerance": 0.01}, "-200", "-202.1") == 0
    assert judged({"name": "numeric", "take": "first"}, "15", "15, not 3") == 1


def test_a_number_out_of_all_proportion_is_wrong_and_quick() -> None:
    began = time.perf_counter()
    for completion in ("9" * 150_000, "1e999999999", "-" * 100_000, "1," * 50_000):
        assert judged("numeric", "15", completion) == 0
    assert time.perf_counter() - began < 5


@given(st.integers(-(10**12), 10**12), st.integers(0, 6))
def test_numeric_finds_any_number_it_is_given(value: int, zeros: int) -> None:
    written = f"{value}.{'0' * zeros}" if zeros else str(value)
    assert judged("numeric", str(value), f"so it is {written}") == 1
    assert judged("numeric", str(value + 1), f"so it is {written}") == 0


@given(st.text(max_size=200))
def test_no_completion_breaks_a_scorer(completion: str) -> None:
    for scorer, target in (("exact", "a"), ("numeric", "1"), ("regex", "a+b")):
        value, reason = score(Task("t", "t", "p", target, scorer), completion)
        assert value in (0, 1)
        assert reason


@pytest.mark.parametrize(
    ("pattern", "completion", "expected"),
    [
        ("^a,\\s*b$", "a,  b", 1),
        ("^a,\\s*b$", "a,  b.", 0),
        ("b", "abc", 1),
        (r"(?i)yes", "YES", 1),
        ("^$", "", 1),
        ("x", "", 0),
    ],
)
def test_regex_searches(pattern: str, completion: str, expected: int) -> None:
    assert judged("regex", pattern, completion) == expected


def test_a_pattern_without_end_is_stopped_and_named() -> None:
    began = time.perf_counter()
    with pytest.raises(TaskError, match=r"Task 'slow'.*did not finish.*backtracks"):
        score(Task("slow", "s", "p", r"^(a|aa)+(b|bb)*\1+$c", "regex"), "a" * 5000)
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("numerical", "unknown scorer 'numerical'.*Is 'numeric' meant"),
        (7, "name or an object"),
        ({"tolerance": 1}, "with a 'name'"),
        ({"name": "exact", "tolerance": 1}, "no option 'tolerance'"),
        ({"name": "numeric", "tolerance": "1"}, "must be int or float"),
        ({"name": "numeric", "tolerance": True}, "must be int or float"),
    ],
)
def test_a_bad_scorer_is_explained(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scorer_of(spec)


@pytest.mark.parametrize(
    ("spec", "target", "message"),
    [
        ("numeric", "ten", "needs a number"),
        ("numeric", "1 2", "needs a number"),
        ({"name": "numeric", "tolerance": -1}, "1", "finite number from 0"),
        ({"name": "numeric", "tolerance": float("nan")}, "1", "finite number from 0"),
        ({"name": "numeric", "take": "middle"}, "1", "'first' or 'last'"),
        ("regex", "(", "not a regular expression"),
        ("regex", "", "matches everything"),
        ("regex", "a" * 2001, "at most 2,000"),
    ],
)
def test_a_target_that_cannot_be_judged_is_refused(spec: Any, target: str, message: str) -> None:
    scorer, options = scorer_of(spec)
    with pytest.raises(ValueError, match=message):
        scorer.check(target, options)


def test_the_three_scorers_are_there() -> None:
    assert set(SCORERS) >= {"exact", "numeric", "regex"}

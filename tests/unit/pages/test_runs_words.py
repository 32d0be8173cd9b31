"""What is said about runs: headlines, one-line results, advice after a failure, amounts and times.

Run: .venv/bin/python -m pytest tests/unit/pages/test_runs_words.py
"""

from types import SimpleNamespace
from typing import Any

import pytest

from core.words import amount, duration, file_size
from pages.shared.runs import when
from pages.shared.runs_words import headline, outcome_lines, result_line, state_line, what_to_do


def job(state: str = "succeeded", **more: Any) -> Any:
    values = {"state": state, "live": state in ("queued", "running"), "stage": "", "cancel_requested": False}
    return SimpleNamespace(**{**values, "error": None, "result": None, **more})


def compared(verdict: str) -> dict[str, Any]:
    return {"n": 57, "mean_a": 38 / 57, "mean_b": 43 / 57, "difference": 5 / 57, "p_value": 0.27, "verdict": verdict}


def test_the_headline_counts_by_state() -> None:
    assert headline([job("failed")]) == "One run, failed"
    jobs = [job("succeeded"), job("running"), job("succeeded")]
    assert headline(jobs) == "Three runs: one running, two succeeded"


def test_the_result_is_the_difference_to_the_best_single_on_every_split() -> None:
    found = job(result={"comparisons": {"dev": {"best_single": compared("unresolved")}}})
    assert result_line(found) == "dev +5.0 of 57, unresolved"
    assert outcome_lines(found) == [
        "On dev the merge solves 43 of 57 tasks, the best single checkpoint 38: unresolved (p 0.27)."
    ]


def test_other_kinds_of_run_have_a_result_too() -> None:
    assert result_line(job(result={"merge": {"tensors": 46, "seconds": 1.23}})) == "46 tensors merged in 1.2 s"
    assert result_line(job(result={"eval": {"mean": 0.5, "n_tasks": 57}})) == "mean score 0.5000 of 57 tasks"
    assert result_line(job(result={})) == ""


def test_a_live_run_says_what_it_does_and_a_failed_one_why() -> None:
    assert result_line(job("running", stage="evaluate merge on dev")) == "evaluate merge on dev"
    assert result_line(job("failed", error="no space left.\nmore")) == "no space left."
    assert state_line(job("running", cancel_requested=True)) == "cancelling"


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (job("failed", error="the disk is full: no space left"), "Free disk space"),
        (job("failed", error="ran out of memory at batch 3"), "fewer samples"),
        (job("failed", error="model.safetensors: is missing"), "Put the missing file back"),
        (job("failed", error=None), "end of the log"),
        (job("lost"), "machine restarted"),
        (job("cancelled"), "half-written has been removed"),
    ],
)
def test_every_bad_end_says_what_to_do(found: Any, part: str) -> None:
    assert part in what_to_do(found)


def test_amounts_are_said_as_people_do() -> None:
    assert [duration(one) for one in (0.04, 0.44, 8, 180, 9000)] == ["0.0 s", "0.4 s", "8 s", "3 min", "2.5 h"]
    assert [file_size(one) for one in (0, 999, 3_400_000, 999_600, 5e15)] == [
        "0 B",
        "999 B",
        "3.4 MB",
        "1 MB",
        "5000 TB",
    ]
    assert [amount(one) for one in (12, 451_000, 8_200_000_000)] == ["12", "451 thousand", "8.2 B"]
    assert when(None) == ""

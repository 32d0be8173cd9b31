"""Progress of a job without a worker: how often it is written, when it stops, what a broken ledger does.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_work.py
"""

import sqlite3
import time
from itertools import pairwise
from typing import Any

import pytest

from core.errors import Cancelled
from core.jobs import Ledger, store
from core.jobs.timeline import Phase
from core.jobs.work import Work
from tests.unit.jobs.test_ledger import written


@pytest.fixture
def work(ledger: Ledger) -> Work:
    written(ledger, "a", state="running")
    made = Work(ledger, "a")
    made.plan([Phase("merge", 1.0, "merge", main_stage="merging"), Phase("eval", 3.0, "eval")])
    return made


def test_progress_is_written_at_most_five_times_a_second(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[float] = []
    real = store.write_readings

    def counted(*given: Any) -> bool:
        writes.append(time.monotonic())
        return real(*given)

    monkeypatch.setattr(store, "write_readings", counted)
    progress = work.phase("merge")
    began = time.monotonic()
    calls = 0
    while time.monotonic() - began < 1.0:
        progress("merging", calls, 10**9, "parameters")
        calls += 1
    assert calls > 100
    assert len(writes) <= 7
    assert all(later - earlier > 0.15 for earlier, later in pairwise(writes))


def test_only_the_main_stage_moves_the_whole_and_all_stages_are_said(ledger: Ledger, work: Work) -> None:
    progress = work.phase("merge")
    progress("checking", 1, 1, "models")
    work.write()
    assert (ledger.job("a").fraction, ledger.job("a").stage) == (0.0, "merge: checking")
    progress("merging", 50, 100, "parameters")
    work.write()
    seen = ledger.job("a")
    assert (seen.fraction, seen.done, seen.total, seen.unit) == (0.125, 50, 100, "parameters")
    work.phase("eval")("", 1, 2, "samples")
    work.write()
    assert (ledger.job("a").fraction, ledger.job("a").stage) == (0.25 + 0.375, "eval")


def test_a_request_stops_it_once(ledger: Ledger, work: Work) -> None:
    progress = work.phase("merge")
    ledger.append("a", "cancel", {"by": 1})
    with pytest.raises(Cancelled, match="on request"):
        while True:
            progress("merging", 1, 2, "parameters")
    progress("merging", 2, 2, "parameters")
    assert work.stopping


def test_a_job_that_was_ended_by_others_stops_at_its_next_phase(ledger: Ledger, work: Work) -> None:
    work.phase("merge")
    ledger.finish("a", "lost", {"error": "x"})
    with pytest.raises(Cancelled, match="from outside"):
        work.phase("eval")
    assert ledger.job("a").state == "lost"


def test_a_ledger_that_cannot_be_written_does_not_stop_the_work(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = work.phase("merge")

    def full(*_: Any) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store, "write_readings", full)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        progress("merging", 1, 2, "parameters")

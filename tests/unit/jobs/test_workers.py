"""Real workers: success, failure, cancellation, sudden death, waiting for a device, a submitter that ends.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_workers.py
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import InputError, JobError
from core.jobs import Job, Ledger
from core.jobs.process import is_alive, start_of

Until = Callable[[Ledger, str, Callable[[Job], bool]], Job]
ROOT = Path(__file__).resolve().parents[3]


def ended(job: Job) -> bool:
    return not job.live


def kinds(ledger: Ledger, job: str) -> list[str]:
    return [event.kind for event in ledger.events(job)]


def test_a_job_runs_in_a_process_of_its_own_and_its_result_is_in_the_ledger(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 3}, "count to three")
    done = until(ledger, job, ended)
    assert (done.state, done.error, done.title) == ("succeeded", None, "count to three")
    assert done.result is not None
    assert done.result["steps"] == 3
    assert done.result["home"] == str(ledger.home)
    assert done.pid not in (None, os.getpid())
    assert (done.folder / "numbers.txt").is_file()
    assert done.fraction == 1.0
    assert done.created <= (done.started or 0) <= (done.finished or 0)
    assert kinds(ledger, job) == ["submitted", "started", "running", "stage", "succeeded"]
    assert json.loads((done.folder / "spec.json").read_text())["spec"] == {"steps": 3}
    assert "count to three" in done.log.read_text()


def test_progress_time_left_and_a_heartbeat_are_seen_while_it_runs(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 400}, "slow")
    early = until(ledger, job, lambda one: one.state == "running" and one.done > 0)
    assert early.stage == "count: counting"
    assert (early.total, early.unit) == (400, "numbers")
    later = until(ledger, job, lambda one: one.eta_seconds is not None)
    assert later.eta_seconds is not None
    assert 0 < later.eta_seconds < 300
    assert 0 < later.fraction < 1
    assert later.heartbeat is not None
    assert time.time() - later.heartbeat < 10


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("message", "the disk is made of cheese. Use another."),
        ("full", "the disk is full at /data/out. Free some space and submit the job again."),
        ("defect", "internal error: ZeroDivisionError: one over nothing (see the log)"),
        ("json", "internal error: TypeError: Object of type PosixPath is not JSON serializable (see the log)"),
    ],
)
def test_a_failure_is_one_message_and_a_traceback_only_in_the_log(
    ledger: Ledger, until: Until, how: str, error: str
) -> None:
    done = until(ledger, ledger.submit("break", {"how": how}, "break"), ended)
    assert (done.state, done.error) == ("failed", error)
    assert ("Traceback" in done.log.read_text()) == (how != "message")
    assert not list(done.folder.glob(".half*"))


def test_cancelling_stops_it_and_removes_what_was_half_written(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 1000}, "long")
    running = until(ledger, job, lambda one: one.done > 0)
    done = ledger.cancel(job)
    assert (done.state, done.error) == ("cancelled", "cancelled on request.")
    assert running.worker is not None
    assert sorted(path.name for path in done.folder.iterdir()) == ["spec.json", "worker.log"]
    assert kinds(ledger, job)[-2:] == ["cancel", "cancelled"]
    with pytest.raises(JobError, match=r"has ended: cancelled\. Only a queued or running job"):
        ledger.cancel(job)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_worker_that_does_not_listen_is_ended_by_signals(ledger: Ledger, until: Until, deaf: bool) -> None:
    job = ledger.submit("deaf", {"deaf": deaf}, "deaf")
    pid_file = ledger.folder(job) / "child.pid"
    running = until(ledger, job, lambda _: pid_file.is_file() and pid_file.read_text() != "")
    done = ledger.cancel(job, grace=0.5)
    assert done.state == "cancelled"
    assert running.worker is not None
    assert not is_alive(running.worker)
    assert not list(done.folder.glob(".half*"))
    child = int(pid_file.read_text())
    if deaf:
        end = time.monotonic() + 10
        while start_of(child) and time.monotonic() < end:
            time.sleep(0.05)
        assert start_of(child) is None, "SIGKILL reaches the whole group"
    elif start_of(child):
        os.kill(child, signal.SIGKILL)


def test_a_killed_worker_is_lost_after_recover_and_not_before(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 1000}, "killed")
    running = until(ledger, job, lambda one: one.done > 0)
    assert ledger.recover() == []
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
    assert ledger.job(job).state == "running"
    end = time.monotonic() + 10
    while not (lost := ledger.recover()) and time.monotonic() < end:
        time.sleep(0.05)
    assert lost == [job]
    done = ledger.job(job)
    assert done.state == "lost"
    assert f"process {running.pid}" in (done.error or "")
    assert not list(done.folder.glob("*.tmp"))
    assert ledger.recover() == []


def test_two_jobs_on_one_device_run_one_after_the_other_in_order(ledger: Ledger, until: Until) -> None:
    first = ledger.submit("sleep", {"steps": 2000, "device": "cuda:0"}, "first")
    until(ledger, first, lambda one: one.state == "running")
    second = ledger.submit("sleep", {"steps": 1, "device": "cuda:0"}, "second")
    waiting = until(ledger, second, lambda one: one.device is not None)
    assert waiting.state == "queued"
    assert waiting.stage == f"waiting for cuda:0: job {first} is using it"
    third = ledger.submit("sleep", {"steps": 1, "device": "cuda:0"}, "third")
    until(ledger, third, lambda one: one.device is not None)
    other = until(ledger, ledger.submit("sleep", {"steps": 1, "device": "cpu"}, "elsewhere"), ended)
    assert other.state == "succeeded"
    assert [ledger.job(one).state for one in (first, second, third)] == ["running", "queued", "queued"]
    before = time.time()
    ledger.cancel(first)
    results = [until(ledger, job, ended).result or {} for job in (second, third)]
    assert results[0]["began"] >= before
    assert results[0]["ended"] <= results[1]["began"]


def test_a_killed_holder_frees_the_device_and_one_that_waits_can_be_cancelled(ledger: Ledger, until: Until) -> None:
    first = ledger.submit("sleep", {"steps": 1000}, "holder")
    running = until(ledger, first, lambda one: one.state == "running")
    second = ledger.submit("sleep", {"steps": 1}, "waits")
    third = ledger.submit("sleep", {"steps": 1}, "given up")
    until(ledger, third, lambda one: one.stage.startswith("waiting"))
    assert ledger.cancel(third).state == "cancelled"
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
    assert until(ledger, second, ended).state == "succeeded"
    ledger.recover()
    assert ledger.job(first).state == "lost"


def test_a_job_survives_the_process_that_submitted_it(home: Path, until: Until) -> None:
    code = "from core.jobs import Ledger; print(Ledger().submit('sleep', {'steps': 30}, 'left alone'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    job = done.stdout.strip()
    ledger = Ledger(home)
    assert ledger.recover() == []
    assert ledger.job(job).live
    assert until(ledger, job, ended).state == "succeeded"


def test_a_second_worker_of_a_job_is_refused(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 100}, "once")
    command = [sys.executable, "-m", "core", "worker", job]
    queued = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert queued.returncode == 1
    assert "already has a worker" in queued.stderr or "only a queued job" in queued.stderr
    assert until(ledger, job, lambda one: one.done > 0).state == "running"
    assert ledger.cancel(job).state == "cancelled"


def test_sigterm_without_a_request_is_a_clean_end_too(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 1000}, "machine goes down")
    running = until(ledger, job, lambda one: one.done > 0)
    assert running.pid is not None
    os.kill(running.pid, signal.SIGTERM)
    done = until(ledger, job, ended)
    assert (done.state, done.error) == ("cancelled", "stopped by SIGTERM.")
    assert not list(done.folder.glob("*.tmp"))


def test_submitting_again_and_cleaning_up(ledger: Ledger, until: Until) -> None:
    job = ledger.submit("sleep", {"steps": 2}, "again")
    with pytest.raises(JobError, match="cancel it before"):
        ledger.delete_files(job)
    done = until(ledger, job, ended)
    (done.folder / "merged").mkdir()
    (done.folder / "merged" / "model.bin").write_bytes(b"x" * 1000)
    assert ledger.delete_files(job) == 1000
    assert sorted(path.name for path in done.folder.iterdir()) == ["spec.json", "worker.log"]
    again = until(ledger, ledger.resubmit(job), ended)
    assert again.id != job
    assert (again.kind, again.spec, again.state) == ("sleep", {"steps": 2}, "succeeded")


def test_a_specification_that_cannot_work_leaves_no_trace(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="steps must be at least 0"):
        ledger.submit("sleep", {"steps": -1}, "no")
    with pytest.raises(
        InputError, match=r"unknown kind of job 'cook'\. Expected one of: merge, eval, merge_eval, ladder, sleep"
    ):
        ledger.submit("cook", {}, "no")
    assert not ledger.home.exists()

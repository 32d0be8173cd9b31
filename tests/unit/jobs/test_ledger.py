"""The ledger's file: append-only events, rows folded from them, many writers at once, odd moments.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_ledger.py
"""

import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from core.errors import InputError, JobError
from core.jobs import LIVE, Ledger, default_home, store
from core.jobs.locks import FileLock
from core.jobs.model import Worker
from core.jobs.process import identify, is_alive, machine

ROOT = Path(__file__).resolve().parents[3]
SUBMITTED = {"kind": "sleep", "title": "t", "spec": {"steps": 1}, "executor": "local", "command": "x"}


def written(ledger: Ledger, job: str, worker: Worker | None = None, **state: str) -> None:
    """A job as a ledger has it after some moment, without starting anything."""
    ledger.append(job, "submitted", SUBMITTED)
    if worker is not None:
        ledger.append(job, "started", {"worker": asdict(worker)})
    if state.get("state") == "running":
        ledger.append(job, "running", {"device": "cpu"})


def me() -> Worker:
    found = identify(os.getpid())
    assert found is not None
    return found


def test_rows_are_what_folding_the_events_gives(ledger: Ledger) -> None:
    written(ledger, "a", me(), state="running")
    ledger.append("a", "stage", {"stage": "merge"})
    ledger.append("a", "cancel", {"by": 1})
    ledger.append("a", "succeeded", {"result": {"x": [1, 2.5, None]}})
    with store.connect(ledger.path) as db:
        row = dict(db.execute("SELECT * FROM jobs WHERE id = 'a'").fetchone())
    folded = store.fold(ledger.events("a"))
    kept = {name: value for name, value in folded.items() if name not in store.READINGS}
    assert kept == {name: row[name] for name in kept}
    assert {"state", "started", "finished", "worker", "result", "cancel_requested"} <= set(kept)


def test_events_can_neither_be_changed_nor_deleted(ledger: Ledger) -> None:
    written(ledger, "a")
    with store.connect(ledger.path) as db:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            db.execute("UPDATE events SET kind = 'lost'")
        with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
            db.execute("DELETE FROM events")


def test_events_after_a_given_one(ledger: Ledger) -> None:
    written(ledger, "a", me())
    first, second = ledger.events("a")
    assert (first.kind, second.kind) == ("submitted", "started")
    assert first.id < second.id
    assert ledger.events("a", after=first.id) == [second]
    assert ledger.events("a", after=second.id) == []


def test_a_final_state_is_final(ledger: Ledger) -> None:
    written(ledger, "a", me())
    assert ledger.finish("a", "cancelled", {"error": "first"})
    assert not ledger.finish("a", "succeeded", {"result": {}})
    assert not ledger.advance("a", "running", {"device": "cpu"})
    assert (ledger.job("a").state, ledger.job("a").error) == ("cancelled", "first")
    assert not ledger.job("a").live


def test_recover_judges_by_pid_and_start_together(ledger: Ledger) -> None:
    alive, reused, rebooted = me(), Worker(os.getpid(), "1", machine()), Worker(1, "1", "another boot")
    written(ledger, "alive", alive, state="running")
    written(ledger, "reused", reused, state="running")
    written(ledger, "elsewhere", rebooted)
    written(ledger, "being-started")
    assert ledger.recover() == ["reused"]
    assert ledger.job("alive").state == "running"
    assert ledger.job("elsewhere").state == "queued", "its last heartbeat is recent: it may live on another machine"
    assert ledger.job("being-started").state == "queued"


def test_recover_gives_up_on_the_silent_and_the_never_started(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    written(ledger, "elsewhere", Worker(1, "1", "another boot"))
    written(ledger, "never")
    later = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: later)
    assert sorted(ledger.recover()) == ["elsewhere", "never"]
    assert "no worker was ever started" in (ledger.job("never").error or "")


def test_listing_looks_after_a_job_that_has_been_silent(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    written(ledger, "dead", Worker(os.getpid(), "1", machine()), state="running")
    written(ledger, "alive", me(), state="running")
    assert [one.state for one in ledger.jobs()] == ["running", "running"]
    later = time.time() + 30
    monkeypatch.setattr(time, "time", lambda: later)
    assert {one.id: one.state for one in ledger.jobs()} == {"dead": "lost", "alive": "running"}


def test_the_live_jobs_alone_are_looked_after_too(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    written(ledger, "dead", Worker(os.getpid(), "1", machine()), state="running")
    written(ledger, "alive", me(), state="running")
    later = time.time() + 30
    monkeypatch.setattr(time, "time", lambda: later)
    assert [one.id for one in ledger.live_jobs()] == ["alive"]


def test_recover_does_not_touch_a_job_whose_worker_changed_meanwhile(ledger: Ledger) -> None:
    written(ledger, "a", Worker(os.getpid(), "1", machine()))
    assert not ledger.finish("a", "lost", {"error": "x"}, worker=Worker(5, "5", machine()))
    assert ledger.job("a").state == "queued"


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    worker = None
    end = time.monotonic() + 20
    while (found := identify(child.pid)) is not None and time.monotonic() < end:
        worker = found
        time.sleep(0.01)
    assert worker is not None
    assert not is_alive(worker)
    child.wait()


def test_many_processes_write_at_once_and_nothing_is_lost(home: Path) -> None:
    code = (
        "import sys; from core.jobs import Ledger, store; ledger = Ledger()\n"
        f"name, request = sys.argv[1], {SUBMITTED!r}\n"
        "for n in range(40):\n"
        "    ledger.append(f'{name}-{n}', 'submitted', request)\n"
        "    ledger.append(f'{name}-{n}', 'running', {'device': 'cpu'})\n"
        "    with store.connect(ledger.path) as db: store.write_readings(db, f'{name}-{n}', {'done': n})\n"
        "    ledger.append(f'{name}-{n}', 'succeeded', {'result': {'n': n}})\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, name], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for name in "abcde"
    ]
    ends = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 5, ends
    jobs = Ledger(home).jobs(1000)
    assert len(jobs) == 200
    assert all(one.state == "succeeded" and one.result == {"n": int(one.done)} for one in jobs)
    ids = [event.id for one in jobs for event in Ledger(home).events(one.id)]
    assert sorted(ids) == list(range(1, 601))


def test_jobs_are_newest_first_and_limited(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        written(ledger, name)
    assert [one.id for one in ledger.jobs(2)] == ["c", "b"]
    assert [one.id for one in ledger.live_jobs()] == ["a", "b", "c"]
    assert LIVE == ("queued", "running")


def test_an_unknown_job_is_bad_input_and_a_strange_file_is_named(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no job 'x'"):
        ledger.job("x")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "ledger.sqlite").write_text("not a database at all, but long enough to be read as one" * 20)
    with pytest.raises(JobError, match="is not a ledger of runs"):
        Ledger(tmp_path / "odd").jobs()
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match="cannot be opened"):
        Ledger(tmp_path / "file").append("a", "submitted", SUBMITTED)


def test_looking_at_an_empty_home_makes_nothing(ledger: Ledger) -> None:
    assert (ledger.jobs(), ledger.live_jobs(), ledger.recover(), ledger.events("x")) == ([], [], [], [])
    with pytest.raises(JobError):
        ledger.cancel("x")
    assert not ledger.home.exists()


def test_home_is_the_variable_or_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MERGESCOPE_HOME", str(tmp_path / "x"))
    assert default_home() == tmp_path / "x"
    monkeypatch.delenv("MERGESCOPE_HOME")
    monkeypatch.chdir(tmp_path)
    assert default_home() == tmp_path / "runs"


def test_a_lock_is_held_by_one_and_freed_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    code = (
        "import sys, time; from pathlib import Path; from core.jobs.locks import FileLock\n"
        f"lock = FileLock(Path({str(path)!r})); assert lock.try_acquire('job 7'); print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    lock = FileLock(path)
    assert not lock.try_acquire()
    assert lock.note() == "job 7"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert lock.try_acquire()
    lock.release()
    lock.release()


def test_importing_jobs_is_light() -> None:
    code = "import sys, core.jobs; print([n for n in ('torch','transformers','mergekit','numba') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

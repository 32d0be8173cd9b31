"""The ledger of runs: submits jobs, says how they stand, cancels them, finds those whose worker died.

The truth is the SQLite file in the home folder (`store.py`), so a `Ledger` keeps nothing: any process
may make one at any time, and an app that restarts sees everything. It runs no job itself.
"""

import json
import os
import secrets
import shutil
import sqlite3
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import JobError, MergescopeError, RunError
from core.files import write_atomically
from core.jobs import store
from core.jobs.executor import EXECUTORS, Executor
from core.jobs.model import LIVE, Event, EventKind, Job, UnknownJobError, Worker

UNSTARTED_SECONDS = 60.0
"""A queued job whose submitter died before it started a worker is lost after this long."""
SILENT_SECONDS = 10.0
"""A live job without a heartbeat for this long makes `jobs` ask whether its worker is gone."""
GRACE_SECONDS = 5.0
PATIENCE_SECONDS = 2.0


def default_home() -> Path:
    """MERGESCOPE_HOME, or `runs` in the working directory."""
    return Path(os.environ.get("MERGESCOPE_HOME") or "runs").expanduser().resolve()


class Ledger:
    """All jobs of one home folder; safe to share between threads and to make in every process."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = Path(home).expanduser().resolve() if home is not None else default_home()
        self.path = self.home / "ledger.sqlite"

    def submit(
        self, kind: str, spec: dict[str, Any], title: str, *, executor: str = "local", unfinished: Path | None = None
    ) -> str:
        """Check what is asked, write it down, start its worker; gives the job's id at once.

        `unfinished` is the folder of an ended job whose merges this one goes on with.

        Raises InputError, before anything is written, for an unknown kind or a specification that
        cannot work (a path that does not exist, a wrong protocol); RunError when no worker starts.
        """
        from core.jobs.kinds import carry_over, kind_named

        known = kind_named(kind)
        checked = known.check(spec)
        runner = _executor(executor)
        job = f"{time.strftime('%y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        request = {"kind": kind, "title": " ".join(title.split()) or kind, "spec": checked}
        folder = self.folder(job)
        try:
            write_atomically(folder / "spec.json", json.dumps(request, indent=2, ensure_ascii=False) + "\n")
        except OSError as problem:
            raise RunError(f"{folder}: the job's folder cannot be written ({problem.strerror}).") from None
        if unfinished:
            carry_over(unfinished, folder)
        self.append(job, "submitted", request | {"executor": executor, "command": known.command(checked, folder)})
        try:
            worker = runner.submit(self.home, job, folder / "worker.log")
        except OSError as problem:
            message = f"no worker could be started ({problem})."
            self.finish(job, "failed", {"error": message})
            raise RunError(f"job {job}: {message}") from None
        with store.connect(self.path) as db, store.transaction(db):
            row = store.live_row(db, job)
            if worker is not None and row is not None and row["worker"] is None:
                store.append(db, job, "started", {"worker": asdict(worker)})
        return job

    def job(self, job: str) -> Job:
        """One job as it stands now; raises UnknownJobError for an unknown id."""
        rows = self._rows("WHERE id = ?", (job,))
        if not rows:
            raise UnknownJobError(f"no job '{job}' in {self.path}. `python -m core jobs list` names them.")
        return self._job(rows[0])

    def jobs(self, limit: int = 100) -> list[Job]:
        """The latest jobs, newest first. One that has been silent for long is looked after first."""
        found = self._latest(limit)
        return self._latest(limit) if self._silent(found) and self.recover() else found

    def live_jobs(self) -> list[Job]:
        """Every queued and running job, oldest first; those that are silent are looked after as in `jobs`."""
        found = self._live()
        return self._live() if self._silent(found) and self.recover() else found

    def _latest(self, limit: int) -> list[Job]:
        return [self._job(row) for row in self._rows("ORDER BY created DESC, id DESC LIMIT ?", (limit,))]

    def _rows(self, which: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        """Rows of jobs; none, and no file is made, where nothing was ever submitted."""
        if not self.path.exists():
            return []
        with store.connect(self.path) as db:
            return db.execute(f"SELECT * FROM jobs {which}", values).fetchall()

    def _silent(self, found: list[Job]) -> bool:
        limit = time.time() - SILENT_SECONDS
        return any(one.live and (one.heartbeat or one.created) < limit for one in found)

    def _live(self) -> list[Job]:
        marks = ", ".join("?" * len(LIVE))
        return [self._job(row) for row in self._rows(f"WHERE state IN ({marks}) ORDER BY created, id", LIVE)]

    def events(self, job: str, after: int = 0) -> list[Event]:
        """The job's history, oldest first; with `after`, only what came later than that event."""
        if not self.path.exists():
            return []
        with store.connect(self.path) as db:
            return store.read_events(db, job, after)

    def cancel(self, job: str, *, grace: float = GRACE_SECONDS) -> Job:
        """Stop a queued or running job; gives it once it has stopped.

        Sets the flag that its worker looks at; after 2 seconds uses SIGTERM, and after `grace` more
        SIGKILL. Raises JobError when it has already ended, or when its process cannot be ended.
        """
        found = self.job(job)
        with store.connect(self.path) as db, store.transaction(db):
            if store.live_row(db, job) is None:
                raise JobError(
                    f"job {job} has ended: {self.job(job).state}. Only a queued or running job can be cancelled."
                )
            store.append(db, job, "cancel", {"by": os.getpid()})
        end = time.monotonic() + min(PATIENCE_SECONDS, grace)
        while (found := self.job(job)).live and time.monotonic() < end:
            if found.worker is not None and _executor(found.executor).status(found.worker) == "gone":
                break
            time.sleep(0.05)
        if found.live and found.worker is not None:
            runner = _executor(found.executor)
            runner.cancel(found.worker, grace)
            if runner.status(found.worker) == "alive":
                raise JobError(f"job {job}: its worker, process {found.worker.pid}, does not end. End it by hand.")
        if self.finish(job, "cancelled", {"error": "cancelled; its worker had to be ended."}):
            self._remove_half_written(found, keep=False)
        return self.job(job)

    def recover(self) -> list[str]:
        """Mark as lost every live job whose worker is gone; gives their ids.

        Safe at any time and from any process: a job whose worker lives, or may live on another
        machine, is left alone, and nothing is started. Called when the app starts, when jobs are
        listed, and by workers that wait for a device.
        """
        lost = []
        for found in self._live():
            reason = self._why_lost(found)
            if reason and self.finish(found.id, "lost", {"error": reason}, worker=found.worker):
                lost.append(found.id)
                self._remove_half_written(found, keep=True)
        return lost

    def delete_files(self, job: str) -> int:
        """Remove a finished job's outputs from its folder; gives the bytes freed.

        Keeps `spec.json` and the log, so the record stays and can be repeated. What a job wrote
        elsewhere (`out` of a merge) is not touched. Raises JobError while it is live.
        """
        found = self.job(job)
        if found.live:
            raise JobError(f"job {job} is {found.state}; cancel it before its files are removed.")
        freed = 0
        for path in found.folder.glob("*") if found.folder.is_dir() else ():
            if path.name in ("spec.json", "worker.log"):
                continue
            freed += _size(path)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.append(job, "cleaned", {"bytes": freed})
        return freed

    def resubmit(self, job: str) -> str:
        """Submit the same work again as a new job, which goes on with a merge that the old one did not finish; gives
        its id. Raises as `submit`."""
        found = self.job(job)
        return self.submit(
            found.kind,
            found.spec,
            found.title,
            executor=found.executor,
            unfinished=None if found.live else found.folder,
        )

    def folder(self, job: str) -> Path:
        """Where a job's specification, log and outputs lie."""
        return self.home / "jobs" / job

    def append(self, job: str, kind: EventKind, data: dict[str, Any]) -> None:
        """Add an event to a job's history, whatever its state."""
        with store.connect(self.path) as db, store.transaction(db):
            store.append(db, job, kind, data)

    def advance(self, job: str, kind: EventKind, data: dict[str, Any]) -> bool:
        """Add an event if the job is live; gives whether it was."""
        with store.connect(self.path) as db, store.transaction(db):
            if store.live_row(db, job) is None:
                return False
            store.append(db, job, kind, data)
        return True

    def finish(self, job: str, state: EventKind, data: dict[str, Any], *, worker: Worker | None = None) -> bool:
        """End a live job in a final state; gives False when it had already ended.

        With `worker`, only if that is still the worker of the job.
        """
        with store.connect(self.path) as db, store.transaction(db):
            row = store.live_row(db, job)
            if row is None or (worker is not None and _worker(row) != worker):
                return False
            store.append(db, job, state, data)
        return True

    def _why_lost(self, found: Job) -> str | None:
        if found.worker is None:
            if time.time() - found.created < UNSTARTED_SECONDS:
                return None
            return "no worker was ever started: whoever submitted it ended first. Submit it again."
        if _executor(found.executor).recover(found.worker, found.heartbeat or found.created) == "alive":
            return None
        return f"its worker (process {found.worker.pid}) ended without a word: killed, out of memory, or a restart."

    def _remove_half_written(self, found: Job, *, keep: bool) -> None:
        from core.jobs.kinds import kind_named

        with suppress(OSError, MergescopeError):
            kind_named(found.kind).remove_half_written(found.spec, found.folder, keep=keep)

    def _job(self, row: sqlite3.Row) -> Job:
        folder = self.folder(row["id"])
        worker = _worker(row)
        kept = (
            "id",
            "kind",
            "title",
            "state",
            "created",
            "started",
            "finished",
            "device",
            "executor",
            "command",
            "error",
        )
        return Job(
            **{name: row[name] for name in (*kept, *store.READINGS)},
            spec=json.loads(row["spec"]),
            pid=worker.pid if worker else None,
            cancel_requested=bool(row["cancel_requested"]),
            result=json.loads(row["result"]) if row["result"] else None,
            folder=folder,
            log=folder / "worker.log",
            worker=worker,
        )


def _worker(row: sqlite3.Row) -> Worker | None:
    return Worker(**json.loads(row["worker"])) if row["worker"] else None


def _executor(name: str) -> Executor:
    if name not in EXECUTORS:
        raise JobError(f"unknown executor '{name}'. Expected one of: {', '.join(EXECUTORS)}.")
    return EXECUTORS[name]


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(one.lstat().st_size for one in path.rglob("*") if one.is_file())
    return path.lstat().st_size

"""The ledger's SQLite file: an append-only table of events, and a table of jobs folded from it.

Takes events and gives rows. Every event and its effect on the job's row are one transaction, so that
readers never see half. Knows what the columns mean, and nothing about processes or job kinds.

Events are the truth: `fold` makes a job's row from its events alone, and triggers refuse to change
or delete one. Only the *readings* (heartbeat, stage progress, time left) are written to the row in
place without an event, since a heartbeat a second would drown the history.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import JobError
from core.jobs.locks import FileLock
from core.jobs.model import LIVE, Event, EventKind

SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_job ON events (job, id);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER IF NOT EXISTS events_are_kept BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, spec TEXT NOT NULL, executor TEXT NOT NULL,
  command TEXT NOT NULL,
  state TEXT NOT NULL, created REAL NOT NULL, started REAL, finished REAL, worker TEXT, device TEXT,
  cancel_requested INTEGER NOT NULL DEFAULT 0, error TEXT, result TEXT, cleaned INTEGER NOT NULL DEFAULT 0,
  stage TEXT NOT NULL DEFAULT '', done REAL NOT NULL DEFAULT 0, total REAL NOT NULL DEFAULT 0,
  unit TEXT NOT NULL DEFAULT '', fraction REAL NOT NULL DEFAULT 0, eta_seconds REAL, heartbeat REAL
);
CREATE INDEX IF NOT EXISTS jobs_by_age ON jobs (created);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state);
"""
READINGS = ("stage", "done", "total", "unit", "fraction", "eta_seconds", "heartbeat")
BUSY_SECONDS = 30.0
"""How long a writer waits for another one; each holds the file for about a millisecond."""


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the caller's own, closed afterwards: safe in any thread and any process.

    Raises JobError when the file cannot be opened, is not a ledger, or is locked, full or read-only.
    """
    fresh = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    except (OSError, sqlite3.Error) as problem:
        raise JobError(f"{path}: the ledger of runs cannot be opened ({problem}). Set MERGESCOPE_HOME.") from None
    try:
        db.row_factory = sqlite3.Row
        if fresh or not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs_by_state'").fetchone():
            # Two that make it at once: switching to WAL does not wait for the other by itself.
            with FileLock(path.with_suffix(".lock")):
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(SCHEMA)
        db.execute("PRAGMA synchronous = NORMAL")
        yield db
    except sqlite3.DatabaseError as problem:
        if "not a database" in str(problem) or "malformed" in str(problem):
            raise JobError(f"{path}: is not a ledger of runs ({problem}). Move it away; a new one is made.") from None
        if isinstance(problem, sqlite3.OperationalError):
            raise JobError(f"{path}: the ledger of runs cannot be used now ({problem}).") from None
        raise
    finally:
        db.close()


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the ledger for writing, all or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def append(db: sqlite3.Connection, job: str, kind: EventKind, data: Mapping[str, Any]) -> None:
    """Add an event and bring the job's row up to date; the caller holds a transaction."""
    now = time.time()
    db.execute("INSERT INTO events (job, time, kind, data) VALUES (?, ?, ?, ?)", (job, now, kind, json.dumps(data)))
    changes = effect(kind, now, data)
    if kind == "submitted":
        columns = ", ".join(("id", *changes))
        marks = ", ".join("?" * (len(changes) + 1))
        db.execute(f"INSERT INTO jobs ({columns}) VALUES ({marks})", (job, *changes.values()))
    elif changes:
        assignments = ", ".join(f"{name} = ?" for name in changes)
        db.execute(f"UPDATE jobs SET {assignments} WHERE id = ?", (*changes.values(), job))


def effect(kind: EventKind, now: float, data: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a job's row that an event sets."""
    if kind == "submitted":
        row = {name: data[name] for name in ("kind", "title", "executor", "command")}
        return row | {"spec": json.dumps(data["spec"]), "state": "queued", "created": now}
    if kind == "started":
        return {"worker": json.dumps(data["worker"])}
    if kind == "waiting":
        return {"device": data["device"], "stage": data["why"]}
    if kind == "running":
        return {"state": "running", "started": now, "device": data["device"], "stage": "starting"}
    if kind == "cancel":
        return {"cancel_requested": 1}
    if kind == "cleaned":
        return {"cleaned": 1}
    if kind == "stage":
        return {}
    ended = {"state": kind, "finished": now, "eta_seconds": None, "error": data.get("error")}
    if kind == "succeeded":
        ended |= {"result": json.dumps(data["result"]), "fraction": 1.0}
    return ended


def fold(events: Iterable[Event]) -> dict[str, Any]:
    """A job's row made from its events alone: what `append` keeps, readings aside."""
    row: dict[str, Any] = {}
    for event in events:
        row |= effect(event.kind, event.time, event.data)
    return row


def live_row(db: sqlite3.Connection, job: str) -> sqlite3.Row | None:
    """The job's row while it is queued or running; None once it has ended."""
    marks = ", ".join("?" * len(LIVE))
    found: sqlite3.Row | None = db.execute(
        f"SELECT * FROM jobs WHERE id = ? AND state IN ({marks})", (job, *LIVE)
    ).fetchone()
    return found


def write_readings(db: sqlite3.Connection, job: str, readings: Mapping[str, Any]) -> bool:
    """Overwrite readings of a live job; gives whether its cancellation has been asked for."""
    assignments = ", ".join(f"{name} = ?" for name in readings)
    marks = ", ".join("?" * len(LIVE))
    db.execute(f"UPDATE jobs SET {assignments} WHERE id = ? AND state IN ({marks})", (*readings.values(), job, *LIVE))
    row = db.execute("SELECT cancel_requested FROM jobs WHERE id = ?", (job,)).fetchone()
    return bool(row and row["cancel_requested"])


def read_events(db: sqlite3.Connection, job: str, after: int) -> list[Event]:
    """Events of a job with an id above `after`, oldest first."""
    rows = db.execute("SELECT * FROM events WHERE job = ? AND id > ? ORDER BY id", (job, after))
    return [Event(row["id"], row["job"], row["time"], row["kind"], json.loads(row["data"])) for row in rows]

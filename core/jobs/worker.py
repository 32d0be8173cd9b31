"""The process of one job: claims it, waits for its device, does the work, writes down how it ended.

`run_worker` is what `python -m core worker JOB` calls. What a job does is in `kinds.py`.
"""

import errno
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import Any

from core.errors import Cancelled, JobError, MergescopeError
from core.jobs import store
from core.jobs.devices import wait_for_device
from core.jobs.kinds import Kind, kind_named
from core.jobs.ledger import Ledger
from core.jobs.locks import FileLock
from core.jobs.model import Job, Worker
from core.jobs.process import identify, is_alive
from core.jobs.work import Work

log = logging.getLogger("mergescope")


def run_worker(ledger: Ledger, job: str) -> int:
    """Do a queued job in this process; gives the exit code: 0, 1 for failure, 3 for cancelled.

    Raises JobError when the job is unknown, has begun or has ended.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    found = ledger.job(job)
    kind = kind_named(found.kind)
    _claim(ledger, job)
    log.info("job %s: %s, %s", job, found.kind, found.title)
    work = Work(ledger, job)
    _heed_signals(work)
    work.start()
    try:
        return _outcome(ledger, found, kind, work)
    finally:
        work.close()


def _claim(ledger: Ledger, job: str) -> None:
    """Become the job's worker, unless another lives; one transaction, so that only one can win."""
    me = identify(os.getpid())
    if me is None:
        raise JobError("this process cannot find itself; is /proc mounted?")
    with store.connect(ledger.path) as db, store.transaction(db):
        row = db.execute("SELECT state, worker FROM jobs WHERE id = ?", (job,)).fetchone()
        if row["state"] != "queued":
            raise JobError(f"job {job} is {row['state']}; only a queued job can be worked on.")
        other = Worker(**json.loads(row["worker"])) if row["worker"] else None
        if other == me:
            return
        if other is not None and is_alive(other):
            raise JobError(f"job {job} already has a worker, process {other.pid}.")
        store.append(db, job, "started", {"worker": asdict(me)})


def _heed_signals(work: Work) -> None:
    def stop(number: int, _: FrameType | None) -> None:
        work.stop(f"stopped by {signal.Signals(number).name}.")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)


def _outcome(ledger: Ledger, found: Job, kind: Kind, work: Work) -> int:
    """Run the job and write its end; every exception becomes a final state."""
    try:
        result = _run(ledger, found, kind, work)
        # From here on a signal would turn a finished job into a cancelled one.
        work.stopping = True
        ledger.finish(found.id, "succeeded", {"result": result})
        log.info("succeeded")
        return 0
    except Cancelled as problem:
        work.stopping = True
        with suppress(OSError):
            kind.remove_half_written(found.spec, found.folder, keep=False)
        ledger.finish(found.id, "cancelled", {"error": str(problem)})
        log.info("%s", problem)
        return 3
    except BaseException as problem:
        work.stopping = True
        message = failure_message(problem)
        log.error("failed: %s", message, exc_info=None if isinstance(problem, MergescopeError) else problem)
        with suppress(OSError):
            kind.remove_half_written(found.spec, found.folder, keep=True)
        ledger.finish(found.id, "failed", {"error": message})
        return 1


def _run(ledger: Ledger, found: Job, kind: Kind, work: Work) -> dict[str, Any]:
    device = kind.device(found.spec)
    lock: FileLock = wait_for_device(ledger, found.id, device, work)
    try:
        if not ledger.advance(found.id, "running", {"device": device}):
            raise JobError(f"job {found.id} was ended from outside.")
        return kind.run(found.spec, found.folder, device, work)
    finally:
        lock.release()


def failure_message(problem: BaseException) -> str:
    """One line for the ledger: the message of an error of ours, or what kind of defect it is."""
    if isinstance(problem, MergescopeError):
        return str(problem)
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" at {problem.filename}" if problem.filename else ""
        return f"the disk is full{where}. Free some space and submit the job again."
    if isinstance(problem, MemoryError):
        return "not enough memory. Close other programs, or evaluate with a smaller batch size."
    text = " ".join(str(problem).split())
    return f"internal error: {type(problem).__name__}{': ' if text else ''}{text[:500]} (see the log)"

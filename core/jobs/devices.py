"""One job a device at a time: which device a job takes, and waiting for it in order of submission.

The holder of `<home>/locks/<device>.lock` has the device; the kernel frees it when that process dies.
Takes a ledger and a job; knows nothing about what the job does.
"""

import re
import time
from pathlib import Path

from core.jobs import store
from core.jobs.ledger import Ledger
from core.jobs.locks import FileLock
from core.jobs.work import Work

POLL_SECONDS = 0.2
RECOVER_SECONDS = 2.0


def best_device() -> str:
    """`cuda:0` where torch finds a GPU, else `cpu`; torch is imported only where there may be one."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return "cpu"
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def wait_for_device(ledger: Ledger, job: str, device: str, work: Work) -> FileLock:
    """Hold the device's lock, waiting while another job has it or came first.

    The job stays `queued` and its stage says what it waits for. Raises `Cancelled`.
    """
    lock = FileLock(ledger.home / "locks" / f"{re.sub(r'[^A-Za-z0-9]+', '-', device)}.lock")
    if _is_next(ledger, job, device) and lock.try_acquire(job):
        return lock
    why = _why(ledger, lock, device)
    ledger.advance(job, "waiting", {"device": device, "why": why})
    recovered = time.monotonic()
    while not (_is_next(ledger, job, device) and lock.try_acquire(job)):
        work.say(why)
        time.sleep(POLL_SECONDS)
        why = _why(ledger, lock, device)
        if time.monotonic() - recovered > RECOVER_SECONDS:
            # One that waited ahead of this one and was killed would block the queue for ever.
            ledger.recover()
            recovered = time.monotonic()
    return lock


def _is_next(ledger: Ledger, job: str, device: str) -> bool:
    """True unless an older job already waits for the device."""
    with store.connect(ledger.path) as db:
        row = db.execute(
            "SELECT id FROM jobs WHERE state = 'queued' AND (device = ? OR id = ?) ORDER BY created, id LIMIT 1",
            (device, job),
        ).fetchone()
    return row is None or row["id"] == job


def _why(ledger: Ledger, lock: FileLock, device: str) -> str:
    holder = lock.note()
    return f"waiting for {device}: " + (f"job {holder} is using it" if holder else "another job came first")

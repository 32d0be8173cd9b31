"""A ledger in a fresh home, with kinds of job that only wait; every worker it started is ended."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.jobs import Job, Ledger
from core.jobs.process import is_alive

WAIT_SECONDS = 60.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MERGESCOPE_KINDS", "tests.unit.jobs.sleepers")
    # Models of a few thousand parameters are slower, not faster, on several threads.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MERGESCOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    made = Ledger(home)
    yield made
    for job in made.live_jobs():
        if job.worker is not None and is_alive(job.worker) and job.worker.pid != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(job.worker.pid, signal.SIGKILL)


@pytest.fixture
def until() -> Callable[[Ledger, str, Callable[[Job], bool]], Job]:
    """Wait until a job looks as wanted; fails with its log when it never does."""

    def wait(ledger: Ledger, job: str, wanted: Callable[[Job], bool]) -> Job:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            found = ledger.job(job)
            if wanted(found):
                return found
            time.sleep(0.05)
        log = found.log.read_text() if found.log.is_file() else "no log"
        raise AssertionError(f"job {job} is {found.state}, {found.stage}, {found.error}\n{log}")

    return wait

"""One real merge and evaluation, done once by a worker of its own, for every page that shows a run."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.bank import Bank, load_bank
from core.jobs import Job, Ledger
from core.recipe import Recipe, compile_plan, recipe_to_dict
from tests.page.tiny_bank import PROTOCOL, write_tiny_bank

WAIT_SECONDS = 300.0


@dataclass(frozen=True)
class Finished:
    """A home folder with one finished run of a bank with weights."""

    home: Path
    bank: Bank
    job: Job


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bank(tmp_path_factory.mktemp("banks") / "tiny")


@pytest.fixture(scope="session")
def finished(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    home = tmp_path_factory.mktemp("finished")
    ledger = Ledger(home)
    bank = load_bank(tiny)
    job = ended(ledger, submit(ledger, bank))
    assert job.state == "succeeded", job.log.read_text()
    return Finished(home, bank, job)


def submit(ledger: Ledger, bank: Bank) -> str:
    """The main job on a bank with K = 2."""
    recipe = Recipe(k=2)
    spec = {
        "bank": str(bank.root),
        "recipe": recipe_to_dict(recipe),
        "plan": compile_plan(bank, recipe),
        "splits": ["dev", "test"],
        "protocol": PROTOCOL,
        "also_uniform": True,
    }
    return ledger.submit("merge_eval", spec, "tiny: S3")


def ended(ledger: Ledger, job: str) -> Job:
    """The job once it has ended; fails with its log when it takes too long."""
    end = time.monotonic() + WAIT_SECONDS
    while (found := ledger.job(job)).live and time.monotonic() < end:
        time.sleep(0.1)
    assert not found.live, found.log.read_text()
    return found


@pytest.fixture
def own_ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of the test's own, in `tmp_path / "home"`; every worker it started is ended."""
    made = Ledger(tmp_path / "home")
    yield made
    for job in made.live_jobs():
        if job.worker is not None:
            with suppress(ProcessLookupError):
                os.kill(job.worker.pid, signal.SIGKILL)

"""What a running job holds in its hands: it says how far it is, and learns that it should stop.

`Work` writes readings to the ledger at most five times a second, beats from a thread of its own, and
turns a cancellation into `Cancelled` at the next call of its progress. Knows nothing about kinds.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

from core.errors import Cancelled, JobError
from core.jobs import store
from core.jobs.ledger import Ledger
from core.jobs.timeline import Phase, Timeline
from core.progress import Progress

WRITE_SECONDS = 0.2
BEAT_SECONDS = 1.0
log = logging.getLogger("mergescope")


class Work:
    """One job's voice and ear in its worker. `_lock` protects `_readings` and `_written`."""

    def __init__(self, ledger: Ledger, job: str) -> None:
        self.ledger = ledger
        self.job = job
        self.stopping = False
        """True once `Cancelled` has been raised: it is raised once, so that cleaning up is left in peace."""
        self._timeline = Timeline(())
        self._readings: dict[str, Any] = {}
        self._written = 0.0
        self._lock = threading.Lock()
        self._cancel = threading.Event()
        self._over = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._write_failed = False

    def start(self) -> None:
        """Begin to beat."""
        self._beats.start()

    def close(self) -> None:
        """Stop beating; the readings of the end are written."""
        self._over.set()
        self._beats.join(timeout=5)
        self.write()

    def plan(self, phases: Sequence[Phase]) -> None:
        """Say what the job consists of, before the first `phase`."""
        self._timeline = Timeline(phases)

    def phase(self, name: str) -> Progress:
        """Begin a phase of the plan; gives the progress function for whatever does it."""
        entered = self._timeline.enter(name, time.monotonic())
        log.info("%s", name)
        if not self.ledger.advance(self.job, "stage", {"stage": name}):
            self.stop("ended from outside.")
        self.say(name)

        def progress(stage: str, done: float, total: float, unit: str) -> None:
            if entered.main_stage is None or stage.startswith(entered.main_stage):
                self._timeline.advance(done / total if total > 0 else 0.0, time.monotonic())
            text = name if stage in ("", name) else f"{name}: {stage}"
            self._update(stage=text, done=done, total=total, unit=unit)

        return progress

    def say(self, stage: str) -> None:
        """Show what is being done where it has no amount; raises `Cancelled` when asked to stop."""
        self._update(stage=stage, done=0.0, total=0.0, unit="")

    def check(self) -> None:
        """Raise `Cancelled` when the job has been asked to stop."""
        if self._cancel.is_set():
            self.stop("cancelled on request.")

    def stop(self, why: str) -> None:
        """Raise `Cancelled`, unless it has been raised before."""
        if not self.stopping:
            self.stopping = True
            raise Cancelled(why)

    def _update(self, **readings: Any) -> None:
        timeline = self._timeline
        with self._lock:
            self._readings |= readings | {"fraction": timeline.fraction, "eta_seconds": timeline.eta()}
            due = time.monotonic() - self._written >= WRITE_SECONDS
        if due:
            self.write()
        self.check()

    def _beat(self) -> None:
        while not self._over.is_set():
            self.write()
            self._over.wait(BEAT_SECONDS)

    def write(self) -> None:
        """Readings and a heartbeat to the ledger; a ledger that cannot be written does not stop the work."""
        with self._lock:
            readings = self._readings | {"heartbeat": time.time()}
            self._written = time.monotonic()
        try:
            with store.connect(self.ledger.path) as db:
                asked = store.write_readings(db, self.job, readings)
        except (sqlite3.Error, JobError) as problem:
            if not self._write_failed:
                log.warning("progress cannot be written to the ledger: %s", problem)
            self._write_failed = True
            return
        if asked:
            self._cancel.set()

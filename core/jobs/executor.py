"""How a job gets a process: one small class an executor, with four verbs. Only `local` so far.

Executors start and end `python -m core worker JOB` and keep nothing: what they return is written in
the ledger, which is the truth. They know nothing about what a job does.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Literal, Protocol

from core.jobs.model import Worker
from core.jobs.process import identify, is_alive, is_here, send, wait_for_end

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the `core` package."""
SILENT_SECONDS = 120.0
"""A worker of another machine or boot counts as gone after this long without a heartbeat."""
Standing = Literal["alive", "gone"]


class Executor(Protocol):
    """What the ledger asks of whatever runs workers."""

    name: str

    def submit(self, home: Path, job: str, log: Path) -> Worker | None:
        """Start the job's worker and return at once.

        Called by `Ledger.submit`, once a job, after the job is written down. Gives the worker's
        identity, or None where it has already ended. Raises OSError when nothing can be started.
        """
        ...

    def status(self, worker: Worker) -> Standing:
        """Whether the worker lives, asked of the system and not of the ledger.

        Called by `Ledger.cancel` while it waits.
        """
        ...

    def cancel(self, worker: Worker, grace: float) -> None:
        """End the worker by force, at most about `2 * grace` seconds later.

        Called by `Ledger.cancel` when the worker has not followed the flag in the ledger.
        """
        ...

    def recover(self, worker: Worker, heartbeat: float) -> Standing:
        """Whether a worker that the ledger believes live still is; starts and ends nothing.

        Called by `Ledger.recover`, for every live job. `heartbeat` is when it was last heard of. In
        doubt the answer is `alive`.
        """
        ...


class LocalExecutor:
    """Workers are detached processes of this machine, in sessions of their own."""

    name = "local"

    def __init__(self) -> None:
        # Only so that workers that ended do not stay as zombies of a long-lived app; it is no state.
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        """Protects `_children`: pages submit and look from threads of their own."""

    def submit(self, home: Path, job: str, log: Path) -> Worker | None:
        """As `Executor.submit`."""
        self._reap()
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "core", "worker", job],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=ROOT,
                env=worker_environment(home),
            )
        with self._lock:
            self._children.append(child)
        return identify(child.pid)

    def status(self, worker: Worker) -> Standing:
        """As `Executor.status`."""
        self._reap()
        return "alive" if is_alive(worker) else "gone"

    def cancel(self, worker: Worker, grace: float) -> None:
        """As `Executor.cancel`: SIGTERM to the worker, then SIGKILL to its whole group."""
        send(worker, signal.SIGTERM)
        if not wait_for_end(worker, grace):
            send(worker, signal.SIGKILL, group=True)
            wait_for_end(worker, grace)
        self._reap()

    def recover(self, worker: Worker, heartbeat: float) -> Standing:
        """As `Executor.recover`: by identity where the pid means something here, else by heartbeat."""
        if is_here(worker):
            return self.status(worker)
        return "gone" if time.time() - heartbeat > SILENT_SECONDS else "alive"

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def worker_environment(home: Path) -> dict[str, str]:
    """The environment of a worker: this one, the ledger's home, and no network for model libraries."""
    environment = dict(os.environ)
    inherited = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one]
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *inherited])
    environment["MERGESCOPE_HOME"] = str(home)
    environment["PYTHONUNBUFFERED"] = "1"
    for name, value in (("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false")):
        environment.setdefault(name, value)
    return environment


EXECUTORS: dict[str, Executor] = {"local": LocalExecutor()}

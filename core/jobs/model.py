"""What a job is to those who look at it: its state, its latest readings, its events.

Pure data, made by `ledger.py` from rows of the ledger; knows nothing about SQLite or processes.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from core.errors import InputError, JobError

State = Literal["queued", "running", "succeeded", "failed", "cancelled", "lost"]
EventKind = Literal[
    "submitted",
    "started",
    "waiting",
    "running",
    "stage",
    "cancel",
    "succeeded",
    "failed",
    "cancelled",
    "lost",
    "cleaned",
]
STATES: tuple[State, ...] = get_args(State)
LIVE: tuple[State, ...] = ("queued", "running")
"""States that a worker may still leave; the others are final."""


class UnknownJobError(JobError, InputError):
    """No job has that id: the one JobError that is bad input rather than a failure."""


@dataclass(frozen=True)
class Event:
    """One line of a job's history; events are added and never changed."""

    id: int
    """Grows over the whole ledger; `Ledger.events(job, after=id)` gives what came later."""
    job: str
    time: float
    """Seconds since the epoch."""
    kind: EventKind
    data: dict[str, Any]


@dataclass(frozen=True)
class Worker:
    """Which process works on a job: enough to tell it from a later one with the same pid."""

    pid: int
    started: str
    """When the process began, as the kernel counts it: compared, never read as a time."""
    machine: str
    """The boot and the process namespace in which `pid` means something."""


@dataclass(frozen=True)
class Job:
    """One merge or evaluation as the ledger knows it at one moment."""

    id: str
    kind: str
    title: str
    spec: dict[str, Any]
    state: State
    created: float
    """Seconds since the epoch, as `started` (when it got its device) and `finished`."""
    started: float | None
    finished: float | None
    pid: int | None
    device: str | None
    """`cpu` or `cuda:0`; None until its worker has begun."""
    stage: str
    """What is being done, in words; also why it waits."""
    done: float
    total: float
    """Amount of the present stage in `unit`; 0 where it has none."""
    unit: str
    fraction: float
    """Share of the whole job that is done, in [0, 1], by the expected time of its stages."""
    eta_seconds: float | None
    """Seconds left; None until the rate is known."""
    heartbeat: float | None
    """When its worker last said that it lives."""
    cancel_requested: bool
    executor: str
    error: str | None
    """One clear message, where it failed, was cancelled or was lost."""
    result: dict[str, Any] | None
    folder: Path
    log: Path
    command: str
    """Shell commands that repeat it."""
    worker: Worker | None = field(default=None, repr=False)

    @property
    def live(self) -> bool:
        """True while it is queued or running."""
        return self.state in LIVE

    def as_dict(self) -> dict[str, Any]:
        """JSON values for the shell, without the worker's identity."""
        values = {name: value for name, value in vars(self).items() if name != "worker"}
        return values | {"folder": str(self.folder), "log": str(self.log)}

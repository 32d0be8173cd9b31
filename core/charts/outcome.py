"""What a run's scores come to, ready to be drawn: a standing for each model, and the tasks that moved.

Takes per-task scores by model and two functions of `core.stats` (an interval, a paired comparison);
gives small immutable values. Knows nothing about files, jobs or screens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Role = Literal["merge", "uniform mean", "best single", "single", "base"]
Scores = Mapping[str, Sequence[float]]
"""Task to the scores of its samples, each in [0, 1]."""


@dataclass(frozen=True)
class Standing:
    """One model under one protocol on one split."""

    name: str
    role: Role
    mean: float
    """Mean over tasks of the mean over samples, in [0, 1]."""
    low: float
    high: float
    """95 % interval of the mean."""
    verdict: str
    """Against the best single checkpoint: `better`, `worse`, `unresolved`, or `itself`."""


@dataclass(frozen=True)
class Band:
    """Where repeated runs of one checkpoint fell, or would fall: means in [0, 1], central 95 %."""

    low: float
    high: float
    checkpoint: str
    runs: int
    sampled: bool = False
    """True where nothing was run again: worked out from `runs` samples a task."""


@dataclass(frozen=True)
class Panel:
    """Everything one split has to show."""

    split: str
    tasks: int
    samples: int
    chosen_here: bool
    """True when the recipe was chosen on this split, so that its scores are too good."""
    standings: tuple[Standing, ...]
    band: Band | None = None


@dataclass(frozen=True)
class Flip:
    """One task whose mean score differs between two models."""

    task: str
    scenario: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """after − before, in [-1, 1]."""
        return self.after - self.before


def task_means(scores: Scores, tasks: Sequence[str]) -> np.ndarray:
    """Mean score of each of `tasks`, float64, in their order; raises KeyError for a task without scores."""
    return np.array([float(np.mean(scores[task])) for task in tasks])


def standings(
    scores: Mapping[str, tuple[Role, Scores]],
    interval: Callable[[np.ndarray], Any],
    compare: Callable[[Scores, Scores], Any],
    tasks: Sequence[str],
) -> tuple[Standing, ...]:
    """A standing for each named model, in the order given.

    `interval(task means)` gives (low, high) for means in the order of `tasks`; `compare(a, b)` gives
    something with `verdict`, for b against a. One model has the role `best single`; the others are
    compared with it.
    """
    best = next((one for role, one in scores.values() if role == "best single"), None)
    found = []
    for name, (role, one) in scores.items():
        means = task_means(one, tasks)
        low, high = interval(means)
        verdict = "itself" if role == "best single" or best is None else str(compare(best, one).verdict)
        found.append(Standing(name, role, float(means.mean()), float(low), float(high), verdict))
    return tuple(found)


def flips(before: Scores, after: Scores, scenarios: Mapping[str, str] | None = None) -> list[Flip]:
    """Tasks whose mean score moved, the largest gain first; tasks of only one side are left out."""
    moved = []
    for task in before:
        if task not in after:
            continue
        a, b = float(np.mean(before[task])), float(np.mean(after[task]))
        # Equal means of uneven samples may differ in the last bit.
        if abs(a - b) > 1e-12:
            moved.append(Flip(task, (scenarios or {}).get(task, task), a, b))
    return sorted(moved, key=lambda one: (-one.change, one.task))

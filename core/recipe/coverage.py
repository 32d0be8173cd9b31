"""Which tasks the picks solve together, and which pick adds which task.

Takes scores of the picks in pick order; gives counts and task positions. Knows nothing about banks or weights.
"""

from dataclasses import dataclass

import numpy as np

SOLVED = 0.5
"""A task counts as solved from this mean score on: with one sample a task, where the answer was right."""


@dataclass(frozen=True)
class PickCoverage:
    """What one pick brings. All are positions of tasks, ascending."""

    solves: tuple[int, ...]
    adds: tuple[int, ...]
    """Solved by it and by no earlier pick."""
    alone: tuple[int, ...]
    """Solved by it and by no other pick."""


@dataclass(frozen=True)
class Coverage:
    """What the picks solve together."""

    tasks: int
    by_any: int
    by_all: int
    by_pool: int
    """Tasks that any checkpoint of the pool solves: no choice of picks covers more."""
    picks: tuple[PickCoverage, ...]
    """In pick order."""


def pick_coverage(scores: np.ndarray, picks: tuple[int, ...]) -> Coverage:
    """Coverage of `picks`, rows of `scores` (float64, (checkpoints, tasks), in [0, 1]), in pick order.

    A missing score (NaN) counts as not solved.
    """
    solved = np.asarray(scores) >= SOLVED
    mine = solved[list(picks)]
    times = mine.sum(axis=0)
    before = np.zeros(solved.shape[1], dtype=bool)
    found = []
    for row in mine:
        found.append(PickCoverage(_places(row), _places(row & ~before), _places(row & (times == 1))))
        before |= row
    return Coverage(
        tasks=solved.shape[1],
        by_any=int(before.sum()),
        by_all=int((times == len(picks)).sum()),
        by_pool=int(solved.any(axis=0).sum()),
        picks=tuple(found),
    )


def _places(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())

"""Scores of several checkpoints as they were read, before they are aligned.

Takes rows; gives tables of means and the rows of each cell. Judges nothing: see `core.bank.align`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from core.bank.readers.common import ScoreRow


@dataclass(frozen=True)
class ScoreSet:
    """Every scored sample that some files hold, and what was noticed on the way."""

    rows: Sequence[ScoreRow]
    """In the order of files and of rows in them."""
    formats: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By checkpoint, what its format reports beyond a mean."""
    limited: Mapping[str, str] = field(default_factory=dict)
    """Checkpoints evaluated on a part of the tasks only, each with a sentence."""

    @property
    def format(self) -> str:
        """The format's name; several joined with a plus."""
        return " + ".join(self.formats)

    @cached_property
    def checkpoints(self) -> tuple[str, ...]:
        """Names, as first seen."""
        return tuple(dict.fromkeys(row.checkpoint for row in self.rows))

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Ids over all checkpoints, as first seen."""
        return tuple(dict.fromkeys(row.task for row in self.rows))

    @cached_property
    def scenarios(self) -> dict[str, str]:
        """Scenario of each task; a task without one is its own."""
        found: dict[str, str] = {}
        for row in self.rows:
            found.setdefault(row.task, row.scenario or row.task)
        return found

    @cached_property
    def cells(self) -> dict[str, dict[str, list[ScoreRow]]]:
        """Rows of each checkpoint and task, both as first seen."""
        found: dict[str, dict[str, list[ScoreRow]]] = {}
        for row in self.rows:
            found.setdefault(row.checkpoint, {}).setdefault(row.task, []).append(row)
        return found

    @cached_property
    def samples(self) -> int:
        """Most samples that one checkpoint has on one task."""
        return max(
            (len({sample_key(row) for row in cell}) for each in self.cells.values() for cell in each.values()),
            default=0,
        )

    def table(self) -> dict[str, dict[str, float | None]]:
        """Mean score of every checkpoint on every task over its scored samples; None where there is none."""
        return {
            checkpoint: {task: mean(cells.get(task, ())) for task in self.tasks}
            for checkpoint, cells in self.cells.items()
        }


def sample_key(row: ScoreRow) -> Any:
    """What tells a sample of a task from another by the same checkpoint."""
    return (row.sample, row.extra.get("seed") if row.extra else None)


def mean(rows: Sequence[ScoreRow]) -> float | None:
    """Mean over the scored rows, or None."""
    scores = [row.score for row in rows if row.score is not None]
    return sum(scores) / len(scores) if scores else None

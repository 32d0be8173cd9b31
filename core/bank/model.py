"""What a bank is once it has been read: checkpoints, tasks and score matrices, all immutable.

Takes nothing from disk itself (see `load.py`) and knows nothing about recipes or merging.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from core.evals.protocol import Protocol


@dataclass(frozen=True)
class Checkpoint:
    """One member of the pool, or its base."""

    id: str
    step: int | None = None
    path: Path | None = None
    """Absolute folder of the weights; None where the bank has scores only."""
    hub: str | None = None
    """Its pinned address on the Hub, of which `path` is the place in the local cache."""


@dataclass(frozen=True)
class Alignment:
    """How scores that did not fit each other were made comparable, as bank.yaml keeps it."""

    problems: tuple[tuple[str, int, int, str], ...]
    """Kind, checkpoints that had it, tasks it was about, and the choice that settled it."""
    tasks_found: int
    tasks_dropped: int = 0
    dropped: tuple[str, ...] = ()
    """Ids of dropped tasks; of many, the first."""
    left_out: tuple[str, ...] = ()
    """Names in the score files that no checkpoint was matched to."""
    matched: Mapping[str, str] = field(default_factory=dict)
    """Names in the score files, where they are not the checkpoint's id."""
    sources: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The choices and what they cost, such as `missing: intersect; 3 of 60 tasks dropped`."""
        parts = [f"{kind}: {choice}" for kind, _, _, choice in self.problems]
        if self.tasks_dropped:
            parts.append(f"{self.tasks_dropped:,} of {self.tasks_found:,} tasks dropped")
        if self.left_out:
            count = len(self.left_out)
            parts.append(f"scores of {count} {'name' if count == 1 else 'names'} left out")
        return "; ".join(parts) or "nothing had to be settled"


@dataclass(frozen=True, eq=False)
class Split:
    """One task set and its scores under one protocol."""

    name: str
    tasks: tuple[str, ...]
    """Task ids, in the order of the task file."""
    scenarios: tuple[str, ...]
    """Scenario of each task; a task without one is its own scenario."""
    scores: np.ndarray
    """Behaviour vectors, float64, shape (checkpoints, tasks), mean over samples, in [0, 1].

    NaN where a checkpoint has no score, only in a bank whose alignment says that gaps were masked.
    """
    samples: int
    """Samples behind each entry of `scores`."""
    base_scores: np.ndarray | None
    """The base's behaviour vector, shape (tasks,), or None where it was not evaluated."""
    protocol: Protocol | None
    tasks_path: Path | None
    scores_path: Path
    more_scores: tuple[tuple[Protocol, Path], ...] = ()
    """Scores of the same tasks under other protocols, as long-form JSONL."""
    replicates_path: Path | None = None
    """Repeated evaluations of one checkpoint (rows differ in `seed`): the run-to-run noise."""
    alignment: Alignment | None = None
    """How the scores were made comparable; None where bank.yaml does not say."""

    def score_file(self, protocol: Protocol) -> Path | None:
        """The bank's own scores of the split under a protocol, or None where it has none."""
        files = ((self.protocol, self.scores_path), *self.more_scores)
        return next((path for known, path in files if known == protocol), None)


@dataclass(frozen=True, eq=False)
class Bank:
    """The pool: a base, its checkpoints, their scores and tasks."""

    name: str
    root: Path
    title: str
    description: str
    kind: Literal["measured", "illustrative"]
    base: Checkpoint
    checkpoints: tuple[Checkpoint, ...]
    splits: Mapping[str, Split]
    notes: str = ""
    facts: tuple[Mapping[str, Any], ...] = ()
    """Published or measured statements to show beside the scores: {label, value, source}."""
    warnings: tuple[str, ...] = field(default=())

    def index_of(self, checkpoint: str) -> int:
        """Position of a checkpoint id in bank order; raises KeyError."""
        for index, one in enumerate(self.checkpoints):
            if one.id == checkpoint:
                return index
        raise KeyError(checkpoint)

    @property
    def has_weights(self) -> bool:
        """True when the base and every checkpoint have a folder of weights."""
        return all(one.path is not None for one in (self.base, *self.checkpoints))

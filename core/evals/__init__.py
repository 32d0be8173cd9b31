"""Evaluation: tasks, scorers and runners. Importing this loads none: each name loads its module when asked for."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.evals.protocol import Protocol
    from core.evals.runner import EvalResult, evaluate
    from core.evals.sampling import Completion, generate
    from core.evals.scorers import SCORERS, Score
    from core.evals.tasks import Task, read_tasks, score
    from core.stats.samples import Samples, read_samples

__all__ = [
    "SCORERS",
    "Completion",
    "EvalResult",
    "Protocol",
    "Samples",
    "Score",
    "Task",
    "evaluate",
    "generate",
    "read_samples",
    "read_tasks",
    "score",
]
WHERE = {
    "core.evals.protocol": ("Protocol",),
    "core.evals.runner": ("EvalResult", "evaluate"),
    "core.evals.sampling": ("Completion", "generate"),
    "core.evals.scorers": ("SCORERS", "Score"),
    "core.evals.tasks": ("Task", "read_tasks", "score"),
    "core.stats.samples": ("Samples", "read_samples"),
}


def __getattr__(name: str) -> Any:
    """The public name, from its module (PEP 562)."""
    for module, names in WHERE.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

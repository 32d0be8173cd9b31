"""Evaluation: tasks, scorers and runners. Importing this loads no torch; the runner does, when called."""

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

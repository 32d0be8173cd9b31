"""Scored samples of one model, grouped by task: what comparisons are made of.

Takes a long-form score file and gives plain mappings; knows nothing about statistics or banks.
"""

from dataclasses import dataclass
from pathlib import Path

from core.errors import TaskError


@dataclass(frozen=True)
class Samples:
    """The scores of one model on one task set, in file order."""

    path: Path
    checkpoint: str | None
    """Id of the model, or None where the file names none."""
    scores: dict[str, list[float]]
    """Task id to the scores of its samples, each in [0, 1]."""
    scenarios: dict[str, str]
    """Task id to its scenario; a task without one is its own."""


def read_samples(path: Path | str, *, checkpoint: str | None = None) -> Samples:
    """Group a score file by task. With `checkpoint`, only that model's rows; else the file must hold one model.

    Raises an InputError, naming file and line, for a malformed row, a sample that is there twice, or a
    file that holds several models or not the one asked for.
    """
    # Here, not above: the bank's package imports the evals', which imports this module.
    from core.bank.scores import read_scores

    path = Path(path)
    rows = read_scores(path)
    models = list(dict.fromkeys(row.checkpoint for row in rows))
    names = ", ".join(str(name) for name in models[:12])
    if checkpoint is None:
        if len(models) > 1:
            raise TaskError(
                f"{path}: holds scores of {len(models)} models ({names}). Expected one; name which to take."
            )
        checkpoint = models[0]
    elif checkpoint not in models:
        raise TaskError(f"{path}: has no scores of '{checkpoint}'. It holds {names}.")
    seen: dict[tuple[str, int, int | None], int] = {}
    scores: dict[str, list[float]] = {}
    scenarios: dict[str, str] = {}
    for row in rows:
        if row.checkpoint != checkpoint:
            continue
        first = seen.setdefault((row.task, row.sample, row.seed), row.line)
        if first != row.line:
            raise TaskError(
                f"{path}:{row.line}: sample {row.sample} of task '{row.task}' is there twice (first on line {first}). "
                f"Remove one, or number the samples with `sample`."
            )
        scores.setdefault(row.task, []).append(row.score)
        scenarios.setdefault(row.task, row.scenario or row.task)
    return Samples(path, checkpoint, scores, scenarios)

"""The score matrix of a bank, from a long-form score file: every cell there, once, evenly sampled.

Takes a file and the ids that a bank expects; gives means over samples, or one BankError that names
the cell. Knows nothing about protocols or folders.
"""

import difflib
import reprlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from core.bank.scores import id_of, missing_key, score_of, whole_of
from core.errors import BankError
from core.files import read_jsonl


class ScoreTable(NamedTuple):
    """Means of a score file, with the tasks that are its columns."""

    means: np.ndarray
    """float64, shape (checkpoints, tasks), mean over samples and seeds; NaN in gaps."""
    samples: int
    """Samples behind every entry."""
    present: np.ndarray
    """bool, shape (checkpoints,): False for an optional checkpoint without rows; its means are NaN."""
    tasks: tuple[str, ...]
    scenarios: tuple[str, ...]
    """As the rows say; a task without one is its own scenario."""


def score_table(
    path: Path,
    checkpoints: Sequence[str],
    tasks: Sequence[str] | None,
    *,
    optional: Sequence[str] = (),
    gaps: bool = False,
) -> ScoreTable:
    """Mean score of every checkpoint on every task, over samples and seeds.

    `tasks` gives the columns; None takes them from the rows, in first-seen order. `checkpoints` lists
    the rows of the result; those also in `optional` may be absent altogether. With `gaps`, a checkpoint may lack some
    tasks, whose means are NaN. The order of the file
    does not matter otherwise. Raises BankError naming checkpoint, task, file and line for an unknown or
    missing checkpoint or task, a duplicated score (same checkpoint, task, sample and seed), a missing
    score, or a checkpoint and task with fewer samples than the rest.
    """
    columns = _read_columns(path, checkpoints, tasks)
    tasks = tuple(columns.scenario)
    order = np.lexsort((columns.sample, columns.seed, columns.task, columns.checkpoint))
    _refuse_duplicates(columns, order, path, checkpoints, tasks)
    shape = (len(checkpoints), len(tasks))
    flat = columns.checkpoint.astype(np.int64) * shape[1] + columns.task
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    present: np.ndarray = np.asarray(counts.any(axis=1))
    required: np.ndarray = np.array([one not in optional for one in checkpoints]) | present
    judged = np.where(gaps & (counts == 0) & present[:, None], counts.max(initial=0), counts)
    samples = _even_samples(judged, required, path, checkpoints, tasks)
    # Summed in sorted order, so that a shuffled file gives the same bits.
    sums = np.bincount(flat[order], weights=columns.score[order], minlength=shape[0] * shape[1]).reshape(shape)
    means = np.full(shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return ScoreTable(means, samples, present, tasks, tuple(columns.scenario.values()))


@dataclass(frozen=True, eq=False)
class _Columns:
    """A score file as arrays of one length: positions of checkpoint and task, and the rest."""

    checkpoint: np.ndarray
    task: np.ndarray
    sample: np.ndarray
    seed: np.ndarray
    score: np.ndarray
    line: np.ndarray
    scenario: Mapping[str, str]
    """Scenario of each task, in column order."""


def _read_columns(path: Path, checkpoints: Sequence[str], tasks: Sequence[str] | None) -> _Columns:
    checkpoint_at = {one: index for index, one in enumerate(checkpoints)}
    task_at = {one: index for index, one in enumerate(tasks or ())}
    scenario = {one: one for one in tasks or ()}
    who, what, sample, seed, lines = (array("q") for _ in range(5))
    score = array("d")
    for line, row in read_jsonl(path, error=BankError):
        try:
            cell = _cell(row)
        except ValueError as problem:
            raise BankError(f"{path}:{line}: {problem}") from None
        if cell.checkpoint not in checkpoint_at:
            _unknown(f"{path}:{line}", "checkpoint", cell.checkpoint, checkpoints, "bank.yaml")
        column = task_at.get(cell.task)
        if column is None:
            if tasks is not None:
                _unknown(f"{path}:{line}", "task", cell.task, tasks, "the task file")
            column = task_at[cell.task] = len(task_at)
            scenario[cell.task] = id_of(row, "scenario") or cell.task
        who.append(checkpoint_at[cell.checkpoint])
        what.append(column)
        sample.append(cell.sample)
        seed.append(cell.seed)
        score.append(cell.score)
        lines.append(line)
    return _Columns(
        checkpoint=np.asarray(who),
        task=np.asarray(what),
        sample=np.asarray(sample),
        seed=np.asarray(seed),
        score=np.asarray(score),
        line=np.asarray(lines),
        scenario=scenario,
    )


class _Cell(NamedTuple):
    task: str
    score: float
    checkpoint: str | None
    sample: int
    seed: int
    """-1 where the row has none."""


def _cell(row: Mapping[str, Any]) -> _Cell:
    """What a matrix needs of a row; a `SampleRow` costs three times as much, and files are long."""
    if "task" not in row or "score" not in row:
        raise ValueError(missing_key(row))
    seed = whole_of(row, "seed")
    return _Cell(
        id_of(row, "task") or "",
        score_of(row["score"]),
        id_of(row, "checkpoint"),
        whole_of(row, "sample") or 0,
        -1 if seed is None else seed,
    )


def _unknown(where: str, kind: str, found: str | None, known: Sequence[str], listed: str) -> NoReturn:
    if found is None:
        raise BankError(f"{where}: key '{kind}' is missing. A bank's scores must say whose they are.")
    near = difflib.get_close_matches(found, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise BankError(
        f"{where}: unknown {kind} '{reprlib.repr(found)[1:-1]}': not one of the {len(known)} in {listed}.{hint}"
    )


def _refuse_duplicates(
    columns: _Columns, order: np.ndarray, path: Path, checkpoints: Sequence[str], tasks: Sequence[str]
) -> None:
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in (columns.checkpoint, columns.task, columns.sample, columns.seed):
        same &= np.diff(column[order]) == 0
    if not same.any():
        return
    at = int(np.flatnonzero(same)[0])
    first, second = int(order[at]), int(order[at + 1])
    seed = int(columns.seed[first])
    raise BankError(
        f"{path}:{columns.line[second]}: duplicated score of checkpoint '{checkpoints[columns.checkpoint[first]]}' on "
        f"task '{tasks[columns.task[first]]}', sample {columns.sample[first]}{'' if seed < 0 else f', seed {seed}'} "
        f"(first on line {columns.line[first]}). Remove one, or number the samples with `sample`."
    )


def _even_samples(
    counts: np.ndarray, required: np.ndarray, path: Path, checkpoints: Sequence[str], tasks: Sequence[str]
) -> int:
    """Samples behind every entry; raises BankError for the first entry with none or fewer."""
    samples = int(counts[required].max(initial=0))
    short = (counts < samples) & required[:, None]
    if samples and not short.any():
        return samples

    def name(entry: Callable[[np.ndarray], np.ndarray]) -> tuple[str, str, int]:
        row, column = (int(part) for part in np.argwhere(entry(counts) & required[:, None])[0])
        return checkpoints[row], tasks[column], int(counts[row, column])

    missing = int(((counts == 0) & required[:, None]).sum())
    if missing:
        who, what, _ = name(lambda c: c == 0)
        row = list(checkpoints).index(who)
        if not counts[row].any():
            raise BankError(f"{path}: no scores for checkpoint '{who}'. Evaluate it, or remove it from bank.yaml.")
        others = f" {missing - 1} more are missing." if missing > 1 else ""
        raise BankError(f"{path}: missing score of checkpoint '{who}' on task '{what}'.{others} Rerun, or remove one.")
    who, what, found = name(lambda c: c < samples)
    raise BankError(
        f"{path}: checkpoint '{who}' has {found} samples on task '{what}', others have {samples}. "
        f"Every score of a split must rest on the same number of samples."
    )

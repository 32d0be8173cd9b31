"""Long-form scores: JSONL with one object a scored sample, read, checked and averaged.

Takes a file, and where a bank asks for matrices the ids it expects; gives rows or arrays. Only
`task` and `score` are required of a row; knows nothing about protocols or folders.
"""

import difflib
import math
import reprlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from core.errors import BankError
from core.files import read_jsonl


class SampleRow(NamedTuple):
    """One scored sample, as a score file has it."""

    task: str
    score: float
    """In [0, 1]."""
    checkpoint: str | None = None
    scenario: str | None = None
    sample: int = 0
    seed: int | None = None
    prompt: str | None = None
    completion: str | None = None
    scorer: str | None = None
    finish: str | None = None
    line: int = 0
    """Line of the file, from 1."""


class ScoreTable(NamedTuple):
    """Means of a score file on the ids that were asked for."""

    means: np.ndarray
    """float64, shape (checkpoints, tasks), mean over samples."""
    samples: int
    """Samples behind every entry."""
    present: np.ndarray
    """bool, shape (checkpoints,): False for an optional checkpoint without rows; its means are NaN."""


def read_scores(path: Path | str) -> list[SampleRow]:
    """Every row of a long-form score file, in file order; keys it does not know are ignored.

    Raises BankError, naming file and line, where a row lacks `task` or `score`, a value has the
    wrong type, or a score is NaN or outside [0, 1].
    """
    return list(iterate_scores(Path(path)))


def iterate_scores(path: Path) -> Iterator[SampleRow]:
    """As `read_scores`, one row at a time, so that memory does not grow with the file."""
    for line, row in read_jsonl(path, error=BankError):
        try:
            yield _row(row, line)
        except ValueError as problem:
            raise BankError(f"{path}:{line}: {problem}") from None


def _row(row: Mapping[str, Any], line: int) -> SampleRow:
    if "task" not in row or "score" not in row:
        raise ValueError(_missing_key(row))
    return SampleRow(
        _id(row, "task") or "",
        _score(row["score"]),
        _id(row, "checkpoint"),
        _id(row, "scenario"),
        _whole(row, "sample") or 0,
        _whole(row, "seed"),
        _text(row, "prompt"),
        _text(row, "completion"),
        _text(row, "scorer"),
        _text(row, "finish"),
        line,
    )


def _missing_key(row: Mapping[str, Any]) -> str:
    key = "task" if "task" not in row else "score"
    near = difflib.get_close_matches(key, [str(k) for k in row], n=1)
    hint = f" Is '{near[0]}' meant?" if near else ""
    return f"key '{key}' is missing; found {reprlib.repr(sorted(row))}. Expected at least task and score.{hint}"


def _score(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"score must be a number in [0, 1], found {reprlib.repr(value)}.")
    if math.isnan(value):
        raise ValueError("score is NaN. Expected a number in [0, 1]; leave out or rerun samples that were not scored.")
    if not 0 <= value <= 1:
        raise ValueError(f"score {value!r} is outside [0, 1]. Divide by the best possible score first.")
    return float(value)


def _id(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is None and key != "task":
        return None
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{key} must be a non-empty text or a whole number, found {reprlib.repr(value)}.")


def _whole(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63):
        return value
    raise ValueError(f"{key} must be a whole number from 0, found {reprlib.repr(value)}.")


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    return value if value is None or isinstance(value, str) else reprlib.repr(value)


def tasks_of_scores(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Task ids in first-seen order and their scenarios (a task without one is its own)."""
    scenario: dict[str, str] = {}
    for row in iterate_scores(path):
        if row.task not in scenario:
            scenario[row.task] = row.scenario or row.task
    return tuple(scenario), tuple(scenario.values())


def read_task_index(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and scenarios of a task file, in its order; prompts and targets are not looked at.

    Raises BankError for a task without id, or an id that is used twice.
    """
    scenario: dict[str, str] = {}
    for line, row in read_jsonl(path, error=BankError):
        try:
            task = _id({"task": row.get("id")}, "task") or ""
            group = _id(row, "scenario") or task
        except ValueError as problem:
            raise BankError(f"{path}:{line}: a task's {str(problem).replace('task', 'id', 1)}") from None
        if task in scenario:
            raise BankError(f"{path}:{line}: task id '{task}' is used twice. Ids must be unique.")
        scenario[task] = group
    return tuple(scenario), tuple(scenario.values())


def score_table(
    path: Path, checkpoints: Sequence[str], tasks: Sequence[str], *, optional: Sequence[str] = ()
) -> ScoreTable:
    """Mean score of every checkpoint on every task, over samples and seeds.

    `checkpoints` lists the rows of the result; those also in `optional` may be absent altogether.
    Raises BankError naming checkpoint, task, file and line for an unknown or missing checkpoint or
    task, a duplicated score (same checkpoint, task, sample and seed), a missing score, or a
    checkpoint and task with fewer samples than the rest. The order of rows does not matter.
    """
    columns = _read_columns(path, checkpoints, tasks)
    order = np.lexsort((columns.sample, columns.seed, columns.task, columns.checkpoint))
    _refuse_duplicates(columns, order, path, checkpoints, tasks)
    shape = (len(checkpoints), len(tasks))
    flat = columns.checkpoint.astype(np.int64) * shape[1] + columns.task
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    present: np.ndarray = np.asarray(counts.any(axis=1))
    required: np.ndarray = np.array([one not in optional for one in checkpoints]) | present
    samples = _even_samples(counts, required, path, checkpoints, tasks)
    # Summed in sorted order, so that a shuffled file gives the same bits.
    sums = np.bincount(flat[order], weights=columns.score[order], minlength=shape[0] * shape[1]).reshape(shape)
    means = np.full(shape, np.nan)
    means[present] = sums[present] / counts[present]
    return ScoreTable(means, samples, present)


@dataclass(frozen=True, eq=False)
class _Columns:
    """A score file as arrays of one length: positions of checkpoint and task, and the rest."""

    checkpoint: np.ndarray
    task: np.ndarray
    sample: np.ndarray
    seed: np.ndarray
    score: np.ndarray
    line: np.ndarray


def _read_columns(path: Path, checkpoints: Sequence[str], tasks: Sequence[str]) -> _Columns:
    checkpoint_at = {one: index for index, one in enumerate(checkpoints)}
    task_at = {one: index for index, one in enumerate(tasks)}
    who, what, sample, seed, line = (array("q") for _ in range(5))
    score = array("d")
    for row in iterate_scores(path):
        if row.checkpoint not in checkpoint_at:
            _unknown(f"{path}:{row.line}", "checkpoint", row.checkpoint, checkpoints, "bank.yaml")
        if row.task not in task_at:
            _unknown(f"{path}:{row.line}", "task", row.task, tasks, "the task file")
        who.append(checkpoint_at[row.checkpoint])
        what.append(task_at[row.task])
        sample.append(row.sample)
        seed.append(-1 if row.seed is None else row.seed)
        score.append(row.score)
        line.append(row.line)
    return _Columns(*(np.asarray(one) for one in (who, what, sample, seed, score, line)))


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

"""Long-form scores: JSONL with one object a scored sample, read and checked row by row.

Takes a file and gives rows; only `task` and `score` are required of one. Knows nothing about banks
(`table.py` makes their matrices) or protocols.
"""

import difflib
import math
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


def read_scores(path: Path | str) -> list[SampleRow]:
    """Every row of a long-form score file, in file order; keys it does not know are ignored.

    Raises BankError, naming file and line, where a row lacks `task` or `score`, a value has the
    wrong type, or a score is NaN or outside [0, 1].
    """
    return list(iterate_scores(Path(path)))


def scores_of_task(path: Path | str, task: str) -> list[SampleRow]:
    """As `read_scores`, the rows of one task alone: of a long file only those are kept."""
    return [row for row in iterate_scores(Path(path), holding=task) if row.task == task]


def iterate_scores(path: Path, *, holding: str = "") -> Iterator[SampleRow]:
    """As `read_scores`, one row at a time, so that memory does not grow with the file; `holding` as in `read_jsonl`."""
    for line, row in read_jsonl(path, error=BankError, holding=holding):
        try:
            yield _row(row, line)
        except ValueError as problem:
            raise BankError(f"{path}:{line}: {problem}") from None


def _row(row: Mapping[str, Any], line: int) -> SampleRow:
    if "task" not in row or "score" not in row:
        raise ValueError(missing_key(row))
    return SampleRow(
        id_of(row, "task") or "",
        score_of(row["score"]),
        id_of(row, "checkpoint"),
        id_of(row, "scenario"),
        whole_of(row, "sample") or 0,
        whole_of(row, "seed"),
        _text(row, "prompt"),
        _text(row, "completion"),
        _text(row, "scorer"),
        _text(row, "finish"),
        line,
    )


def missing_key(row: Mapping[str, Any]) -> str:
    key = "task" if "task" not in row else "score"
    near = difflib.get_close_matches(key, [str(k) for k in row], n=1)
    hint = f" Is '{near[0]}' meant?" if near else ""
    return f"key '{key}' is missing; found {reprlib.repr(sorted(row))}. Expected at least task and score.{hint}"


def score_of(value: Any) -> float:
    """A score as a float; ValueError, without a place, when it is no number in [0, 1]."""
    if not isinstance(value, int | float):
        raise ValueError(f"score must be a number in [0, 1], found {reprlib.repr(value)}.")
    if 0 <= value <= 1:
        return float(value)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("score is NaN. Expected a number in [0, 1]; leave out or rerun samples that were not scored.")
    raise ValueError(f"score {reprlib.repr(value)} is outside [0, 1]. Divide by the best possible score first.")


def id_of(row: Mapping[str, Any], key: str) -> str | None:
    """An id as text (whole numbers are taken too), or None where there is none; `task` must be there."""
    value = row.get(key)
    if value is None and key != "task":
        return None
    if isinstance(value, str) and value and (value.isascii() or _is_unicode(value)):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{key} must be a non-empty text or a whole number, found {reprlib.repr(value)}.")


def _is_unicode(value: str) -> bool:
    """False for half of a surrogate pair, which JSON can spell but no file or screen can show."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_of(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63):
        return value
    raise ValueError(f"{key} must be a whole number from 0, found {reprlib.repr(value)}.")


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    return value if value is None or isinstance(value, str) else reprlib.repr(value)


def read_task_index(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and scenarios of a task file, in its order; prompts and targets are not looked at.

    Raises BankError for a task without id, or an id that is used twice.
    """
    scenario: dict[str, str] = {}
    for line, row in read_jsonl(path, error=BankError):
        try:
            task = id_of({"task": row.get("id")}, "task") or ""
            group = id_of(row, "scenario") or task
        except ValueError as problem:
            raise BankError(f"{path}:{line}: a task's {str(problem).replace('task', 'id', 1)}") from None
        if task in scenario:
            raise BankError(f"{path}:{line}: task id '{task}' is used twice. Ids must be unique.")
        scenario[task] = group
    return tuple(scenario), tuple(scenario.values())

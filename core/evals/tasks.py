"""Tasks: what a model is asked, and how an answer is judged; read from JSONL and checked line by line.

Takes a file and gives `Task`s in file order; scores one completion of one task. Knows no models.
"""

import difflib
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import TaskError
from core.evals.scorers import Score, scorer_of
from core.files import read_jsonl

REQUIRED = ("id", "prompt", "target", "scorer")


@dataclass(frozen=True)
class Task:
    """One question with its check."""

    id: str
    scenario: str
    """Group of related tasks; a task without one is its own scenario."""
    prompt: str
    target: str
    scorer: str | Mapping[str, Any] = "exact"
    """A name, or an object with `name` and options; see `core.evals.scorers.SCORERS`."""

    @property
    def scorer_name(self) -> str:
        """The scorer without its options, as sample files have it."""
        return self.scorer if isinstance(self.scorer, str) else str(self.scorer.get("name"))


def read_tasks(path: Path | str) -> list[Task]:
    """Every task of a JSONL file with keys id, scenario, prompt, target, scorer, in file order.

    `scenario` may be left out; keys it does not know are ignored. Raises TaskError, naming file and
    line, for a missing key, a value of the wrong type, an id used twice, or a scorer that is unknown or
    could never judge its target.
    """
    path, first, tasks = Path(path), dict[str, int](), list[Task]()
    for line, row in read_jsonl(path, error=TaskError):
        try:
            task = _task(row)
        except ValueError as problem:
            raise TaskError(f"{path}:{line}: {str(problem).rstrip('.?')}.") from None
        if task.id in first:
            raise TaskError(
                f"{path}:{line}: task id '{task.id}' is used twice (first on line {first[task.id]}). "
                f"Ids must be unique: rename or remove one."
            )
        first[task.id] = line
        tasks.append(task)
    return tasks


def score(task: Task, completion: str) -> Score:
    """Judge one completion: `(score, reason)`, the score in [0, 1].

    Raises TaskError, naming the task, where the scorer cannot reach a verdict (a pattern that does not
    finish, a target that does not fit): that is a defect of the task, never a zero for the model.
    """
    try:
        scorer, options = scorer_of(task.scorer)
        scorer.check(task.target, options)
        return scorer.judge(task.target, completion, options)
    except ValueError as problem:
        raise TaskError(f"Task '{task.id}': {problem}.") from None


def _task(row: Mapping[str, Any]) -> Task:
    for key in REQUIRED:
        if key not in row:
            near = difflib.get_close_matches(key, [str(k) for k in row], n=1)
            hint = f" Is '{near[0]}' meant?" if near else ""
            raise ValueError(
                f"key '{key}' is missing; found {', '.join(sorted(map(str, row)))[:200] or 'none'}. "
                f"Expected {', '.join(REQUIRED)}.{hint}"
            )
    task_id = _text(row, "id", whole=True)
    scenario = task_id if row.get("scenario") is None else _text(row, "scenario", whole=True)
    target = row["target"]
    if isinstance(target, int | float) and not isinstance(target, bool):
        target = repr(target)
    task = Task(task_id, scenario, _text(row, "prompt"), _text({"target": target}, "target", empty=True), row["scorer"])
    scorer, options = scorer_of(task.scorer)
    scorer.check(task.target, options)
    return task


def _text(row: Mapping[str, Any], key: str, *, whole: bool = False, empty: bool = False) -> str:
    value = row[key]
    if whole and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not (value or empty):
        raise ValueError(f"{key} must be a {'' if empty else 'non-empty '}text, found {reprlib.repr(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{key} holds half of a surrogate pair, which is not a character: {value!r:.80}") from None
    return value

"""AppWorld's `evaluations/<dataset>.json`: success of every task, in the order of the dataset's task list.

Takes an evaluation report, new (`success`) or old (`passes_fully`); gives one row a task. Texts of requirements and
traces are never kept: AppWorld asks that they are not published.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, listed, name_of
from core.bank.readers.sources import Source
from core.errors import BankError

AGGREGATES = ("task_goal_completion", "scenario_goal_completion", "strict", "grouped_strict")
DATASETS = ("train", "dev", "test_normal", "test_challenge")
SEED = re.compile(r"seed_?(\d{1,9})")
ONLY = "on_only_"


def recognise(source: Source) -> bool:
    """`individual` results with a success flag, or the aggregate of such a report without them."""
    report = source.object
    individual = report.get("individual")
    if isinstance(individual, dict) and individual:
        return any(isinstance(one, dict) and ("success" in one or "passes_fully" in one) for one in individual.values())
    return _is_aggregate(report.get("aggregate")) or _is_aggregate(report)


def _is_aggregate(found: Any) -> bool:
    return isinstance(found, dict) and any(name in found for name in AGGREGATES)


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a task. Raises BankError for a bare aggregate, or a task without a success flag."""
    path = source.path
    individual = source.object.get("individual")
    if not isinstance(individual, dict) or not individual:
        raise BankError(
            f"{path}: holds AppWorld's aggregate only, no `individual` results, so there is no score for each task. "
            "Run `appworld evaluate` again and keep its whole report."
        )
    checkpoint, sample = _whose(path)
    found = FileScores(path, FORMAT.name, [], group="" if path.stem.startswith(ONLY) else path.stem)
    order, listed_in = _order(source, individual, found)
    for task in order:
        score, difficulty = _score(individual.get(task), f"{path}: task '{task}'", options)
        extra = {"difficulty": difficulty} if difficulty is not None else None
        task_name = name_of(task, "task", str(path))
        found.rows.append(
            ScoreRow(checkpoint, task_name, score, sys.intern(task_name.split("_")[0]), sample, None, extra)
        )
    missing = [one for one in order if one not in individual]
    if missing:
        found.warnings.append(
            f"{path}: has no result for {len(missing)} of the {len(order)} tasks in {listed_in}, left unscored: "
            f"{listed(missing)}."
        )
    return found


def _score(one: Any, where: str, options: ReadOptions) -> tuple[float | None, int | None]:
    if one is None:
        return None, None
    flag = one.get("success", one.get("passes_fully")) if isinstance(one, Mapping) else None
    if not isinstance(flag, bool):
        raise BankError(f"{where}: expected `success` (or the older `passes_fully`) to be true or false.")
    difficulty = one.get("difficulty")
    difficulty = difficulty if isinstance(difficulty, int) else None
    if not options.soft:
        return float(flag), difficulty
    passes, tests = one.get("passes"), one.get("num_tests")
    if not isinstance(passes, list) or not isinstance(tests, int) or tests < max(1, len(passes)):
        raise BankError(f"{where}: a soft score needs `passes` and `num_tests`, and these do not fit.")
    return len(passes) / tests, difficulty


def _whose(path: Path) -> tuple[str, int | None]:
    """The experiment's name, which may hold slashes, and the sample where the layout has `seed_<k>`."""
    folders = list(path.parent.parts)
    if folders and folders[-1] == "evaluations":
        folders.pop()
    elif path.stem not in DATASETS and not path.stem.startswith(ONLY):
        return name_of(path.stem, "checkpoint", str(path)), None
    sample = None
    if len(folders) > 1 and (seed := SEED.fullmatch(folders[-1])):
        sample = int(seed[1])
        folders.pop()
    name = folders[-1]
    for at in range(len(folders) - 2, 0, -1):
        if folders[at - 1 : at + 1] == ["experiments", "outputs"]:
            name = "/".join(folders[at + 1 :])
    return name_of(name, "checkpoint", str(path)), sample


def _order(source: Source, individual: Mapping[str, Any], found: FileScores) -> tuple[list[str], str]:
    """Tasks in the order of the dataset's list, and what list that is; in the report's own where there is none."""
    if source.path.stem.startswith(ONLY):
        return list(individual), "the report"
    file = _task_list(source)
    if file is None:
        found.warnings.append(
            "AppWorld's list data/datasets/<split>.txt was not found: tasks are in the report's order."
        )
        return list(individual), "the report"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    tasks = list(dict.fromkeys(line.split(":")[0].strip() for line in lines if line.strip()))
    strays = [one for one in individual if one not in set(tasks)]
    if strays:
        found.warnings.append(
            f"{source.path}: {len(strays)} tasks are not in {file.name}, kept at the end: {listed(strays)}."
        )
    return [*tasks, *strays], str(file.name)


def _task_list(source: Source) -> Path | None:
    """`data/datasets/<split>.txt` below AppWorld's root: the folder over `experiments`, or one that is read."""
    relative = Path("data") / "datasets" / f"{source.path.stem}.txt"
    for folder in source.path.parents:
        file = folder / relative
        above = source.path.relative_to(folder).parts[:2] == ("experiments", "outputs")
        if file.is_file() and (source.beside(file) or (above and not source.confined and not file.is_symlink())):
            return file
    return None


def combine(files: list[FileScores], _: ReadOptions) -> list[FileScores]:
    """Drops single-task reruns that a whole report covers, and adds task and scenario completion."""
    whole = {(row.checkpoint, row.task) for one in files if one.group for row in one.rows}
    for one in files:
        if not one.group and one.path.stem.startswith(ONLY) and any((r.checkpoint, r.task) in whole for r in one.rows):
            one.rows = [row for row in one.rows if (row.checkpoint, row.task) not in whole]
            one.warnings.append(f"{one.path}: skipped, a report of the whole dataset has this task too.")
    groups = sorted({one.group for one in files if one.group in DATASETS})
    if len(groups) > 1:
        files[0].warnings.append(f"Several datasets are read together: {', '.join(groups)}. Name files to read one.")
    _add_completion(files, groups)
    return files


def _add_completion(files: list[FileScores], groups: list[str]) -> None:
    """Each checkpoint's completion, the mean over its reports of one dataset, as figures of the first of them."""
    reports: dict[tuple[str, str], list[FileScores]] = {}
    for one in files:
        if one.rows and not one.path.stem.startswith(ONLY):
            reports.setdefault((one.rows[0].checkpoint, one.group), []).append(one)
    for (checkpoint, dataset), several in reports.items():
        each = [completion(one.rows) for one in several]
        prefix = f"{dataset} " if len(groups) > 1 else ""
        for name in each[0]:
            values = [one[name] for one in each if name in one]
            several[0].figures.setdefault(checkpoint, {})[prefix + name] = sum(values) / len(values)


def completion(rows: list[ScoreRow]) -> dict[str, float]:
    """Task goal completion (mean of scores) and scenario goal completion (mean over scenarios of their minimum).

    Both in [0, 1]. Unscored tasks are left out, and so are their scenarios. Not rounded, unlike the percentages of the
    report.
    """
    scored = [row.score for row in rows if row.score is not None]
    scenarios: dict[str, list[float | None]] = {}
    for row in rows:
        scenarios.setdefault(row.scenario or row.task, []).append(row.score)
    least = [min(one for one in scores if one is not None) for scores in scenarios.values() if None not in scores]
    found = {"task_goal_completion": sum(scored) / len(scored)} if scored else {}
    return found | ({"scenario_goal_completion": sum(least) / len(least)} if least else {})


FORMAT = Format("appworld", "AppWorld evaluations/<dataset>.json", recognise, read, combine)

"""verl validation dumps, `<dir>/<global_step>.jsonl`: one behaviour vector a training step.

Takes a dump; gives a row a line. Tasks have no id there: it is a hash of `input` and `gts`, so the same question has
the same id at every step, and asked several times it has several samples.
"""

import re
import sys
from pathlib import Path

from core.bank.readers.common import (
    FileScores,
    Format,
    ReadOptions,
    ScoreRow,
    bounded,
    listed,
    name_of,
    number,
    short_hash,
)
from core.bank.readers.sources import Source
from core.errors import BankError

STEP = re.compile(r"(?:global_)?(?:step[_-]?)?(\d+)")


def recognise(source: Source) -> bool:
    """Rows with `input`, `output` and `score`, and no task."""
    first = source.first_row or {}
    return {"input", "output", "score"} <= set(first) and ("gts" in first or "step" in first) and "task" not in first


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a line. Raises BankError for a line without input or score, or a metric that is not there."""
    path, metric = source.path, options.metric or "score"
    found = FileScores(path, FORMAT.name, [], run=str(path.parent))
    asked: dict[str, int] = {}
    named = STEP.fullmatch(path.stem)

    def rows():  # type: ignore[no-untyped-def]
        for where, row in source.rows():
            if "input" not in row or metric not in row:
                have = [one for one, value in row.items() if isinstance(value, int | float)]
                raise BankError(f"{where}: expected `input` and `{metric}`; its numbers are: {listed(have)}.")
            step = row.get("step", named[1] if named else path.stem)
            task = short_hash(row["input"], row.get("gts"))
            checkpoint = name_of(step, "checkpoint", where)
            key = f"{checkpoint}\0{task}"
            asked[key] = asked.get(key, -1) + 1
            yield ScoreRow(checkpoint, task, number(row[metric], f"{where}: {metric}"), sample=asked[key])

    found.rows.extend(bounded(rows(), path))
    return found


def combine(files: list[FileScores], _: ReadOptions) -> list[FileScores]:
    """Steps of several folders are told apart by the folder's name."""
    folders = sorted({one.run for one in files})
    if len(folders) > 1:
        names = _short_names(folders)
        for one in files:
            one.rows = [row._replace(checkpoint=sys.intern(f"{names[one.run]}/{row.checkpoint}")) for row in one.rows]
        files[0].warnings.append(f"verl dumps of {len(folders)} folders are read: {listed(sorted(names.values()))}.")
    return files


def _short_names(folders: list[str]) -> dict[str, str]:
    """The last parts of each path, as many as tell all apart."""
    for depth in range(1, 20):
        names = {one: "/".join(Path(one).parts[-depth:]) for one in folders}
        if len(set(names.values())) == len(folders):
            return names
    return {one: one for one in folders}


FORMAT = Format("verl", "verl validation dumps (<global_step>.jsonl)", recognise, read, combine)

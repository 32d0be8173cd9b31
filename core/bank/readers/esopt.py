"""ESOpt `*_eval16.json`: sixteen samples a problem, and the groups of four that its results are published by.

Takes a list, JSONL, or `{"scores": […]}` of records; gives a row a sample, and MeanK / PassK of all groups.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, bounded, listed, name_of, number, whole
from core.bank.readers.sources import Source
from core.errors import BankError

GROUPS = {f"{start}-{start + 3}": tuple(range(start, start + 4)) for start in (0, 4, 8, 12)}
"""Sample indices of each group of four; the published one is 12-15."""
PUBLISHED = "12-15"
SUFFIX = re.compile(r"[._-]?eval16$")
TREATMENTS = ("clamp", "drop")


def recognise(source: Source) -> bool:
    """Records with `task_id` and `sample_index`."""
    first = source.first_row or {}
    if {"task_id", "sample_index", "score"} <= set(first):
        return True
    records = _records(source)
    return bool(records) and isinstance(records[0], dict) and {"task_id", "sample_index", "score"} <= set(records[0])


def _records(source: Source) -> list[Any]:
    found = source.json
    found = found.get("scores") if isinstance(found, dict) else found
    return found if isinstance(found, list) else []


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a sample. Raises BankError for a record without task, sample index or score."""
    path = source.path
    fallback = SUFFIX.sub("", path.stem) or path.parent.name
    found = FileScores(path, FORMAT.name, [])
    first = source.first_row or {}
    numbered = source.rows() if "sample_index" in first else _numbered(source)
    found.rows.extend(bounded((_row(where, one, fallback) for where, one in numbered), path))
    for checkpoint in dict.fromkeys(row.checkpoint for row in found.rows):
        rows = [row for row in found.rows if row.checkpoint == checkpoint]
        found.figures[checkpoint] = figures(rows)
        negative = sum(1 for row in rows if row.score is not None and row.score < 0)
        if negative:
            found.warnings.append(
                f"{checkpoint}: {negative} scores are negative. Figures are given with them set to 0 (clamp) and left "
                "out (drop); the scores are as in the file."
            )
        short = sorted({row.task for row in rows} - _whole_tasks(rows))
        if short:
            found.warnings.append(
                f"{checkpoint}: {len(short)} tasks lack some of the samples 0 to 15: {listed(short)}."
            )
    return found


def _numbered(source: Source) -> Iterator[tuple[str, Any]]:
    for at, one in enumerate(_records(source), start=1):
        yield f"{source.path}: record {at}", one


def _row(where: str, one: Any, fallback: str) -> ScoreRow:
    if not isinstance(one, dict) or not {"task_id", "sample_index", "score"} <= set(one):
        raise BankError(f"{where}: expected `task_id`, `sample_index` and `score`.")
    sample = whole(one["sample_index"], "sample_index", where)
    if sample is None:
        raise BankError(f"{where}: expected `sample_index` to be a whole number from 0, found none.")
    checkpoint = name_of(one.get("checkpoint") or one.get("model") or fallback, "checkpoint", where)
    return ScoreRow(checkpoint, name_of(one["task_id"], "task", where), number(one["score"], where), sample=sample)


def _whole_tasks(rows: Iterable[ScoreRow]) -> set[str]:
    samples: dict[str, set[int | None]] = {}
    for row in rows:
        samples.setdefault(row.task, set()).add(row.sample)
    return {task for task, have in samples.items() if have >= set(range(16))}


def figures(rows: Iterable[ScoreRow]) -> dict[str, float]:
    """Mean4 and Pass4 of every group of four samples, mean16, and unbiased pass@4, of one checkpoint.

    Mean4 is the mean of the group's scores, Pass4 the mean over tasks of the group's best. Where a score is
    negative, every figure is given twice: `clamp` sets it to 0, `drop` leaves it out (and a task with nothing left).
    A group without scores has no figure. pass@4 counts a sample as right at a score of 1 or more, and needs four.
    """
    scores: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.score is not None:
            scores.setdefault(row.task, {})[row.sample or 0] = row.score
    if not any(one < 0 for task in scores.values() for one in task.values()):
        return _figures(scores)
    found: dict[str, float] = {}
    for treatment in TREATMENTS:
        treated = {
            task: {at: max(one, 0.0) for at, one in samples.items() if one >= 0 or treatment == "clamp"}
            for task, samples in scores.items()
        }
        found |= {f"{name} {treatment}": value for name, value in _figures(treated).items()}
    return found


def _figures(scores: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    from core.stats.passk import pass_at_k

    found: dict[str, float] = {}
    for name, members in GROUPS.items():
        tasks = [[samples[at] for at in members if at in samples] for samples in scores.values()]
        tasks = [one for one in tasks if one]
        if tasks:
            found[f"Mean4 {name}"] = math.fsum(one for task in tasks for one in task) / sum(map(len, tasks))
            found[f"Pass4 {name}"] = math.fsum(map(max, tasks)) / len(tasks)
    everything = [one for samples in scores.values() for at, one in samples.items() if at < 16]
    if everything:
        found["mean16"] = math.fsum(everything) / len(everything)
    counts = [(len(one), sum(score >= 1 for score in one.values())) for one in scores.values() if len(one) >= 4]
    if counts:
        found["pass@4"] = math.fsum(pass_at_k(n, c, 4) for n, c in counts) / len(counts)
    return found


FORMAT = Format("esopt", "ESOpt *_eval16.json", recognise, read)

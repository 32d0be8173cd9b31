"""Tables of scores in CSV, TSV, Parquet and JSONL, our own score files among them: long, or wide.

Long is a row a score (`checkpoint, task, sample, score`); wide a row a checkpoint and a column a task, or the other
way round with a column `task`. Columns are known by their names, in any order and case.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    whole,
)
from core.bank.readers.sources import Source
from core.bank.readers.table_files import Record, is_delimited, is_parquet, parquet_columns, records
from core.errors import BankError

ROLES: dict[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint", "ckpt", "model", "model_name", "checkpoint_id"),
    "task": ("task", "task_id", "problem_id", "question_id", "instance_id", "problem", "id"),
    "score": ("score", "reward", "correct", "success", "passed", "resolved", "accuracy", "acc", "value"),
    "scenario": ("scenario", "scenario_id"),
    "sample": ("sample", "sample_index", "sample_id", "epoch", "trial", "attempt"),
    "seed": ("seed",),
    "step": ("step", "global_step"),
    "prompt_hash": ("prompt_hash",),
    "prompt": ("prompt",),
}
"""Names a column may have, the likeliest first."""
OPTIONAL = ("checkpoint", "scenario", "sample", "seed", "prompt_hash", "prompt")
SUMMARIES = frozenset(("mean", "average", "avg", "overall", "total", "notes"))
PLAIN_NAMES = frozenset(
    ("scores", "score", "results", "samples", "eval", "evals", "dev", "test", "train", "validation", "val", "data")
)
"""File names that say nothing, so that the folder's name is the checkpoint's."""
EXPECTED = (
    "Expected a long table with the columns task and score (and checkpoint, sample), or a wide one with a column "
    "checkpoint and a column for each task."
)


def recognise(source: Source) -> bool:
    """Column names that are those of a long or wide table of scores."""
    if is_parquet(source):
        return True
    if not source.is_json and not (source.given or source.path.suffix.lower() in (".csv", ".tsv", ".txt")):
        return False
    first = _first(source)
    return first is not None and layout(first, strict=not source.given) is not None


def _first(source: Source) -> Record | None:
    if source.is_json:
        row = source.first_row
        if row is None and isinstance(source.json, list) and source.json and isinstance(source.json[0], dict):
            row = source.json[0]
        return Record(str(source.path), list(row), list(row.values())) if row else None
    return next(records(source), None) if is_delimited(source) else None


def roles_of(names: Sequence[str]) -> dict[str, int]:
    """Position of the column that has each role; of several the likeliest name."""
    at: dict[str, int] = {}
    for position, name in enumerate(names):
        at.setdefault(str(name).strip().lower(), position)
    return {
        role: next(at[one] for one in known if one in at)
        for role, known in ROLES.items()
        if any(one in at for one in known)
    }


def layout(first: Record, *, strict: bool = False) -> str | None:
    """`long`, `wide` (a row a checkpoint) or `tasks` (a row a task); None for a table of something else.

    `strict` takes no table for wide whose rows are not called checkpoints: a training log looks like that.
    """
    roles = roles_of(first.names)
    if "task" in roles and "score" in roles:
        return "long"
    rest = [value for at, value in enumerate(first.values) if at not in roles.values()]
    if not any(_is_number(one) for one in rest):
        return None
    if "checkpoint" in roles:
        return "wide"
    if "task" in roles:
        return "tasks"
    return None if strict else "wide"


def _is_number(value: Any) -> bool:
    try:
        return value is not None and number(value, "") is not None
    except BankError:
        return False


def read(source: Source, options: ReadOptions) -> FileScores:
    """Rows of the table. Raises BankError for columns that fit no layout, or a cell that is no number."""
    columns = parquet_columns(source) if is_parquet(source) else None
    wanted = _wanted(columns, options)
    rows = records(source, wanted)
    first = next(rows, None)
    if first is None:
        raise BankError(f"{source.path}: is empty: no row under the column names.")
    found = FileScores(source.path, FORMAT.name, [])
    kind = _long_by_metric(first, options) or layout(first)
    if kind is None:
        raise BankError(f"{source.path}: found the columns {listed(first.names, 8)}. {EXPECTED}")
    reader = {"long": _long, "wide": _wide, "tasks": _by_task}[kind]
    found.rows.extend(bounded(reader(source.path, _chain(first, rows), options, found), source.path))
    found.warnings = list(dict.fromkeys(found.warnings))
    return found


def _wanted(columns: list[str] | None, options: ReadOptions) -> list[str] | None:
    """Of a long Parquet table, which may hold texts, only the columns with a role."""
    if columns is None:
        return None
    roles = roles_of(columns)
    if "task" not in roles or ("score" not in roles and options.metric not in columns):
        return None
    return [name for at, name in enumerate(columns) if at in roles.values() or name == options.metric]


def _long_by_metric(first: Record, options: ReadOptions) -> str | None:
    return "long" if options.metric in first.names and "task" in roles_of(first.names) else None


def _chain(first: Record, rest: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rest


def _plain_name(path: Path) -> str:
    """What a file's name, or else its folder's, says of the checkpoint."""
    return path.parent.name if path.stem.lower() in PLAIN_NAMES and path.parent.name else path.stem


def _long(path: Path, rows: Iterator[Record], options: ReadOptions, found: FileScores) -> Iterator[ScoreRow]:
    names: Sequence[str] | None = None
    fallback = name_of(_plain_name(path), "checkpoint", str(path))
    extras: dict[Any, dict[str, Any]] = {}
    at: dict[str, int] = {}
    for record in rows:
        if record.names is not names:
            names, at = record.names, roles_of(record.names)
            if options.metric is not None:
                at["score"] = _named(record, options.metric)
            if "task" not in at or "score" not in at:
                raise BankError(f"{record.where}: expected task and score, found {listed(names, 8)}.")
            _say_which_score(path, record, at["score"], options, found)
        yield _long_row(record, at, fallback, extras)


def _long_row(record: Record, at: dict[str, int], fallback: str, extras: dict[Any, dict[str, Any]]) -> ScoreRow:
    where = record.where
    cell = {role: record.values[position] for role, position in at.items() if role in OPTIONAL or role == "step"}
    who = cell.get("checkpoint")
    if who in (None, ""):
        who = cell.get("step") if "checkpoint" not in at else None
    seed = whole(cell.get("seed"), "seed", where)
    prompt = cell.get("prompt_hash") or (short_hash(cell["prompt"]) if cell.get("prompt") else None)
    return ScoreRow(
        name_of(who, "checkpoint", where) if who not in (None, "") else fallback,
        name_of(record.values[at["task"]], "task", where),
        number(record.values[at["score"]], where),
        name_of(cell["scenario"], "scenario", where) if cell.get("scenario") not in (None, "") else None,
        whole(cell.get("sample"), "sample", where),
        name_of(prompt, "prompt hash", where) if prompt else None,
        extras.setdefault(seed, {"seed": seed}) if seed is not None else None,
    )


def _named(record: Record, metric: str) -> int:
    if metric not in record.names:
        raise BankError(f"{record.where}: has no column '{metric}'. It has: {listed(record.names, 20)}.")
    return list(record.names).index(metric)


def _say_which_score(path: Path, record: Record, at: int, options: ReadOptions, found: FileScores) -> None:
    others = [one for one in record.names if str(one).lower() in ROLES["score"]]
    if len(others) > 1 and options.metric is None and str(record.names[at]).lower() != "score":
        found.warnings.append(
            f"{path.name}: column '{record.names[at]}' is read, of {', '.join(others)}. Choose with --metric."
        )


def _wide(path: Path, rows: Iterator[Record], _: ReadOptions, found: FileScores) -> Iterator[ScoreRow]:
    called: str | None = None
    for record in rows:
        roles = roles_of(record.names)
        if called is None:
            called = "checkpoint" if "checkpoint" in roles else "step" if "step" in roles else ""
        who = roles.get(called) if called else 0
        if who is None or not record.names:
            raise BankError(f"{record.where}: expected a column {called}, found {listed(record.names, 8) or 'none'}.")
        checkpoint = name_of(record.values[who], "checkpoint", record.where)
        yield from (
            ScoreRow(checkpoint, task, score) for task, score in _cells(path, record, {who, roles.get("step")}, found)
        )


def _by_task(path: Path, rows: Iterator[Record], _: ReadOptions, found: FileScores) -> Iterator[ScoreRow]:
    for record in rows:
        roles = roles_of(record.names)
        if "task" not in roles:
            raise BankError(f"{record.where}: expected a column task, found {listed(record.names, 8)}.")
        task = name_of(record.values[roles["task"]], "task", record.where)
        scenario = record.values[roles["scenario"]] if "scenario" in roles else None
        group = name_of(scenario, "scenario", record.where) if scenario not in (None, "") else None
        apart = {roles["task"], roles.get("scenario")}
        yield from (ScoreRow(who, task, score, group) for who, score in _cells(path, record, apart, found))


def _cells(path: Path, record: Record, apart: set[int | None], found: FileScores) -> Iterator[tuple[str, float | None]]:
    """Name and score of each column that is neither apart nor a summary of the others."""
    for at, (name, value) in enumerate(zip(record.names, record.values, strict=True)):
        if at in apart:
            continue
        if str(name).lower() in SUMMARIES:
            found.warnings.append(f"{path.name}: column '{name}' is left out, it looks like a summary of the others.")
            continue
        where = f"{record.where}: column '{name}'"
        yield name_of(name, "column", where), number(value, where)


FORMAT = Format("table", "tables, long or wide (CSV, TSV, Parquet, JSONL)", recognise, read)

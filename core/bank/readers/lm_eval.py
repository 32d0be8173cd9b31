"""lm-evaluation-harness `samples_<task>_<stamp>.jsonl`: one metric of one filter, a row a document.

Takes a samples file and the `results_<stamp>.json` beside it, which knows the model's name, the limit and whether
higher is better. Gives rows named `<task>/<doc_id>`; keeps hashes of documents and prompts, never their texts.
"""

import re
from pathlib import Path
from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, bounded, listed, name_of, number
from core.bank.readers.sources import MAX_SIDE_BYTES, Source, read_json
from core.errors import BankError

STAMP = r"\d{4}-\d\d-\d\dT[\d:.\-]+"
SAMPLES = re.compile(rf"(?:.*?_)?samples_(.+?)(?:_({STAMP}))?\.jsonl")
RESULTS = re.compile(rf".*?_({STAMP})\.json")
NOT_METRICS = frozenset(
    (
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    )
)


def recognise(source: Source) -> bool:
    """Rows with `doc_id` and `filtered_resps`, or the results of such a run."""
    first = source.first_row
    if first is not None and "doc_id" in first:
        return "filtered_resps" in first or "filter" in first
    return _is_results(source.object)


def _is_results(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("results"), dict)
        and any(name in found for name in ("n-samples", "n-shot", "higher_is_better", "model_name", "task_hashes"))
    )


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a document. Raises BankError for results without samples, or a filter or metric that is not there."""
    first = source.first_row
    if first is None or "doc_id" not in first:
        return _results_only(source)
    named = SAMPLES.fullmatch(source.path.name)
    task = named[1] if named else source.path.stem
    results = _results_beside(source, named[2] if named else None)
    checkpoint = name_of(_model(results) or source.path.parent.name, "checkpoint", str(source.path))
    higher = _of_task(results, "higher_is_better", task)
    chosen = _choose(source, options, higher)
    found = FileScores(source.path, FORMAT.name, [], chosen.warnings, run=named[2] or "" if named else "")
    found.group = task
    sign = -1 if higher.get(chosen.metric) is False else 1
    if sign < 0:
        found.warnings.append(f"{task}: lower is better for {chosen.metric}, so its scores are read as 1 − value.")
    extras: dict[str, dict[str, Any]] = {}
    for row in bounded(_rows(source, task, checkpoint, chosen, extras), source.path):
        found.rows.append(row if sign > 0 or row.score is None else row._replace(score=1 - row.score))
    counts = _of_task(results, "n-samples", task)
    original, effective = counts.get("original"), counts.get("effective")
    if isinstance(original, int) and isinstance(effective, int) and effective < original:
        found.limited[checkpoint] = f"{task} was run on {effective:,} of its {original:,} documents (--limit)"
    return found


class _Choice:
    """Which filter and metric of a file are read, and what else it has."""

    def __init__(self, filter_name: str | None, metric: str, warnings: list[str]) -> None:
        self.filter, self.metric, self.warnings = filter_name, metric, warnings


def _choose(source: Source, options: ReadOptions, higher: dict[str, Any]) -> _Choice:
    """The filter and metric named in the options, or the first of the file with a warning about the others."""
    filters: dict[str | None, list[str]] = {}
    for _, row in source.rows():
        name = row.get("filter") if isinstance(row.get("filter"), str) else None
        if name not in filters:
            filters[name] = _metrics(row)
            if len(filters) > 50:
                raise BankError(f"{source.path}: has more than 50 filters. Is it a samples file?")
    names = [str(one) for one in filters if one is not None]
    if options.filter is not None and options.filter not in names:
        raise BankError(f"{source.path}: has no filter '{options.filter}'. It has: {listed(names) or 'none'}.")
    chosen = options.filter if options.filter is not None else next(iter(filters))
    warnings = []
    if len(filters) > 1 and options.filter is None:
        warnings.append(f"{source.path.name}: filter '{chosen}' is read, of {', '.join(names)}. Choose with --filter.")
    metrics = filters[chosen]
    if not metrics:
        raise BankError(f"{source.path}: its rows have no metric that is a number, so there is nothing to read.")
    if options.metric is not None and options.metric not in metrics:
        raise BankError(f"{source.path}: has no metric '{options.metric}'. It has: {listed(metrics)}.")
    better = [one for one in metrics if higher.get(one) is not False] or metrics
    metric = options.metric or better[0]
    if len(metrics) > 1 and options.metric is None:
        warnings.append(
            f"{source.path.name}: metric '{metric}' is read, of {', '.join(metrics)}. Choose with --metric."
        )
    return _Choice(chosen, metric, warnings)


def _metrics(row: dict[str, Any]) -> list[str]:
    """Names of the row's metrics that are numbers; versions before 0.4.9 do not list them."""
    named = row.get("metrics")
    names = named if isinstance(named, list) else [one for one in row if one not in NOT_METRICS]
    return [one for one in names if isinstance(one, str) and isinstance(row.get(one), bool | int | float)]


def _rows(source: Source, task: str, checkpoint: str, chosen: _Choice, extras: dict[str, dict[str, Any]]) -> Any:
    for where, row in source.rows():
        name = row.get("filter") if isinstance(row.get("filter"), str) else None
        if name != chosen.filter:
            continue
        if "doc_id" not in row or chosen.metric not in row:
            raise BankError(f"{where}: expected `doc_id` and the metric '{chosen.metric}' in every row.")
        document = row.get("doc_hash")
        known = document[:80] if isinstance(document, str) else None
        extra = extras.setdefault(known, {"doc_hash": known}) if known else None
        prompt = row.get("prompt_hash", document)
        yield ScoreRow(
            checkpoint,
            name_of(f"{task}/{name_of(row['doc_id'], 'document', where)}", "task", where),
            number(row[chosen.metric], f"{where}: {chosen.metric}"),
            prompt_hash=name_of(prompt[:80], "prompt hash", where) if isinstance(prompt, str) and prompt else None,
            extra=extra,
        )


def _results_beside(source: Source, stamp: str | None) -> dict[str, Any]:
    """The results of the same run: the same time in the name, else the last in the folder that are results."""
    folder = source.path.parent
    names = sorted((one for one in folder.glob("*.json") if RESULTS.fullmatch(one.name)), key=lambda one: one.name)
    same = [one for one in names if stamp and stamp in one.name]
    plain = [one for one in (folder / "results.json",) if one.is_file()]
    for path in [*same, *reversed(names), *plain][:20]:
        if source.beside(path):
            try:
                found = read_json(path, MAX_SIDE_BYTES)
            except BankError:
                continue
            if _is_results(found):
                return dict(found)
    return {}


def _model(results: dict[str, Any]) -> str | None:
    """The model's name as the results say it."""
    if isinstance(name := results.get("model_name"), str) and name:
        return name
    config = results.get("config")
    arguments = config.get("model_args") if isinstance(config, dict) else None
    if isinstance(arguments, str):
        arguments = dict(one.split("=", 1) for one in arguments.split(",") if "=" in one)
    if isinstance(arguments, dict):
        for key in ("pretrained", "path", "model"):
            if isinstance(arguments.get(key), str) and arguments[key]:
                return str(arguments[key])
    return None


def _of_task(results: dict[str, Any], key: str, task: str) -> dict[str, Any]:
    section = results.get(key)
    found = section.get(task) if isinstance(section, dict) else None
    return found if isinstance(found, dict) else {}


def _results_only(source: Source) -> FileScores:
    """Results are read with their samples; alone they hold nothing for each task."""
    if any(SAMPLES.fullmatch(one.name) for one in source.path.parent.glob("*.jsonl")):
        if source.given:
            raise BankError(
                f"{source.path}: holds aggregates only. Name the samples_*.jsonl beside it, or their folder."
            )
        return FileScores(source.path, FORMAT.name, [])
    raise BankError(
        f"{source.path}: holds lm-evaluation-harness aggregates only, no score for each task. "
        "Run it again with --log_samples and --output_path."
    )


def combine(files: list[FileScores], _: ReadOptions) -> list[FileScores]:
    """Keeps the latest of several runs of one task by one model in one folder."""
    latest: dict[tuple[str, str, str], FileScores] = {}
    for one in files:
        if one.rows:
            key = (one.rows[0].checkpoint, one.group, str(Path(one.path).parent))
            other = latest.get(key)
            if other is None or one.run > other.run:
                latest[key], older = one, other
            else:
                older = one
            if older is not None:
                latest[key].warnings.append(
                    f"{older.path}: skipped, {latest[key].path.name} is a later run of the same task."
                )
    return list(latest.values())


FORMAT = Format("lm-eval", "lm-evaluation-harness samples_*.jsonl", recognise, read, combine)

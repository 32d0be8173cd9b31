"""SWE-bench reports: `<model>.<run_id>.json`, and `report.json` of each instance in the logs.

Takes either; gives 1 for a resolved instance and 0 for every other that was submitted. Runs that failed are 0, as
the official score has it, or unscored when asked. Two run ids of one model are two samples.
"""

import sys
from pathlib import Path
from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, listed, name_of
from core.bank.readers.sources import Source
from core.errors import BankError

LISTS = ("submitted_ids", "resolved_ids", "unresolved_ids", "empty_patch_ids", "error_ids")
LOGS = "run_evaluation"


def recognise(source: Source) -> bool:
    """A report with `resolved_ids`, or one instance with `resolved`."""
    found = source.object
    return "resolved_ids" in found or _instance(found) is not None


def _instance(found: dict[str, Any]) -> tuple[str, bool] | None:
    """Id and outcome of a report of one instance."""
    if len(found) != 1:
        return None
    name, outcome = next(iter(found.items()))
    resolved = outcome.get("resolved") if isinstance(outcome, dict) else None
    return (name, resolved) if isinstance(resolved, bool) else None


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row an instance. Raises BankError for a report without ids, as some versions write it."""
    instance = _instance(source.object)
    return _read_instance(source, *instance) if instance is not None else _read_report(source, options)


def _read_report(source: Source, options: ReadOptions) -> FileScores:
    path = source.path
    ids = {name: _ids(source.object, name, path) for name in LISTS}
    known = [one for name in LISTS[1:] for one in ids[name]]
    submitted = list(dict.fromkeys(ids["submitted_ids"] or known))
    if not submitted:
        raise BankError(f"{path}: this SWE-bench report names no submitted instances, so there is nothing to score.")
    model, _, run = path.stem.rpartition(".")
    checkpoint = name_of(model or path.stem, "checkpoint", str(path))
    resolved, failed = set(ids["resolved_ids"]), set(ids["error_ids"])
    found = FileScores(path, FORMAT.name, [], run=run if model else "", group="report")
    for one in submitted:
        masked = options.mask_errors and one in failed and one not in resolved
        found.rows.append(_row(checkpoint, one, None if masked else float(one in resolved), path))
    if failed:
        how = "left unscored" if options.mask_errors else "counted as 0, as officially (--mask-errors leaves them out)"
        found.warnings.append(f"{path.name}: {len(failed)} instances failed to run, {how}.")
    strays = [one for one in known if one not in set(submitted)]
    if strays:
        found.warnings.append(f"{path.name}: {len(strays)} instances were not submitted, left out: {listed(strays)}.")
    return found


def _ids(report: dict[str, Any], name: str, path: Path) -> list[str]:
    found = report.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BankError(f"{path}: expected `{name}` to be a list of instance ids.")
    return found


def _read_instance(source: Source, name: str, resolved: bool) -> FileScores:
    """Model and run come from `<run_id>/<model>/<instance>/report.json`."""
    folders = source.path.parent.parts
    checkpoint = folders[-2] if len(folders) > 2 else source.path.stem
    run = folders[-3] if len(folders) > 3 else ""
    row = _row(name_of(checkpoint, "checkpoint", str(source.path)), name, float(resolved), source.path)
    return FileScores(source.path, FORMAT.name, [row], run=run, group="instance")


def _row(checkpoint: str, task: str, score: float | None, path: Path) -> ScoreRow:
    name = name_of(task, "task", str(path))
    return ScoreRow(checkpoint, name, score, sys.intern(name.rsplit("-", 1)[0]) if "-" in name else None)


def combine(files: list[FileScores], options: ReadOptions) -> list[FileScores]:
    """Adds instances whose run left no report, prefers reports over logs, and numbers the runs of each model."""
    logs = [one for one in files if one.group == "instance"]
    reports = [one for one in files if one.group == "report"]
    covered = {(row.checkpoint, one.run) for one in reports for row in one.rows}
    kept = [one for one in logs if (one.rows[0].checkpoint, one.run) not in covered]
    if len(kept) < len(logs):
        reports[0].warnings.append(
            f"{len(logs) - len(kept):,} reports of instances skipped: a report of the whole run is read."
        )
    if kept:
        _add_unreported(kept, options)
    found = [*reports, *kept]
    _number_runs(found)
    return found


def _add_unreported(logs: list[FileScores], options: ReadOptions) -> None:
    """A folder of an instance without `report.json` is a run that failed."""
    folders: dict[Path, FileScores] = {one.path.parent.parent: one for one in logs}
    reported = {one.path.parent for one in logs}
    without = 0
    for folder, one in folders.items():
        if LOGS not in folder.parts:
            continue
        for instance in sorted(folder.iterdir()):
            if instance.is_dir() and not instance.is_symlink() and instance not in reported:
                without += 1
                score = None if options.mask_errors else 0.0
                one.rows.append(_row(one.rows[0].checkpoint, instance.name, score, instance))
    if without:
        how = "left unscored" if options.mask_errors else "counted as 0 (--mask-errors leaves them out)"
        logs[0].warnings.append(f"{without:,} instances in the logs have no report.json: they failed to run, {how}.")
    logs[0].warnings.append(
        "The logs of single instances do not name empty patches, which count as 0 officially; "
        "the report <model>.<run_id>.json does."
    )


def _number_runs(files: list[FileScores]) -> None:
    runs: dict[str, dict[str, int]] = {}
    for one in files:
        for row in one.rows:
            runs.setdefault(row.checkpoint, {}).setdefault(one.run, len(runs[row.checkpoint]))
    for one in files:
        checkpoint = one.rows[0].checkpoint
        if len(runs[checkpoint]) > 1:
            one.rows = [row._replace(sample=runs[checkpoint][one.run]) for row in one.rows]
    for checkpoint, several in runs.items():
        if len(several) > 1:
            files[0].warnings.append(f"{checkpoint}: {len(several)} runs are read as samples: {listed(list(several))}.")


FORMAT = Format("swe-bench", "SWE-bench reports (<model>.<run_id>.json, report.json)", recognise, read, combine)

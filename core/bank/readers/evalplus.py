"""EvalPlus `*eval_results.json`: whether each sample passes the base tests and the added ones.

Takes a results file; gives a row a task and sample: 1 where it passes base and plus, or base alone when asked.
"""

import re
from pathlib import Path
from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, name_of
from core.bank.readers.sources import Source
from core.errors import BankError

SUFFIX = re.compile(r"[._-]?eval_results$")


def recognise(source: Source) -> bool:
    """`eval` with lists of samples that have a `base_status`."""
    found = source.object.get("eval")
    if not isinstance(found, dict):
        return False
    samples = next((one for one in found.values() if one), None)
    return isinstance(samples, list) and isinstance(samples[0], dict) and "base_status" in samples[0]


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a sample; base and plus means as figures. Raises BankError for a metric other than `base` and `plus`."""
    path = source.path
    if options.metric not in (None, "base", "plus"):
        raise BankError(f"{path}: EvalPlus has the metrics base and plus, not '{options.metric}'.")
    checkpoint = _whose(path)
    found = FileScores(path, FORMAT.name, [])
    outcomes: list[tuple[bool, bool | None]] = []
    for task, samples in source.object["eval"].items():
        name = name_of(task, "task", str(path))
        if not isinstance(samples, list):
            raise BankError(f"{path}: task '{name}': expected a list of samples.")
        if not samples:
            found.rows.append(ScoreRow(checkpoint, name, None))
        for at, one in enumerate(samples):
            base, plus = _outcome(one, f"{path}: task '{name}', sample {at}")
            outcomes.append((base, plus))
            wanted = base if options.metric == "base" or plus is None else base and plus
            found.rows.append(ScoreRow(checkpoint, name, float(wanted), sample=at))
    without = sum(plus is None for _, plus in outcomes)
    if without and options.metric != "base":
        if options.metric == "plus":
            raise BankError(f"{path}: {without} samples have no `plus_status`: EvalPlus was run with --base-only.")
        found.warnings.append(f"{path.name}: {without} samples have no plus_status, so the base tests alone count.")
    if outcomes:
        found.figures[checkpoint] = {"base": sum(base for base, _ in outcomes) / len(outcomes)}
        if not without:
            found.figures[checkpoint]["plus"] = sum(bool(base and plus) for base, plus in outcomes) / len(outcomes)
    return found


def _outcome(one: Any, where: str) -> tuple[bool, bool | None]:
    base = one.get("base_status") if isinstance(one, dict) else None
    plus = one.get("plus_status") if isinstance(one, dict) else None
    if not isinstance(base, str) or not isinstance(plus, str | None):
        raise BankError(f"{where}: expected `base_status` and `plus_status` to be texts such as pass.")
    return base == "pass", None if plus is None else plus == "pass"


def _whose(path: Path) -> str:
    return name_of(SUFFIX.sub("", path.stem) or path.parent.name, "checkpoint", str(path))


FORMAT = Format("evalplus", "EvalPlus *eval_results.json", recognise, read)

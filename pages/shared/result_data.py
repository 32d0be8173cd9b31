"""Reads what a finished run measured, once per change on disk: scores, standings, comparisons.

Takes a job of the ledger and its bank; gives what `core.charts.outcome` defines. Draws nothing.
"""

import functools
from pathlib import Path
from typing import Any

import streamlit as st

from core.bank import Bank, SampleRow, iterate_scores, read_scores, split_noise
from core.charts.outcome import Band, Panel, Role, Scores, standings
from core.errors import MergescopeError
from core.evals.protocol import Protocol
from core.stats import compare, mean_interval
from pages.shared.banks import FileStamp, file_stamp, mark_of, read_bank
from pages.shared.details import tasks_of
from pages.shared.noise import noise_of

NAMES: dict[str, str] = {"merge": "merge", "uniform": "uniform mean", "best_single": "best single", "base": "base"}
"""Keys of a job's result to the words on screen."""


@st.cache_resource(max_entries=32, show_spinner=False)
def _rows(path: str, stamp: FileStamp) -> list[SampleRow]:
    return read_scores(path)


def scores_by_model(path: Path) -> dict[str, dict[str, list[float]]]:
    """Model to task to the scores of its samples: without prompts and answers, since a bank's file may be long."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in iterate_scores(path):
        found.setdefault(row.checkpoint or "", {}).setdefault(row.task, []).append(row.score)
    return found


def by_task(rows: list[SampleRow]) -> dict[str, list[float]]:
    """Task to the scores of its samples."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(row.score)
    return found


def only_model(path: Path) -> list[SampleRow]:
    """The rows of a file that holds one model; raises BankError or OSError."""
    return _rows(str(path), file_stamp(path))


def bank_of(job: Any) -> Bank | None:
    """The bank a run was made from, or None where it is gone or cannot be read."""
    try:
        return read_bank(Path(job.spec["bank"]))
    except (MergescopeError, OSError):
        return None


def samples_of(job: Any, split: str) -> dict[str, dict[str, list[float]]]:
    """The run's own models on a split: word on screen to task to scores."""
    files = job.result["scores"][split]
    return {NAMES[key]: by_task(only_model(Path(files[key]))) for key in NAMES if key in files}


def panels(job: Any) -> list[Panel]:
    """One panel for each split of a finished run, in the order it was asked for."""
    bank = bank_of(job)
    files = [Path(path) for one in job.result["scores"].values() for path in one.values()]
    stamps = tuple(file_stamp(path) for path in files)
    return _panels(job, bank, job.id, stamps, mark_of(bank) if bank is not None else None)


@st.cache_resource(max_entries=16, show_spinner="Comparing")
def _panels(_job: Any, _bank: Bank | None, job_id: str, stamps: tuple[FileStamp, ...], mark: int | None) -> list[Panel]:
    return [_panel(_job, _bank, split) for split in _job.result["scores"]]


def _panel(job: Any, bank: Bank | None, split: str) -> Panel:
    """Every model of a split with its interval, and the noise where it was measured under this protocol."""
    protocol = Protocol(**job.result["protocol"])
    own = samples_of(job, split)
    best = job.result["best_single"]
    if bank is not None and not is_same_bank(bank, split, protocol, best, own["best single"]):
        bank = None
    named: dict[str, tuple[Role, Scores]] = {}
    roles: tuple[Role, ...] = ("merge", "uniform mean")
    for role in roles:
        if role in own:
            named[role] = (role, own[role])
    named[best] = ("best single", own["best single"])
    path = bank.splits[split].score_file(protocol) if bank is not None and split in bank.splits else None
    if path is not None and bank is not None:
        every = scores_by_model(path)
        for one in bank.checkpoints:
            if one.id != best and one.id in every:
                named[one.id] = ("single", every[one.id])
    base_name = bank.base.id if bank is not None else "base"
    named[base_name if base_name not in named else "the base"] = ("base", own["base"])
    scenarios = scenarios_of(job, split)
    tasks = list(own["merge"])
    noise = split_noise(bank.splits[split], protocol) if bank is not None and split in bank.splits else None
    found = standings(
        named,
        functools.partial(_interval, clusters=[scenarios[task] for task in tasks]),
        functools.partial(compare, clusters=scenarios, noise=noise),
        tasks,
    )
    chosen_here = split == job.spec["recipe"].get("split", "dev")
    return Panel(split, len(tasks), protocol.samples, chosen_here, found, _band(bank, split, protocol))


def is_same_bank(bank: Bank, split: str, protocol: Protocol, best: str, scores: Scores) -> bool:
    """False when the bank's scores of the best single are no longer those that the run was compared with.

    A bank that was made again shares nothing with the run but its name, so its other scores and its noise
    must not stand beside it. True where the bank has no scores under the protocol to tell by.
    """
    path = bank.splits[split].score_file(protocol) if split in bank.splits else None
    return path is None or scores_by_model(path).get(best) == scores


def _interval(means: Any, clusters: list[str]) -> tuple[float, float]:
    found = mean_interval(means, clusters)
    return float(found[0]), float(found[1])


def scenarios_of(job: Any, split: str) -> dict[str, str]:
    """Task to its scenario; a task without one is its own."""
    rows = only_model(Path(job.result["scores"][split]["merge"]))
    return {row.task: row.scenario or row.task for row in rows}


def _band(bank: Bank | None, split: str, protocol: Protocol) -> Band | None:
    if bank is None or split not in bank.splits or bank.splits[split].protocol != protocol:
        return None
    found = noise_of(bank, split)
    return found[0] if found else None


def task_of(job: Any, split: str, task: str) -> dict[str, Any]:
    """A task as its file has it; empty where the file is gone."""
    bank = bank_of(job)
    path = bank.splits[split].tasks_path if bank is not None and split in bank.splits else None
    try:
        return tasks_of(path).get(task, {}) if path else {}
    except (MergescopeError, OSError):
        return {}


def answers(job: Any, split: str, task: str) -> list[tuple[str, SampleRow]]:
    """Every answer of the run's own models to one task: (word on screen, row)."""
    files = job.result["scores"][split]
    return [
        (NAMES[key], row) for key in NAMES if key in files for row in only_model(Path(files[key])) if row.task == task
    ]

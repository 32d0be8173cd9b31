"""Writes a new bank from what was found and chosen: `bank.yaml` and scores in our form, whole or not at all.

Takes a `Discovery`, matched scores and choices; gives the folder. Checkpoints stay where they are; nothing is chosen
here that was not chosen before.
"""

import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.bank.align import Aligned, Problem, find_problems
from core.bank.choices import Choices, choice_of, settle
from core.bank.load import BANK_FILE, load_bank
from core.bank.match import step_of
from core.bank.model import Bank
from core.bank.readers.score_set import sample_key
from core.bank.repeats import Matched, Repeats, seed_of
from core.bank.scores import read_task_index
from core.errors import BankError, RunError
from core.files import jsonl_bytes, read_jsonl

SPLIT_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}")
MOST_LISTED = 200
"""Dropped tasks and source files named in bank.yaml; more are only counted."""


@dataclass(frozen=True)
class Member:
    """A checkpoint as bank.yaml will name it."""

    id: str
    step: int | None = None
    path: Path | None = None
    """None: scores only."""


@dataclass(frozen=True)
class Draft:
    """Everything that a new bank is written from."""

    name: str
    base: Member
    members: tuple[Member, ...]
    """The pool, in order; each has scores."""
    matched: Matched
    choices: Choices
    split: str = "dev"
    title: str = ""
    tasks_file: Path | None = None
    """Our task file, of which the tasks that are kept are copied."""

    @property
    def problems(self) -> list[Problem]:
        """What does not fit between the scores."""
        return find_problems(self.matched.scores)


def pool_of(matched: Matched, found: Sequence[Member], base: str) -> tuple[tuple[Member, ...], Member]:
    """The checkpoints that have scores, in the order of the scores, and the base.

    `found` are those with weights. `base` is the id of one of them, or of scores; `""` where there is none, which makes
    a base without weights or scores. Raises BankError where nothing is left but the base, or the base is unknown.
    """
    known = {one.id: one for one in found}
    scored = matched.scores.checkpoints
    if base and base not in known and base not in scored:
        there = ", ".join([*known, *(one for one in scored if one not in known)][:12])
        raise BankError(f"the base '{base:.80}' is not one of what was found: {there or 'nothing'}.")
    members = tuple(known.get(one) or Member(one, step_of(one)) for one in scored if one != base)
    if not members:
        raise BankError("no checkpoint has scores besides the base. A bank needs at least one.")
    name = base or next(one for one in ("base", "base model", "the base") if one not in scored)
    return members, known.get(name) or Member(name)


def write_bank(draft: Draft, out: Path) -> Bank:
    """Write the bank as a new folder and read it back.

    Raises BankError where a choice is missing or the result would be no bank, InputError kinds for what is in the way,
    and RunError where the disk refuses; then nothing is left behind.
    """
    problems = draft.problems
    aligned = settle(draft.matched.scores, problems, draft.choices)
    if not SPLIT_NAME.fullmatch(draft.split):
        raise BankError(f"'{draft.split:.80}': expected a plain name for the task set, such as dev or test.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BankError(f"{out}: is there already. Expected a new folder for the bank.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent))
    except OSError as problem:
        raise RunError(f"{out}: cannot be written ({problem.strerror}). Name another folder.") from None
    try:
        _write_files(draft, aligned, problems, working, out)
        load_bank(working)
        working.chmod(0o755)
        with suppress(OSError):
            out.rmdir()
        working.rename(out)
    except BankError as problem:
        raise BankError(str(problem).replace(str(working), str(out))) from None
    except OSError as problem:
        raise RunError(f"{out}: cannot be written ({problem.strerror}).") from None
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return load_bank(out)


def _write_files(draft: Draft, aligned: Aligned, problems: Sequence[Problem], folder: Path, out: Path) -> None:
    scores = f"scores/{draft.split}.jsonl"
    split: dict[str, Any] = {"scores": scores}
    _write(folder / scores, jsonl_bytes(_score_rows(aligned)))
    notes = list(draft.matched.notes)
    if draft.tasks_file is not None:
        if rows := _task_rows(draft.tasks_file, aligned.tasks):
            split["tasks"] = f"tasks/{draft.split}.jsonl"
            _write(folder / split["tasks"], jsonl_bytes(rows))
        else:
            notes.append(f"{draft.tasks_file} lacks some of the scored tasks, so it is not used.")
    if draft.matched.repeats is not None:
        again = list(_repeat_rows(draft.matched.repeats, aligned, notes))
        if again:
            split["replicates"] = f"scores/{draft.split}.replicates.jsonl"
            _write(folder / split["replicates"], jsonl_bytes(again))
    if _uneven(aligned):
        notes.append("The number of samples differs between tasks, so each score is kept as the mean of its samples.")
    split["alignment"] = _alignment(draft, aligned, problems)
    value = {
        "name": draft.name,
        **({"title": draft.title} if draft.title else {}),
        "kind": "measured",
        "base": _member(draft.base, out),
        "checkpoints": [_member(one, out) for one in draft.members],
        "splits": {draft.split: split},
        **({"notes": "\n".join(notes)} if notes else {}),
    }
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
    _write(folder / BANK_FILE, text.encode())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _member(one: Member, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"id": one.id}
    if one.step is not None:
        found["step"] = one.step
    if one.path is not None:
        real, home = one.path.absolute(), out.absolute()
        found["path"] = real.relative_to(home).as_posix() if real.is_relative_to(home) else str(real)
    return found


def _uneven(aligned: Aligned) -> bool:
    counts = {len(cell) for row in aligned.kept for cell in row if cell}
    return len(counts) > 1


def _score_rows(aligned: Aligned) -> Iterator[dict[str, Any]]:
    """A row a sample; a row an entry with the mean where the number of samples differs, none where it is masked."""
    samples = max((len(cell) for row in aligned.kept for cell in row), default=1)
    uneven = _uneven(aligned)
    for at, who in enumerate(aligned.checkpoints):
        for column, task in enumerate(aligned.tasks):
            mean = float(aligned.scores[at, column])
            scores = aligned.kept[at][column] or (mean,) * samples
            if math.isnan(mean):
                continue
            for sample, score in enumerate((mean,) if uneven else scores):
                row = {"checkpoint": who, "task": task, "scenario": aligned.scenarios[column]}
                yield row | {"sample": sample, "score": score}


def _task_rows(path: Path, kept: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the kept tasks, in their order; nothing where the file lacks one of them."""
    known = set(read_task_index(path)[0])
    if not set(kept) <= known:
        return []
    rows = {str(row.get("id")): row for _, row in read_jsonl(path, error=BankError)}
    return [rows[one] for one in kept]


def _repeat_rows(repeats: Repeats, aligned: Aligned, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of the runs that scored every kept task once a sample within [0, 1]; what was passed over is noted."""
    kept = set(aligned.tasks)
    runs: dict[int, dict[tuple[str, Any], float]] = {}
    bad: set[int] = set()
    for row in repeats.rows:
        run = seed_of(row) or 0
        mine = runs.setdefault(run, {})
        if row.task not in kept:
            continue
        key = (row.task, sample_key(row)[0])
        if key in mine or row.score is None or not 0 <= row.score <= 1:
            bad.add(run)
        else:
            mine[key] = row.score
    whole = {run: rows for run, rows in runs.items() if run not in bad and {task for task, _ in rows} == kept}
    if len(whole) < len(runs):
        notes.append(f"{len(runs) - len(whole)} of {len(runs)} repeats of {repeats.checkpoint} lack scores: left out.")
    if len(whole) < 2:
        return
    for run, rows in sorted(whole.items()):
        for (task, sample), score in rows.items():
            yield {"checkpoint": repeats.checkpoint, "task": task, "sample": sample or 0, "seed": run, "score": score}


def _alignment(draft: Draft, aligned: Aligned, problems: Sequence[Problem]) -> dict[str, Any]:
    matched, found = draft.matched, []
    for kind in dict.fromkeys(one.kind for one in problems):
        mine = [one for one in problems if one.kind == kind]
        tasks = len({task for one in mine for task in one.tasks})
        choice = choice_of(kind, draft.choices)
        found.append({"kind": kind, "checkpoints": len(mine), "tasks": tasks, "choice": choice})
    renamed = {name: one for name, one in matched.names.items() if name != one}
    value = {
        "problems": found,
        "tasks_found": len(matched.scores.tasks),
        "tasks_dropped": len(aligned.dropped),
        "dropped": list(aligned.dropped[:MOST_LISTED]),
        "left_out": list(matched.left_out),
        "matched": renamed,
        "sources": list(matched.scores.files[:MOST_LISTED]),
    }
    return {name: one for name, one in value.items() if one or name == "tasks_found"}

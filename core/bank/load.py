"""Reads a bank: a folder with `bank.yaml`, its task files and its score files.

Takes a path and gives a `Bank`, or one BankError that says what is wrong and where. Opens no
weights, and knows nothing about recipes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from core.bank.hub.address import parse_address
from core.bank.hub.cache import cached_folder
from core.bank.model import Alignment, Bank, Checkpoint, Split
from core.bank.schema import (
    AlignmentFile,
    BankFile,
    CheckpointFile,
    Located,
    ProtocolFile,
    SplitFile,
    parse_bank_yaml,
)
from core.bank.scores import iterate_scores, read_task_index
from core.bank.table import ScoreTable, score_table
from core.errors import BankError
from core.evals.protocol import Protocol

BANK_FILE = "bank.yaml"


class MoreScores(NamedTuple):
    """Scores of a bank under one protocol."""

    scores: np.ndarray
    """float64, shape (checkpoints, tasks), mean over samples."""
    base: np.ndarray | None
    """float64, shape (tasks,), or None where the base was not evaluated."""
    samples: int


class Replicates(NamedTuple):
    """Repeated evaluations of one checkpoint: what differs between rows is noise."""

    checkpoint: str
    scores: np.ndarray
    """float64, shape (seeds, tasks), mean over samples, in order of seed."""
    samples: int = 1
    """Fewest samples behind one of them."""


def load_bank(path: Path | str) -> Bank:
    """Read a bank from its folder, or from its `bank.yaml`.

    Raises BankError for anything that cannot be read as it stands: see `schema.py` for the YAML and
    `table.py` for the scores. A missing folder of weights is a warning, not an error. Takes about
    5 seconds a million score rows (200 checkpoints on 5,000 tasks), and 10 ms for 11 on 57.
    """
    given = Path(path)
    file = given if given.is_file() else given / BANK_FILE
    if not file.is_file():
        raise BankError(f"{given}: no bank here. Expected a folder with {BANK_FILE}, or that file itself.")
    parsed, located = parse_bank_yaml(file)
    root = file.parent.resolve()
    base = _checkpoint(parsed.base, located, ("base",))
    checkpoints = tuple(
        _checkpoint(one, located, ("checkpoints", index)) for index, one in enumerate(parsed.checkpoints)
    )
    _refuse_repeated_ids(parsed, located)
    ids = [one.id for one in checkpoints]
    splits = {name: _split(name, one, located, ids, base.id) for name, one in parsed.splits.items()}
    return Bank(
        name=parsed.name,
        root=root,
        title=parsed.title or parsed.name,
        description=parsed.description.strip(),
        kind=parsed.kind,
        base=base,
        checkpoints=checkpoints,
        splits=splits,
        notes=parsed.notes,
        facts=tuple(fact.model_dump() for fact in parsed.facts),
        warnings=(*_weight_warnings(base, checkpoints), *_score_warnings(ids, splits)),
    )


def bank_files(path: Path | str) -> tuple[Path, ...]:
    """The files that `load_bank` reads, `bank.yaml` first; it alone where it does not say what else."""
    given = Path(path)
    file = given if given.is_file() else given / BANK_FILE
    try:
        parsed, located = parse_bank_yaml(file)
        named = [one for split in parsed.splits.values() for one in _named_by(split)]
        return (file, *(_inside(one, located, ("splits",)) for one in named))
    except BankError:
        return (file,)


def _named_by(split: SplitFile) -> list[str]:
    more = (one.path for one in split.more_scores)
    return [one for one in (split.tasks, split.scores, split.replicates, *more) if one is not None]


def list_banks(roots: Sequence[Path | str]) -> list[Path]:
    """Folders with a `bank.yaml`: each root itself, or else its direct subfolders, by name."""
    found: list[Path] = []
    for root in map(Path, roots):
        if (root / BANK_FILE).is_file():
            found.append(root)
        elif root.is_dir():
            found.extend(sorted(one.parent for one in root.glob(f"*/{BANK_FILE}")))
    return list(dict.fromkeys(found))


def load_more_scores(bank: Bank, split: Split | str, protocol: Protocol) -> MoreScores:
    """The bank's scores on a split under `protocol`: its main one, or one of `more_scores`.

    Raises BankError when the bank has no scores under that protocol, or the file does not fit.
    """
    one = bank.splits[split] if isinstance(split, str) else split
    if protocol == one.protocol:
        return MoreScores(one.scores, one.base_scores, one.samples)
    path = one.score_file(protocol)
    if path is not None:
        ids = [c.id for c in bank.checkpoints]
        return _more_scores(_bank_table(path, ids, bank.base.id, one.tasks, protocol))
    labels = [known.label for known in (one.protocol, *(p for p, _ in one.more_scores)) if known]
    raise BankError(
        f"{bank.root}: no scores on split '{one.name}' under {protocol.label} seed {protocol.seed}. "
        f"The bank has: {', '.join(labels) or 'no protocol written down'}."
    )


def replicate_scores(split: Split) -> Replicates | None:
    """The repeated evaluations of one checkpoint, or None where the split names no such file.

    Raises BankError when the file holds several checkpoints, fewer than two seeds, or does not
    score every task under every seed.
    """
    path = split.replicates_path
    if path is None:
        return None
    rows = list(iterate_scores(path))
    names = sorted({row.checkpoint or "" for row in rows})
    seeds = sorted({row.seed for row in rows if row.seed is not None})
    if len(names) != 1 or not names[0]:
        raise BankError(f"{path}: expected rows of one checkpoint, found {len(names)}: {', '.join(names[:5])}.")
    if len(seeds) < 2 or any(row.seed is None for row in rows):
        raise BankError(f"{path}: expected a `seed` in every row and at least two of them, found {len(seeds)}.")
    task_at = {task: index for index, task in enumerate(split.tasks)}
    seed_at = {seed: index for index, seed in enumerate(seeds)}
    cells: dict[tuple[int, int], dict[int, float]] = {}
    for row in rows:
        if row.task not in task_at:
            raise BankError(f"{path}:{row.line}: unknown task '{row.task}': it is not in split '{split.name}'.")
        cell = cells.setdefault((seed_at[row.seed or 0], task_at[row.task]), {})
        if row.sample in cell:
            raise BankError(f"{path}:{row.line}: duplicated score of task '{row.task}' under seed {row.seed}.")
        cell[row.sample] = row.score
    scores = np.full((len(seeds), len(split.tasks)), np.nan)
    for (seed, task), cell in cells.items():
        scores[seed, task] = sum(cell[sample] for sample in sorted(cell)) / len(cell)
    if np.isnan(scores).any():
        seed, task = (int(part) for part in np.argwhere(np.isnan(scores))[0])
        raise BankError(f"{path}: missing score of task '{split.tasks[task]}' under seed {seeds[seed]}.")
    return Replicates(names[0], scores, min(map(len, cells.values())))


def _split(name: str, one: SplitFile, located: Located, checkpoints: Sequence[str], base: str) -> Split:
    at = ("splits", name)
    scores_path = _file(one.scores, located, (*at, "scores"))
    tasks_path = _file(one.tasks, located, (*at, "tasks")) if one.tasks is not None else None
    index = read_task_index(tasks_path) if tasks_path else None
    protocol = _protocol(one.protocol)
    masked = one.alignment is not None and any(each.choice == "mask" for each in one.alignment.problems)
    table = _bank_table(scores_path, checkpoints, base, index[0] if index else None, protocol, gaps=masked)
    main = _more_scores(table)
    more = tuple(
        (Protocol(**m.protocol.model_dump()), _file(m.path, located, (*at, "more_scores", index, "path")))
        for index, m in enumerate(one.more_scores)
    )
    return Split(
        name=name,
        tasks=table.tasks,
        scenarios=index[1] if index else table.scenarios,
        scores=main.scores,
        samples=main.samples,
        base_scores=main.base,
        protocol=protocol,
        tasks_path=tasks_path,
        scores_path=scores_path,
        more_scores=more,
        replicates_path=_file(one.replicates, located, (*at, "replicates")) if one.replicates else None,
        alignment=_alignment(one.alignment),
    )


def _bank_table(
    path: Path,
    checkpoints: Sequence[str],
    base: str,
    tasks: Sequence[str] | None,
    protocol: Protocol | None,
    *,
    gaps: bool = False,
) -> ScoreTable:
    """The checkpoints' scores with the base's, which may be absent, as the last row."""
    table = score_table(path, [*checkpoints, base], tasks, optional=[base], gaps=gaps)
    if protocol is not None and table.samples != protocol.samples:
        raise BankError(
            f"{path}: has {table.samples} samples a task, but its protocol in {BANK_FILE} says {protocol.samples}. "
            f"Correct whichever is wrong."
        )
    table.means.flags.writeable = False
    return table


def _more_scores(table: ScoreTable) -> MoreScores:
    return MoreScores(table.means[:-1], table.means[-1] if table.present[-1] else None, table.samples)


def _protocol(one: ProtocolFile | None) -> Protocol | None:
    return Protocol(**one.model_dump()) if one else None


def _alignment(one: AlignmentFile | None) -> Alignment | None:
    if one is None:
        return None
    problems = tuple((each.kind, each.checkpoints, each.tasks, each.choice) for each in one.problems)
    return Alignment(**{**dict(one), "problems": problems})


def _checkpoint(one: CheckpointFile, located: Located, at: tuple[str | int, ...]) -> Checkpoint:
    if one.hub is not None:
        where = f"{located.at((*at, 'hub'))}: '{'.'.join(map(str, (*at, 'hub')))}'"
        if one.path is not None:
            raise BankError(f"{where}: expected either 'path' or 'hub', found both. Remove one.")
        try:
            address = parse_address(f"hf://{one.hub}")
            return Checkpoint(id=one.id, step=one.step, path=cached_folder(address), hub=str(address))
        except BankError as problem:
            raise BankError(f"{where}: {problem}") from None
    path = _inside(one.path, located, (*at, "path")) if one.path is not None else None
    return Checkpoint(id=one.id, step=one.step, path=path)


def _file(text: str, located: Located, at: tuple[str | int, ...]) -> Path:
    path = _inside(text, located, at)
    if not path.is_file():
        raise BankError(f"{located.at(at)}: '{'.'.join(map(str, at))}': no file at {path}.")
    return path


def _inside(text: str, located: Located, at: tuple[str | int, ...]) -> Path:
    """An absolute path as written, or a relative one that stays inside the bank's folder."""
    root = located.where.parent.resolve()
    where = f"{located.at(at)}: '{'.'.join(map(str, at))}'"
    if not text or "\0" in text:
        raise BankError(f"{where}: expected a path, found {text!r}.")
    if Path(text).is_absolute():
        return Path(text)
    if not (root / text).resolve().is_relative_to(root):
        raise BankError(
            f"{where}: '{text}' leads out of the bank's folder {root}. Write the absolute path if that is meant."
        )
    return root / text


def _refuse_repeated_ids(parsed: BankFile, located: Located) -> None:
    seen = {parsed.base.id: "the base"}
    for index, one in enumerate(parsed.checkpoints):
        if one.id in seen:
            at = located.at(("checkpoints", index, "id"))
            raise BankError(f"{at}: checkpoint id '{one.id}' is used twice (also by {seen[one.id]}). Ids are unique.")
        seen[one.id] = f"checkpoint {index + 1} of the list"


def _weight_warnings(base: Checkpoint, checkpoints: Sequence[Checkpoint]) -> list[str]:
    everyone = (base, *checkpoints)
    without = [one.id for one in everyone if one.path is None]
    warnings: list[str] = []
    if len(without) == len(everyone):
        warnings.append("Scores only: this bank names no folders of weights, so its recipes cannot be merged here.")
    elif without:
        warnings.append(f"No folder of weights for {', '.join(without)}: recipes that need them cannot be merged.")
    warnings.extend(
        f"{one.id}: not downloaded yet. Run `python -m core hub download {one.hub}`; its scores can be explored."
        if one.hub
        else f"{one.id}: no folder of weights at {one.path}. Expected a checkpoint folder; its scores can be explored."
        for one in everyone
        if one.path is not None and not one.path.is_dir()
    )
    return warnings


def _score_warnings(ids: Sequence[str], splits: dict[str, Split]) -> list[str]:
    warnings: list[str] = []
    for name, split in splits.items():
        scores = split.scores
        warnings.extend(
            f"{name}: checkpoint {ids[int(row)]} scores 0 on every task; its similarity to every other is taken as 0."
            for row in np.flatnonzero(~np.nan_to_num(scores).any(axis=1))
        )
        if gaps := int(np.isnan(scores).sum()):
            warnings.append(
                f"{name}: {gaps:,} of {scores.size:,} scores are missing and were masked: means are over the tasks "
                "that a checkpoint has, similarities over those that both have."
            )
        constant = int((scores == scores[:1]).all(axis=0).sum())
        if len(ids) > 1 and constant:
            warnings.append(
                f"{name}: {constant} of {len(split.tasks)} tasks have the same score for every checkpoint, "
                f"so they cannot tell the checkpoints apart."
            )
        unique, first = np.unique(scores, axis=0, return_index=True)
        if len(unique) < len(ids):
            twins = [ids[row] for row in range(len(ids)) if row not in set(first.tolist())]
            warnings.append(f"{name}: {', '.join(twins)} scored exactly as an earlier checkpoint on every task.")
    return warnings

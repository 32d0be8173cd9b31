"""Repeated evaluations among the scores of several checkpoints: set apart, since what differs between them is noise.

Takes a `ScoreSet` and a mapping of its names to checkpoints; gives the scores to compare, one evaluation a checkpoint,
and the most repeated checkpoint's runs. Knows nothing about files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.bank.match import LEFT_OUT, SCORES_ONLY, Target, step_of
from core.bank.readers.common import ScoreRow, listed
from core.bank.readers.score_set import ScoreSet
from core.bank.readers.walk import natural
from core.errors import BankError

Seed = int | None


class Repeats(NamedTuple):
    """Every run of the checkpoint that was evaluated most often."""

    checkpoint: str
    rows: tuple[ScoreRow, ...]
    """Each with a `seed` in `extra` that says which run it is of."""
    runs: int


@dataclass(frozen=True)
class Matched:
    """Scores under the names of checkpoints."""

    scores: ScoreSet
    """One evaluation of each checkpoint, checkpoints in the order of the bank."""
    repeats: Repeats | None
    names: Mapping[str, str]
    """Name in the score files to checkpoint id, of those that are used."""
    left_out: tuple[str, ...]
    scores_only: tuple[str, ...]
    """Ids of checkpoints without weights."""
    notes: tuple[str, ...] = ()
    """What was done with repeated evaluations, in words."""


def matched_scores(scores: ScoreSet, mapping: Mapping[str, str], targets: Sequence[Target]) -> Matched:
    """The scores under the mapping: name in the score files to checkpoint id, `""` left out, `"+"` without weights.

    Several names of one checkpoint are its repeated evaluations. So are rows that differ in `seed`, where one
    checkpoint has more seeds than another. Raises BankError where nothing is left, or a name without weights is also a
    checkpoint's.
    """
    known = [one.id for one in targets]
    ids = {name: _id(name, mapping.get(name, LEFT_OUT), known) for name in scores.checkpoints}
    used = {name: one for name, one in ids.items() if one}
    if not used:
        raise BankError(f"no scores are left: {len(ids)} names in the score files, none of them used for a checkpoint.")
    order = {one: at for at, one in enumerate(known)}
    alone = tuple(dict.fromkeys(one for name, one in used.items() if mapping[name] == SCORES_ONLY))
    order |= {one: len(known) + at for at, one in enumerate(sorted(alone, key=_by_step))}
    rows = sorted(_renamed(scores.rows, used), key=lambda row: order[row.checkpoint])
    renamed = replace(
        scores,
        rows=rows,
        figures={used[name]: values for name, values in scores.figures.items() if name in used},
        limited={used[name]: sentence for name, sentence in scores.limited.items() if name in used},
    )
    main, repeats, notes = split_repeats(renamed)
    left = tuple(name for name, one in ids.items() if not one)
    return Matched(main, repeats, used, left, alone, tuple(notes))


def _by_step(name: str) -> tuple[bool, int, list[tuple[int, int, str]]]:
    step = step_of(name)
    return step is None, step or 0, natural(name)


def _id(name: str, chosen: str, known: Sequence[str]) -> str:
    if chosen != SCORES_ONLY:
        if chosen and chosen not in known:
            raise BankError(
                f"scores '{name}' are matched to '{chosen}', which is not one of {listed(known) or 'none'}."
            )
        return chosen
    if name in known:
        raise BankError(f"scores '{name}' cannot stand without weights: a checkpoint has that name. Match them to it.")
    return name


def _renamed(rows: Sequence[ScoreRow], used: Mapping[str, str]) -> list[ScoreRow]:
    """Rows under their checkpoint's id; where several names are one checkpoint, each (name, seed) is a run."""
    names: dict[str, list[str]] = {}
    for name, one in used.items():
        names.setdefault(one, []).append(name)
    several = {one for one, found in names.items() if len(found) > 1}
    runs: dict[str, dict[tuple[str, Seed], int]] = {}
    found = []
    for row in rows:
        if row.checkpoint not in used:
            continue
        one = used[row.checkpoint]
        if one in several:
            mine = runs.setdefault(one, {})
            run = mine.setdefault((row.checkpoint, seed_of(row)), len(mine))
            found.append(row._replace(checkpoint=one, extra={**(row.extra or {}), "seed": run}))
        else:
            found.append(row._replace(checkpoint=one))
    return found


def seed_of(row: ScoreRow) -> Seed:
    """The seed of a row, or None."""
    return row.extra.get("seed") if row.extra else None


def split_repeats(scores: ScoreSet) -> tuple[ScoreSet, Repeats | None, list[str]]:
    """One evaluation of each checkpoint, the runs of the most repeated one, and what was done in words.

    As many seeds are kept of each checkpoint as the one with the fewest has, the lowest first: those are samples of
    one evaluation. A checkpoint with more was evaluated again.
    """
    seeds: dict[str, set[Seed]] = {}
    for row in scores.rows:
        seeds.setdefault(row.checkpoint, set()).add(seed_of(row))
    counts = {one: len(found) for one, found in seeds.items()}
    least, most = min(counts.values(), default=0), max(counts.values(), default=0)
    if most == least:
        return scores, None, []
    first = {
        one: set(sorted(found, key=lambda seed: -1 if seed is None else seed)[:least]) for one, found in seeds.items()
    }
    kept = [row for row in scores.rows if seed_of(row) in first[row.checkpoint]]
    who = next(one for one, count in counts.items() if count == most)
    repeated = tuple(
        row._replace(extra={**(row.extra or {}), "seed": seed_of(row) or 0})
        for row in scores.rows
        if row.checkpoint == who
    )
    others = [one for one, count in counts.items() if count > least and one != who]
    first_ones = "the first counts as its score" if least == 1 else f"the first {least} count as its samples"
    notes = [f"{who} was evaluated {most} times: {first_ones}, all of them give the noise."]
    if others:
        notes.append(f"Of {listed(others)} only the first evaluation is used; {who} was repeated most.")
    return replace(scores, rows=kept), Repeats(who, repeated, most), notes

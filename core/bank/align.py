"""Whether scores of several checkpoints may be compared task by task: what does not fit, and what is done about it.

Takes a `ScoreSet`; gives problems in plain words, and a matrix once every choice they ask for was made. Never fills
in a score, and never drops one, that was not asked for; the choices come with the result, to be kept in the recipe.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from core.bank.readers.common import ScoreRow, listed
from core.bank.readers.score_set import ScoreSet, sample_key
from core.bank.schema import ProblemKind as Kind
from core.errors import BankError

DUPLICATES = ("first", "mean")
OUTSIDE = ("clamp", "mask")
PROMPTS = ("same", "any")
HOW = "intersect (tasks that all have), mask (leave gaps) or impute:VALUE (fill gaps with a score)"


class Problem(NamedTuple):
    """One way in which a checkpoint's scores do not fit the others'."""

    kind: Kind
    checkpoint: str
    tasks: tuple[str, ...]
    """The tasks it is about; all of the checkpoint's for a limited run."""
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self._asdict(), "tasks": list(self.tasks)}


@dataclass(frozen=True, eq=False)
class Aligned:
    """Scores that may be compared, and how they came to be."""

    checkpoints: tuple[str, ...]
    tasks: tuple[str, ...]
    scenarios: tuple[str, ...]
    scores: np.ndarray
    """float64, shape (checkpoints, tasks), mean over samples, in [0, 1]; NaN where masked."""
    samples: np.ndarray
    """int64, shape (checkpoints, tasks): scored samples behind each entry; 0 where masked or imputed."""
    choices: dict[str, str | float]
    """What was chosen, as plain values for a recipe or bank.yaml."""
    problems: tuple[Problem, ...]
    """What was found before anything was resolved."""
    dropped: tuple[str, ...]
    """Tasks that the choice left out."""
    kept: tuple[tuple[tuple[float, ...], ...], ...] = ()
    """The single scores behind each entry, by checkpoint and task; empty where masked or imputed."""


def find_problems(scores: ScoreSet) -> list[Problem]:
    """Every way in which the checkpoints' scores do not fit each other, checkpoint by checkpoint.

    An empty list means that each has the same tasks in the same order, asked in the same words, each scored the same
    number of times, once a sample, in [0, 1]. The order is compared with the first checkpoint's; a prompt with the
    one that most checkpoints were asked.
    """
    usual = _usual_prompts(scores)
    return [problem for checkpoint in scores.checkpoints for problem in _problems_of(scores, checkpoint, usual)]


def _problems_of(scores: ScoreSet, checkpoint: str, usual: dict[str, "_Prompt"]) -> Iterator[Problem]:
    def tell(kind: Kind, tasks: Sequence[str], sentence: str) -> Iterator[Problem]:
        if tasks:
            counted = sentence.format(n=f"{len(tasks):,} task{'s' if len(tasks) != 1 else ''}")
            yield Problem(kind, checkpoint, tuple(tasks), f"{checkpoint}: {counted}: {listed(list(tasks))}.")

    cells = scores.cells[checkpoint]
    yield from tell("missing", [one for one in scores.tasks if one not in cells], "has no score for {n}")
    yield from tell("order", _moved(scores, checkpoint), "has {n} in another place than " + scores.checkpoints[0])
    yield from tell("duplicated", [one for one, rows in cells.items() if _repeated(rows)], "scored {n} more than once")
    other = [one for one, rows in cells.items() if _differs(_prompt(rows), usual.get(one))]
    documents = [one for one in other if _differs(_prompt(cells[one])[1:], usual[one][1:])]
    yield from tell("prompts", documents, "was asked something else on {n}")
    worded = [one for one in other if one not in set(documents)]
    yield from tell("prompts", worded, "was asked in other words on {n}")
    outside = [one for one, rows in cells.items() if any(_is_outside(row) for row in rows)]
    yield from tell("outside", outside, "has scores outside [0, 1] on {n}")
    unscored = [one for one, rows in cells.items() if any(row.score is None for row in rows)]
    yield from tell("unscored", unscored, "has samples without a score (NaN or empty) on {n}")
    fewer = [one for one, rows in cells.items() if len({sample_key(row) for row in rows}) < scores.samples]
    yield from tell("samples", fewer, f"has fewer than {scores.samples} samples on {{n}}")
    if sentence := scores.limited.get(checkpoint):
        yield Problem("limited", checkpoint, tuple(cells), f"{checkpoint}: {sentence}.")


_Prompt = tuple[str | None, Any]
"""Hash of the prompt, and of the document where the format has it."""


def _prompt(rows: Sequence[ScoreRow]) -> _Prompt:
    row = rows[0]
    return row.prompt_hash, row.extra.get("doc_hash") if row.extra else None


def _differs(one: Sequence[Any], other: Sequence[Any] | None) -> bool:
    """True where both say a hash and the two are not equal."""
    if other is None:
        return False
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _usual_prompts(scores: ScoreSet) -> dict[str, _Prompt]:
    """What most checkpoints were asked as each task; of a tie, what the earlier checkpoint was."""
    found: dict[str, Counter[_Prompt]] = {}
    for cells in scores.cells.values():
        for task, rows in cells.items():
            prompt = _prompt(rows)
            if prompt != (None, None):
                found.setdefault(task, Counter())[prompt] += 1
    return {task: counts.most_common(1)[0][0] for task, counts in found.items()}


def _moved(scores: ScoreSet, checkpoint: str) -> list[str]:
    """Tasks at another place than with the first checkpoint, among those that both have."""
    first, cells = scores.cells[scores.checkpoints[0]], scores.cells[checkpoint]
    mine = [one for one in cells if one in first]
    theirs = [one for one in first if one in cells]
    return [one for one, other in zip(mine, theirs, strict=True) if one != other]


def _repeated(rows: Sequence[ScoreRow]) -> bool:
    return len(rows) > 1 and len({sample_key(row) for row in rows}) < len(rows)


def _is_outside(row: ScoreRow) -> bool:
    return row.score is not None and not 0 <= row.score <= 1


def align(
    scores: ScoreSet,
    choice: str,
    *,
    duplicates: str | None = None,
    outside: str | None = None,
    prompts: str = "same",
) -> Aligned:
    """The matrix of comparable scores under explicit choices.

    `choice` settles tasks that some checkpoint lacks, has not scored, or was asked differently: `intersect` keeps the
    tasks that all have, and of each as many samples as the checkpoint with the fewest; `mask` leaves NaN;
    `impute:VALUE` puts that score in, also for single samples without one. `duplicates` settles a sample that is
    scored twice: `first` or `mean`. `outside` settles scores outside [0, 1]: `clamp`, or `mask` as if not scored.
    `prompts="any"` compares tasks although they were asked differently. Tasks are in the order of first appearance.
    Raises BankError for a choice that is unknown or that was needed and not made, and where nothing is left.
    """
    how, value = _parse(choice)
    problems = tuple(find_problems(scores))
    _check_choices(problems, duplicates, outside, prompts)
    kept = _Settle(duplicates, outside, value).cells(scores, _usual_prompts(scores) if prompts == "same" else {})
    counts = np.array([[len(cell) for cell in row] for row in kept], dtype=np.int64).reshape(len(kept), -1)
    whole: np.ndarray = np.asarray(counts.all(axis=0)) if how == "intersect" else np.ones(len(scores.tasks), dtype=bool)
    if not whole.any():
        raise BankError(_nothing_left(scores, counts, problems))
    columns = [int(one) for one in np.flatnonzero(whole)]
    least = counts.min(axis=0) if how == "intersect" else counts.max(axis=0)
    return Aligned(
        checkpoints=scores.checkpoints,
        tasks=tuple(scores.tasks[one] for one in columns),
        scenarios=tuple(scores.scenarios[scores.tasks[one]] for one in columns),
        scores=_means(kept, columns, least, np.nan if value is None else value),
        samples=np.minimum(counts, least)[:, columns],
        choices=_choices(choice.strip(), duplicates, outside, prompts, problems),
        problems=problems,
        dropped=tuple(task for task, keep in zip(scores.tasks, whole, strict=True) if not keep),
        kept=tuple(tuple(tuple(row[one][: int(least[one])]) for one in columns) for row in kept),
    )


def _means(
    kept: Sequence[Sequence[list[float]]], columns: Sequence[int], least: np.ndarray, empty: float
) -> np.ndarray:
    """Mean of the first samples of each cell, as many as `least` says of its task; `empty` where there are none."""
    means = np.full((len(kept), len(columns)), empty)
    for row, cells in enumerate(kept):
        for at, column in enumerate(columns):
            if cell := cells[column][: int(least[column])]:
                means[row, at] = math.fsum(cell) / len(cell)
    return means


def _parse(choice: str) -> tuple[str, float | None]:
    how, colon, text = choice.strip().partition(":")
    if how in ("intersect", "mask") and not colon:
        return how, None
    try:
        value = float(text) if how == "impute" else math.nan
    except ValueError:
        value = math.nan
    if 0 <= value <= 1:
        return how, value
    raise BankError(f"unknown choice '{choice:.80}' for tasks that do not fit. Expected {HOW}, with VALUE in [0, 1].")


def _check_choices(problems: Sequence[Problem], duplicates: str | None, outside: str | None, prompts: str) -> None:
    for name, given, known, kind in (
        ("duplicates", duplicates, DUPLICATES, "duplicated"),
        ("outside", outside, OUTSIDE, "outside"),
        ("prompts", prompts, PROMPTS, None),
    ):
        if given is not None and given not in known:
            raise BankError(f"unknown choice '{given:.80}' for {name}. Expected {' or '.join(known)}.")
        needed = [one for one in problems if one.kind == kind]
        if needed and given is None:
            raise BankError(f"{needed[0].sentence} Choose what to do with them: {name} {' or '.join(known)}.")


class _Settle:
    """The scores of one cell under the choices; empty where it cannot be compared."""

    def __init__(self, duplicates: str | None, outside: str | None, value: float | None) -> None:
        self._duplicates, self._outside, self._value = duplicates, outside, value

    def cells(self, scores: ScoreSet, usual: dict[str, _Prompt]) -> list[list[list[float]]]:
        """As `cell`, for every checkpoint and task."""
        return [
            [self.cell(cells.get(task, []), usual.get(task)) for task in scores.tasks]
            for cells in scores.cells.values()
        ]

    def cell(self, rows: Sequence[ScoreRow], usual: _Prompt | None) -> list[float]:
        """One score a sample, in the order of sample numbers."""
        if not rows or _differs(_prompt(rows), usual):
            return []
        samples: dict[Any, list[float | None]] = {}
        for row in rows:
            samples.setdefault(sample_key(row), []).append(self._score(row))
        order = sorted(samples, key=lambda key: tuple(-1 if part is None else part for part in key))
        scores = [self._one(samples[key]) for key in order]
        if all(one is None for one in scores):
            return []
        return [one for one in (self._value if one is None else one for one in scores) if one is not None]

    def _score(self, row: ScoreRow) -> float | None:
        if not _is_outside(row):
            return row.score
        return None if self._outside == "mask" else min(max(row.score or 0.0, 0.0), 1.0)

    def _one(self, scores: Sequence[float | None]) -> float | None:
        if self._duplicates != "mean":
            return scores[0]
        scored = [one for one in scores if one is not None]
        return math.fsum(scored) / len(scored) if scored else None


def _choices(
    choice: str, duplicates: str | None, outside: str | None, prompts: str, problems: Sequence[Problem]
) -> dict[str, str | float]:
    """The choices that mattered, and `tasks` always."""
    kinds = {one.kind for one in problems}
    found: dict[str, str | float] = {"tasks": choice}
    if duplicates is not None and "duplicated" in kinds:
        found["duplicates"] = duplicates
    if outside is not None and "outside" in kinds:
        found["outside"] = outside
    if "prompts" in kinds:
        found["prompts"] = prompts
    return found


def _nothing_left(scores: ScoreSet, counts: np.ndarray, problems: Sequence[Problem]) -> str:
    """Why no task is common to all: who has the fewest, and whether prompts are the reason."""
    each = (counts > 0).sum(axis=1)
    least = int(each.argmin())
    hint = ""
    if any(one.kind == "prompts" for one in problems):
        hint = " Prompts differ between checkpoints; prompts any compares them all the same."
    return (
        f"no task is left that all {len(scores.checkpoints)} checkpoints have scored alike: "
        f"{scores.checkpoints[least]} has {int(each[least])} of {len(scores.tasks)}. Leave it out, or mask.{hint}"
    )

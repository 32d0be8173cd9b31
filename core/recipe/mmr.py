"""Maximal marginal relevance: picks that are strong and unlike each other, with every step's reasons.

Pure numpy: takes relevances and similarities, gives indices and a trace. Knows nothing about banks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import RecipeError

TIE_TOLERANCE = 1e-12
"""Scores closer than this are a tie. Identical vectors may differ by about 1e-16 because a matrix
product sums in an order that depends on the row; real differences of means are above 1e-7."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Every checkpoint that was still open at one step, in bank order; all arrays of one length."""

    index: np.ndarray
    """int, position in the bank."""
    score: np.ndarray
    """`relevance_term - penalty_term`."""
    relevance_term: np.ndarray
    """λ·q."""
    penalty_term: np.ndarray
    """(1−λ)·max similarity to the picks so far; 0 at the first step."""
    max_similarity: np.ndarray
    """To the picks so far; 0 at the first step."""
    most_similar: np.ndarray
    """int, the pick that max_similarity is to; −1 at the first step."""


@dataclass(frozen=True, eq=False)
class Step:
    """One pick and why."""

    order: int
    """1 for the first pick."""
    index: int
    """Position of the pick in the bank."""
    score: float
    relevance_term: float
    penalty_term: float
    max_similarity: float
    """To the earlier picks; 0 at the first step."""
    most_similar_index: int | None
    """The earlier pick that the penalty is due to; None at the first step."""
    margin: float | None
    """Score above the runner-up: 0 at a tie, None for a pin or where nothing else was open."""
    runner_up: int | None
    ties: tuple[int, ...]
    """Others with the same score, which lost only by coming later in the bank."""
    pinned: bool
    candidates: Candidates


@dataclass(frozen=True, eq=False)
class MmrTrace:
    """All steps of one selection."""

    lam: float
    steps: tuple[Step, ...]

    @property
    def picks(self) -> tuple[int, ...]:
        """Positions in the bank, in pick order."""
        return tuple(step.index for step in self.steps)


def mmr(
    relevance: np.ndarray,
    similarity: np.ndarray | Callable[[int], np.ndarray],
    lam: float,
    k: int,
    *,
    pin: Sequence[int] = (),
    ban: Sequence[int] = (),
) -> MmrTrace:
    """Pick `k` of the pool by maximal marginal relevance (Carbonell & Goldstein 1998).

    Each step takes the open candidate with the largest `λ·q_i − (1−λ)·max_{j picked} sim(i, j)`. The
    first has no penalty, so it is the one with the highest q, whatever λ is. Scores within
    TIE_TOLERANCE of the best are ties, and the earliest in the bank wins. `relevance` has shape (C,);
    `similarity` is a matrix of shape (C, C), or a function from a position to its row, which is then
    asked only for the rows of picks. Pins come first, in the order given; bans are never picked.
    Raises RecipeError for λ outside [0, 1], k outside the pool, a position that does not exist or is
    both pinned and banned, or a value that is not finite.
    """
    q = np.asarray(relevance, dtype=np.float64)
    row_of = _rows(similarity, len(q))
    is_open = _open_candidates(q, lam, k, pin, ban)
    max_similarity = np.zeros(len(q))
    most_similar = np.full(len(q), -1)
    steps: list[Step] = []
    for order in range(1, k + 1):
        candidates = _candidates(np.flatnonzero(is_open), q, lam, max_similarity, most_similar)
        pinned = pin[order - 1] if order <= len(pin) else None
        step = _choose(order, candidates, q if order == 1 else None, pinned)
        steps.append(step)
        is_open[step.index] = False
        if order < k:
            _update(max_similarity, most_similar, row_of(step.index), step.index)
    return MmrTrace(lam, tuple(steps))


def _rows(similarity: np.ndarray | Callable[[int], np.ndarray], size: int) -> Callable[[int], np.ndarray]:
    """A function from position to row, which checks the row."""
    if isinstance(similarity, np.ndarray) and similarity.shape != (size, size):
        raise RecipeError(f"expected similarities of shape ({size}, {size}), found {similarity.shape}.")

    def row(index: int) -> np.ndarray:
        found = similarity[index] if isinstance(similarity, np.ndarray) else similarity(index)
        if not np.isfinite(found).all():
            raise RecipeError(f"the similarity of checkpoint {index} to others contains NaN or infinity.")
        return found

    return row


def _open_candidates(q: np.ndarray, lam: float, k: int, pin: Sequence[int], ban: Sequence[int]) -> np.ndarray:
    """Which positions may be picked, shape (C,), after checking everything else."""
    if q.ndim != 1 or not np.isfinite(q).all():
        raise RecipeError("relevances must be one finite number a checkpoint; found NaN, infinity or another shape.")
    if not (math.isfinite(lam) and 0 <= lam <= 1):
        raise RecipeError(f"λ must be in [0, 1], found {lam!r}.")
    outside = [one for one in (*pin, *ban) if not 0 <= one < len(q)]
    if outside:
        raise RecipeError(f"no checkpoint at position {outside[0]}: the pool has {len(q)}.")
    if len(set(pin)) < len(pin) or set(pin) & set(ban):
        raise RecipeError("a checkpoint is pinned twice, or both pinned and banned.")
    is_open = np.ones(len(q), dtype=bool)
    is_open[list(ban)] = False
    if not max(1, len(pin)) <= k <= int(is_open.sum()):
        raise RecipeError(
            f"K must be from {max(1, len(pin))} (the pins, at least 1) to {int(is_open.sum())} "
            f"(the pool less its bans), found {k}."
        )
    return is_open


def _candidates(
    index: np.ndarray, q: np.ndarray, lam: float, max_similarity: np.ndarray, most_similar: np.ndarray
) -> Candidates:
    relevance_term = lam * q[index]
    penalty_term = (1.0 - lam) * max_similarity[index]
    return Candidates(
        index, relevance_term - penalty_term, relevance_term, penalty_term, max_similarity[index], most_similar[index]
    )


def _choose(order: int, candidates: Candidates, first_by: np.ndarray | None, pinned: int | None) -> Step:
    """The pick among candidates: the pin, or the best by `first_by` (q, at the first step) or score."""
    key = candidates.score if first_by is None else first_by[candidates.index]
    tied = np.flatnonzero(key >= key.max() - TIE_TOLERANCE)
    at = int(tied[0]) if pinned is None else int(np.searchsorted(candidates.index, pinned))
    ties: tuple[int, ...] = ()
    runner_up, margin = None, None
    if pinned is None and len(key) > 1:
        ties = tuple(int(candidates.index[other]) for other in tied[1:])
        rest = key.copy()
        rest[at] = -np.inf
        second = int(tied[1]) if ties else int(rest.argmax())
        runner_up = int(candidates.index[second])
        margin = 0.0 if ties else float(candidates.score[at] - candidates.score[second])
    nearest = int(candidates.most_similar[at])
    return Step(
        order=order,
        index=int(candidates.index[at]),
        score=float(candidates.score[at]),
        relevance_term=float(candidates.relevance_term[at]),
        penalty_term=float(candidates.penalty_term[at]),
        max_similarity=float(candidates.max_similarity[at]),
        most_similar_index=None if nearest < 0 else nearest,
        margin=margin,
        runner_up=runner_up,
        ties=ties,
        pinned=pinned is not None,
        candidates=candidates,
    )


def _update(max_similarity: np.ndarray, most_similar: np.ndarray, row: np.ndarray, picked: int) -> None:
    """Fold one more pick's row in; on equal similarity the earlier pick stays the nearest."""
    first = most_similar < 0
    most_similar[first | (row > max_similarity + TIE_TOLERANCE)] = picked
    np.copyto(max_similarity, row, where=first | (row > max_similarity))

"""Every λ at which the picks change, computed exactly: picks are piecewise constant in λ.

For fixed earlier picks a candidate's score λ·q − (1−λ)·m is a straight line in λ, so the winners of
a step are an upper envelope of lines; each of its pieces is followed through the next step. Takes a
bank and a recipe (whose own λ is ignored); knows nothing about drawing.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from core.bank.model import Bank
from core.recipe.mmr import TIE_TOLERANCE, mmr
from core.recipe.model import Recipe
from core.recipe.select import relevances, similarity_rows
from core.recipe.validate import validate

Picks = tuple[int, ...]
_SAME_LAMBDA = 1e-12
"""λ values closer than this are one point: below the rounding of a crossing of two lines."""


class Interval(NamedTuple):
    """The picks for every λ strictly between `low` and `high`, as positions in pick order."""

    low: float
    high: float
    picks: Picks


class Switch(NamedTuple):
    """From `lam` up to the next switch, these checkpoints are picked, in this order."""

    lam: float
    picks: tuple[str, ...]


@dataclass(frozen=True)
class LambdaPath:
    """The picks for every λ in [0, 1]: open intervals, and the points that bound them.

    At a bounding point two candidates tie and the earlier in the bank wins, so the picks there may
    be those of either side, or (three tied, or at λ = 0 and 1) of neither.
    """

    intervals: tuple[Interval, ...]
    points: tuple[tuple[float, Picks], ...]
    """λ and picks at 0, at every bound between intervals, and at 1."""

    def at(self, lam: float) -> Picks:
        """The picks that `mmr` gives at `lam`; raises ValueError outside [0, 1]."""
        if not 0 <= lam <= 1:
            raise ValueError(f"λ must be in [0, 1], found {lam!r}.")
        bounds = [point for point, _ in self.points]
        at = bisect_left(bounds, lam - _SAME_LAMBDA)
        if abs(bounds[at] - lam) <= _SAME_LAMBDA:
            return self.points[at][1]
        return self.intervals[at - 1].picks


def lambda_path(
    relevance: np.ndarray,
    row_of: Callable[[int], np.ndarray],
    k: int,
    *,
    pin: Sequence[int] = (),
    ban: Sequence[int] = (),
) -> LambdaPath:
    """Picks for every λ in [0, 1]; arguments as in `mmr`. Exact up to the rounding of a division.

    Work is about (number of intervals) · k · C, and each similarity row is asked for once by a
    caching `row_of`.
    """
    intervals = lambda_intervals(relevance, row_of, k, pin=pin, ban=ban)
    bounds = [0.0, *(one.low for one in intervals[1:]), 1.0]
    points = tuple((lam, mmr(relevance, row_of, lam, k, pin=pin, ban=ban).picks) for lam in bounds)
    return LambdaPath(intervals, points)


def lambda_intervals(
    relevance: np.ndarray,
    row_of: Callable[[int], np.ndarray],
    k: int,
    *,
    pin: Sequence[int] = (),
    ban: Sequence[int] = (),
) -> tuple[Interval, ...]:
    """The open intervals of `lambda_path`, without the picks at the points between them."""
    q = np.asarray(relevance, dtype=np.float64)
    # mmr checks the input; the pins, or else the first pick, are the same for every λ.
    first = mmr(q, row_of, 0.5, k, pin=pin, ban=ban).picks[: max(1, len(pin))]
    closed = np.zeros(len(q), dtype=bool)
    closed[list(ban)] = True
    return tuple(_follow(q, row_of, k, first, closed))


def lambda_switch_points(bank: Bank, recipe: Recipe) -> list[Switch]:
    """Where in [0, 1] the picks change, for the recipe's other knobs, ordered from λ = 0.

    Each entry holds the lower end of an interval and the checkpoints picked inside it, in order.
    The recipe's own λ is ignored. Raises RecipeError when the recipe does not fit the bank.
    """
    ids = [one.id for one in bank.checkpoints]
    pool = _pool(bank, recipe)
    found = lambda_intervals(pool.relevance, pool.row_of, recipe.k, pin=pool.pin, ban=pool.ban)
    return [Switch(one.low, tuple(ids[pick] for pick in one.picks)) for one in found]


def bank_path(bank: Bank, recipe: Recipe) -> LambdaPath:
    """`lambda_path` for a bank and a recipe; positions are in bank order."""
    pool = _pool(bank, recipe)
    return lambda_path(pool.relevance, pool.row_of, recipe.k, pin=pool.pin, ban=pool.ban)


class _Pool(NamedTuple):
    relevance: np.ndarray
    row_of: Callable[[int], np.ndarray]
    pin: list[int]
    ban: list[int]


def _pool(bank: Bank, recipe: Recipe) -> _Pool:
    validate(replace(recipe, lam=0.5), bank)
    split = bank.splits[recipe.split]
    pin, ban = ([bank.index_of(one) for one in chosen] for chosen in (recipe.pin, recipe.ban))
    return _Pool(relevances(split), similarity_rows(split, recipe.similarity), pin, ban)


class _Node(NamedTuple):
    """Picks that hold on an interval, with what the next step needs."""

    low: float
    high: float
    picks: Picks
    max_similarity: np.ndarray


def _follow(
    q: np.ndarray, row_of: Callable[[int], np.ndarray], k: int, first: Picks, closed: np.ndarray
) -> list[Interval]:
    """Split [0, 1] step by step, depth first, left to right, without recursion (k may be large)."""
    start = np.max([row_of(pick) for pick in first], axis=0)
    pending = [_Node(0.0, 1.0, first, start)]
    found: list[Interval] = []
    while pending:
        node = pending.pop()
        if len(node.picks) == k:
            found.append(Interval(node.low, node.high, node.picks))
            continue
        is_open = ~closed
        is_open[list(node.picks)] = False
        pieces = _envelope(np.flatnonzero(is_open), q, node)
        for low, high, winner in reversed(pieces):
            seen = np.maximum(node.max_similarity, row_of(winner))
            pending.append(_Node(low, high, (*node.picks, winner), seen))
    return found


def _envelope(index: np.ndarray, q: np.ndarray, node: _Node) -> list[tuple[float, float, int]]:
    """Winners among `index` on the node's interval: (low, high, position), from left to right.

    With s = q + m a score is λ·s − m, so slopes only grow from winner to winner.
    """
    m = node.max_similarity[index]
    slope = q[index] + m
    pieces: list[tuple[float, float, int]] = []
    low = node.low
    score = low * slope - m
    leader = _steepest(np.flatnonzero(score >= score.max() - TIE_TOLERANCE), slope)
    while True:
        steeper = np.flatnonzero(slope > slope[leader] + TIE_TOLERANCE)
        crossing = (m[steeper] - m[leader]) / (slope[steeper] - slope[leader])
        ahead = crossing.min(initial=np.inf)
        high = min(max(float(ahead), low), node.high)
        if high - low > _SAME_LAMBDA:
            pieces.append((low, high, int(index[leader])))
        if high >= node.high - _SAME_LAMBDA:
            break
        leader = _steepest(steeper[crossing <= ahead + _SAME_LAMBDA], slope)
        low = high
    pieces = pieces or [(node.low, node.high, int(index[leader]))]
    # Slivers that were left out go to a neighbour, so that the pieces cover the interval.
    edges = [node.low, *(piece[0] for piece in pieces[1:]), node.high]
    return [(edges[at], edges[at + 1], piece[2]) for at, piece in enumerate(pieces)]


def _steepest(among: np.ndarray, slope: np.ndarray) -> int:
    """Who leads just right of a point where `among` are level; the earliest of equal lines."""
    steep = slope[among]
    return int(among[np.flatnonzero(steep >= steep.max() - TIE_TOLERANCE)[0]])

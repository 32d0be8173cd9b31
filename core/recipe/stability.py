"""How often each checkpoint is picked when the tasks, or the runs behind the scores, had been others.

Takes a bank's scores and a recipe; gives selection frequencies. Knows nothing about files or merging.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.bank.model import Bank, Split
from core.errors import InputError
from core.recipe.masked import means_of, rows_of
from core.recipe.mmr import mmr
from core.recipe.model import Recipe
from core.recipe.select import select

RESAMPLES, FEWEST = 400, 50
MOST_SCORES = 100_000_000
"""Scores looked at in all: large pools get fewer resamples, down to FEWEST."""


@dataclass(frozen=True, eq=False)
class Stability:
    """How stable a recipe's picks are; frequencies are shares of the resamples."""

    resamples: int
    frequency: np.ndarray
    """float64 (checkpoints,): how often each is among the K picks; sums to K."""
    same: float
    """How often the K picks are, in any order, those of the recipe."""
    groups: int
    """What was drawn: scenarios, or tasks where each is its own."""


def over_tasks(bank: Bank, recipe: Recipe, *, resamples: int | None = None, seed: int = 0) -> Stability:
    """Bootstrap over tasks: as many are drawn again with replacement (whole scenarios, where tasks come in groups).

    Raises RecipeError when the recipe does not fit the bank, InputError for fewer than one resample.
    """
    split = _split(bank, recipe)
    names, group = np.unique(np.array(split.scenarios), return_inverse=True)
    members = [np.flatnonzero(group == at) for at in range(len(names))]

    def draw(rng: np.random.Generator) -> np.ndarray:
        drawn = rng.integers(len(members), size=len(members))
        return split.scores[:, np.concatenate([members[at] for at in drawn.tolist()])]

    return _frequencies(bank, recipe, draw, _count(resamples, split), seed=seed, groups=len(names))


def over_runs(
    bank: Bank, recipe: Recipe, flip_rate: float, *, resamples: int | None = None, seed: int = 0
) -> Stability:
    """Picks if every checkpoint had been evaluated once more, with run-to-run noise of the size that was measured.

    `flip_rate` in [0, 1] is the share of tasks whose score differs between two runs of one model (`NoiseBand`). Raises
    as `over_tasks`, and InputError for a rate outside [0, 1].
    """
    if not 0 <= flip_rate <= 1:
        raise InputError(f"a flip rate is a share from 0 to 1, found {flip_rate}.")
    split = _split(bank, recipe)

    def draw(rng: np.random.Generator) -> np.ndarray:
        return rerun(split.scores, split.samples, flip_rate, rng)

    return _frequencies(bank, recipe, draw, _count(resamples, split), seed=seed, groups=len(split.tasks))


def rerun(scores: np.ndarray, samples: int, flip_rate: float, rng: np.random.Generator) -> np.ndarray:
    """Scores (checkpoints, tasks) of a supposed second run, whose expected means are those of the first.

    One sample a task: each row's 0s and 1s flip, on average `flip_rate` of them, as many 0s as 1s (fewer where a row
    has too few of one kind). More samples: drawn from a binomial with the first run's share of right answers. Gaps
    (NaN) stay gaps.
    """
    has = np.isfinite(scores)
    if samples > 1:
        drawn = rng.binomial(samples, np.clip(np.where(has, scores, 0), 0, 1), scores.shape) / samples
        return np.where(has, drawn, np.nan)
    right = scores >= 0.5
    ones, count = right.sum(axis=1, keepdims=True), has.sum(axis=1, keepdims=True)
    zeros = count - ones
    flips = np.minimum(flip_rate * count / 2, np.minimum(ones, zeros))
    chance = np.where(right, flips / np.maximum(ones, 1), flips / np.maximum(zeros, 1))
    return np.where(has, right ^ (rng.random(scores.shape) < chance), np.nan)


def _split(bank: Bank, recipe: Recipe) -> Split:
    select(bank, recipe)
    return bank.splits[recipe.split]


def _count(resamples: int | None, split: Split) -> int:
    if resamples is None:
        return min(RESAMPLES, max(FEWEST, MOST_SCORES // max(split.scores.size, 1)))
    if resamples < 1:
        raise InputError(f"expected at least 1 resample, found {resamples}.")
    return resamples


def _frequencies(
    bank: Bank, recipe: Recipe, draw: Callable[[np.random.Generator], np.ndarray], resamples: int, *,
    seed: int, groups: int,
) -> Stability:  # fmt: skip
    pin, ban = ([bank.index_of(one) for one in chosen] for chosen in (recipe.pin, recipe.ban))
    now = {bank.index_of(one.checkpoint) for one in select(bank, recipe).picks}
    rng = np.random.default_rng(seed)
    counts, same = np.zeros(len(bank.checkpoints)), 0
    for _ in range(resamples):
        scores = draw(rng)
        rows = rows_of(scores, recipe.similarity)
        picks = mmr(means_of(scores), rows, recipe.lam, recipe.k, pin=pin, ban=ban).picks
        counts[list(picks)] += 1
        same += set(picks) == now
    return Stability(resamples, counts / resamples, same / resamples, groups)

"""The winner's curse: how much too good the best of several looks on the tasks that chose it.

Takes scores of everything that was compared; gives the expected loss on fresh tasks, and a warning in words.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from core.errors import InputError
from core.stats.intervals import cluster_sums
from core.stats.sentence import number, points

HALVINGS = 1000


class Optimism(NamedTuple):
    """What choosing the best adds to its score."""

    candidates: int
    tasks: int
    score: float
    """Of the best, as it looks, in [0, 1]."""
    amount: float
    """By how much that is too high, in expectation, in [0, 1]."""

    @property
    def corrected(self) -> float:
        """The score to expect on fresh tasks."""
        return self.score - self.amount


def selection_optimism(scores: np.ndarray, clusters: Sequence[Any] | None = None, *, seed: int = 0) -> Optimism:
    """By how much the best mean of `scores` (candidates, tasks), each in [0, 1], is too high for having been chosen.

    Tasks (whole scenarios, with `clusters`) are cut in halves at random, a thousand times. The best on one half
    is looked up on the other, where it was not chosen; candidates that tie count alike. The mean fall, divided by √2,
    is the answer: a half has twice the variance of the whole, and the best of M equal candidates is too high in
    proportion to the standard deviation (choosing by cross-validation: Stone 1974; the bias it removes: Cawley & Talbot
    2010, "On Over-fitting in Model Selection"). It is right where candidates are equally good, the worst case, and
    somewhat too large where one is clearly best. Raises InputError for no candidates or fewer than two units.
    """
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise InputError(f"optimism needs finite scores of (candidates, tasks), found shape {x.shape}.")
    candidates, tasks = x.shape
    groups = list(range(tasks)) if clusters is None else list(clusters)
    sums = np.stack([cluster_sums(one, groups) for one in x])
    sizes = cluster_sums(np.ones(tasks), groups)
    units = len(sizes)
    if units < 2:
        raise InputError("optimism needs two or more tasks, or scenarios where there are any.")
    best = float(x.mean(axis=1).max())
    if candidates == 1:
        return Optimism(1, tasks, best, 0.0)
    rng, falls = np.random.default_rng(seed), []
    for _ in range(10):
        order = rng.random((HALVINGS // 10, units)).argsort(axis=1)
        falls.append(_falls(sums, sizes, (order < units // 2).astype(np.float64)))
    return Optimism(candidates, tasks, best, max(0.0, float(np.concatenate(falls).mean())) / math.sqrt(2))


def _falls(sums: np.ndarray, sizes: np.ndarray, half: np.ndarray) -> np.ndarray:
    """For each half (rounds, units) of 0 and 1: the best mean on it less the same candidates' on the rest."""
    chosen = (half @ sums.T) / (half @ sizes)[:, None]
    other = ((1 - half) @ sums.T) / ((1 - half) @ sizes)[:, None]
    top = chosen.max(axis=1)
    tied = chosen >= top[:, None] - 1e-12
    return top - (other * tied).sum(axis=1) / tied.sum(axis=1)


def choice_warning(
    chosen_on: str,
    judged_on: str,
    *,
    optimism: Optimism | None = None,
    held_out: Mapping[str, str] | None = None,
) -> str:
    """Why a verdict on `judged_on` is too good, in words; empty where other tasks chose.

    `optimism` is of what was compared on those tasks. `held_out` are verdicts on other splits, in words, by split.
    """
    if chosen_on != judged_on:
        return ""
    said = [f"The recipe was chosen on {chosen_on}, the tasks that it is judged by here, so it looks too good."]
    if optimism is not None and optimism.candidates > 1:
        lost = optimism.amount * optimism.tasks
        said.append(
            f"The best of {optimism.candidates} on {optimism.tasks} tasks can be expected to solve {number(lost)} "
            f"fewer of as many fresh ones ({points(-optimism.amount)} pp)."
        )
    others = {name: text for name, text in (held_out or {}).items() if name != chosen_on}
    if not others:
        return " ".join([*said, "There is no held-out result: evaluate on tasks that chose nothing."])
    return " ".join([*said, *(f"On {name}, held out: {text}" for name, text in others.items())])

"""The difference of two models that have several samples a task: one number a task, tested over tasks or scenarios.

Takes samples by task; gives the difference, how sure it is, and how much of its variance is sampling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.errors import InputError
from core.stats.intervals import Interval, cluster_sums, difference_interval, standard_error
from core.stats.paired import sign_flip
from core.stats.power import Spread, spread_of


@dataclass(frozen=True)
class PairedDifference:
    """b − a over tasks, each the mean of its samples."""

    tasks: int
    units: int
    """Scenarios, or tasks where they stand alone."""
    difference: float
    standard_error: float
    """Between units; it contains what sampling adds."""
    interval: Interval
    """95 % paired bootstrap over units (see `difference_interval`)."""
    p_value: float
    """Two-sided sign-flip test over units."""
    exact: bool
    """False where that test's distribution was sampled."""
    sampling_share: float | None
    """Share of the variance that more samples a task would take away; None where a task has one sample only."""


def paired_difference(
    a: Mapping[str, Sequence[float]],
    b: Mapping[str, Sequence[float]],
    *,
    clusters: Mapping[str, str] | None = None,
    denominator: int | None = None,
    seed: int = 0,
) -> PairedDifference:
    """Test mean differences of tasks (or their sums over scenarios) by random signs.

    Samples of one task are no independent evidence, so each task is one number: pooling samples would make the
    test too sure (Miller 2024, arXiv 2411.00640, section 2). Of the three tests for such numbers, the sign-flip
    test (Fisher 1935; Dror et al. 2018, "The Hitchhiker's Guide to Testing Statistical Significance in NLP") is taken:
    under no difference each task's is as likely −x as x, which is exact for any number of tasks and for
    differences that are mostly 0. The t test takes them for normal, and was seen above its 5 % in simulations of
    57 tasks of one sample. Wilcoxon's test is of ranks: where few tasks gain much and many lose a little it rejects
    an equal mean, in 15 of 100 simulated experiments (`bench/stats_bench.py` prints all three).

    `denominator` makes every difference whole, where one does: then the test is exact. Raises InputError where the
    tasks differ or there are fewer than two units.
    """
    if not a or set(a) != set(b):
        raise InputError("a paired difference needs the same tasks of both models, at least one.")
    tasks = list(a)
    missing = [task for task in tasks if clusters is not None and task not in clusters]
    if missing:
        raise InputError(f"task '{missing[0]}' has no scenario.")
    groups: Sequence[Any] = tasks if clusters is None else [clusters[task] for task in tasks]
    d = np.array([float(np.mean(b[task])) - float(np.mean(a[task])) for task in tasks])
    d[np.abs(d) < 1e-12] = 0.0
    sums, sizes = cluster_sums(d, groups), cluster_sums(np.ones_like(d), groups)
    if len(sums) < 2:
        raise InputError("a paired difference needs two or more tasks, or scenarios where there are any.")
    error, mean = standard_error(sums, sizes), float(d.mean())
    interval = difference_interval(d, None if clusters is None else groups, seed=seed)
    test = sign_flip(sums, denominator=denominator, seed=seed)
    spread = spread_of([a[task] for task in tasks], [b[task] for task in tasks], groups)
    return PairedDifference(len(d), len(sums), mean, error, interval, test.p_value, test.exact, _share(spread))


def _share(spread: Spread) -> float | None:
    if spread.within is None:
        return None
    return min(1.0, spread.within / spread.total) if spread.total > 0 else 0.0

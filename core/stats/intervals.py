"""95 % intervals: of a share, of a mean over tasks, and of a paired difference.

Takes arrays, and clusters where tasks come in groups (scenarios); gives (low, high). Knows no files.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from core.errors import InputError
from core.stats.student import t_quantile

RESAMPLES = 10_000
"""Bootstrap resamples: the ends of an interval are then good to about 1/50 of its width."""
FEW_RESAMPLES = 2_000
"""Resamples where one of them takes more than `MANY` draws."""
MANY = 2_000
FEW_UNITS = 50
"""With fewer clusters the bootstrap alone was seen to miss the truth in up to 8 of 100 simulated experiments."""


class Interval(NamedTuple):
    """A closed range."""

    low: float
    high: float


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a share (Wilson 1927), in [0, 1].

    `n` may be an effective sample size, so neither has to be whole. Raises InputError unless
    0 ≤ successes ≤ n and n > 0.
    """
    if not (n > 0 and 0 <= successes <= n):
        raise InputError(f"a Wilson interval needs 0 <= successes <= n and n > 0, found {successes} of {n}.")
    return _wilson(successes / n, n, NormalDist().inv_cdf(0.5 + confidence / 2))


def _wilson(p: float, n: float, z: float) -> Interval:
    centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Exactly p at the ends, where rounding would leave a trace.
    low = 0.0 if p == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if p == 1 else min(1.0, (centre + spread) / scale)
    return Interval(low, high)


def mean_interval(scores: np.ndarray, clusters: Sequence[Any] | None = None) -> Interval:
    """95 % interval of the mean of `scores`, float, shape (tasks,), in [0, 1]; tasks of a cluster move together.

    Wilson's interval at the effective sample size p(1−p)/v, with v the larger of the variances of the
    mean with and without clusters, and Student's t for the number of clusters (Korn & Graubard 1998 do
    so for Clopper-Pearson; Dean & Pagano 2015 for Wilson). For 0/1 scores without clusters it is
    Wilson's own. Where all scores are 0, or all 1, a cluster counts as one. Raises InputError when empty.
    """
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all() or x.min() < 0 or x.max() > 1:
        raise InputError(f"a mean's interval needs scores in [0, 1] of at least one task, found shape {x.shape}.")
    p, n = float(x.mean()), x.size
    z = NormalDist().inv_cdf(0.975)
    if clusters is None or len(set(clusters)) == n:
        groups, v = n, float(((x - p) ** 2).sum()) / n**2
    else:
        deviations = cluster_sums(x - p, clusters)
        groups = len(deviations)
        together = float((deviations**2).sum()) / n**2 * groups / max(groups - 1, 1)
        v, z = max(together, float(((x - p) ** 2).sum()) / n**2), t_quantile(max(groups - 1, 1))
    room = p * (1 - p)
    effective = room / v if v > 1e-15 and room > 0 else float(groups)
    return _wilson(min(max(p, 0.0), 1.0), effective, z)


def cluster_sums(values: np.ndarray, clusters: Sequence[Any]) -> np.ndarray:
    """Sum of `values` (tasks,) within each cluster: float64, shape (clusters,), in first-seen order."""
    at: dict[Any, int] = {}
    index = np.array([at.setdefault(one, len(at)) for one in clusters], dtype=np.intp)
    if len(index) != len(values):
        raise InputError(f"expected one cluster for each of {len(values)} tasks, found {len(index)}.")
    return np.bincount(index, weights=values, minlength=len(at))


def difference_interval(differences: np.ndarray, clusters: Sequence[Any] | None = None, *, seed: int = 0) -> Interval:
    """95 % paired bootstrap interval of the mean of `differences`, shape (tasks,), each in [-1, 1].

    Whole clusters are drawn with replacement (each task its own without them). Percentiles are taken
    further out than 2.5 and 97.5 %, by Student's t and √(n/(n−1)), since the bootstrap is too narrow
    for few clusters (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 3.3). With fewer
    than 50 it also covers Student's interval of n − 2 degrees of freedom. Clusters of unequal size count as the
    (Σ size)²/Σ size² equal ones that they are worth (Carter, Schnepel & Steigerwald 2017, "Asymptotic Behavior of a
    t-Test Robust to Cluster Heterogeneity", for members that move together).
    Where no resample can differ (every task moved alike, such as not at all), the interval is what
    is left by the exact bound on something seen in none of n clusters, 1 − 0.025^(1/n).
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or not d.size:
        raise InputError(f"a difference's interval needs at least one task, found shape {d.shape}.")
    sums = d if clusters is None else cluster_sums(d, clusters)
    sizes = np.ones_like(d) if clusters is None else cluster_sums(np.ones_like(d), clusters)
    n, mean = len(sums), float(d.mean())
    # Alike to 12 places is alike: sums of thirds differ in the last bit.
    kinds, counts = np.unique(np.stack([sums, sizes], axis=1).round(12), axis=0, return_counts=True)
    if len(np.unique((kinds[:, 0] / kinds[:, 1]).round(12))) == 1:
        room = 1 - 0.025 ** (1 / n)
        return Interval(max(-1.0, mean - room), min(1.0, mean + room))
    means = _resampled_means(kinds, counts, np.random.default_rng(seed))
    worth = max(2, math.floor(sizes.sum() ** 2 / (sizes**2).sum() + 1e-9))
    tail = NormalDist().cdf(-math.sqrt(worth / (worth - 1)) * t_quantile(worth - 1))
    low, high = (float(one) for one in np.quantile(means, [tail, 1 - tail]))
    if n < FEW_UNITS:
        half = t_quantile(max(1, worth - 2)) * standard_error(sums, sizes)
        low, high = max(-1.0, min(low, mean - half)), min(1.0, max(high, mean + half))
    return Interval(low, high)


def standard_error(sums: np.ndarray, sizes: np.ndarray) -> float:
    """Standard error of Σ sums / Σ sizes, taken between units (scenarios, or tasks), both of shape (units,).

    √(U/(U−1) · Σ (sumᵤ − sizeᵤ · mean)²) / Σ sizes, for two units or more (Miller 2024, arXiv 2411.00640,
    section 2.2).
    """
    units, tasks = len(sums), float(sizes.sum())
    residual = sums - sizes * (sums.sum() / tasks)
    return math.sqrt(float((residual**2).sum()) * units / (units - 1)) / tasks


def _resampled_means(kinds: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means of resampled clusters. `kinds` (k, 2) are distinct (sum, size), `counts` (k,) how often each is there.

    A resample of many clusters of few kinds is drawn as a multinomial count of each kind, which costs k
    and not n; of others by picking n clusters.
    """
    n, few_kinds = int(counts.sum()), 5 * len(kinds) < int(counts.sum())
    (sums, sizes), even = np.repeat(kinds, counts, axis=0).T.copy(), len(set(kinds[:, 1])) == 1
    means = []
    rounds = RESAMPLES if min(5 * len(kinds), n) <= MANY else FEW_RESAMPLES
    step = 1000 if few_kinds else max(1, min(1000, 2_000_000 // n))
    for start in range(0, rounds, step):
        size = min(step, rounds - start)
        if few_kinds:
            total, tasks = kinds.T @ rng.multinomial(n, counts / n, size=size).T
        else:
            picked = rng.integers(0, n, (n, size))
            total, tasks = sums[picked].sum(axis=0), sizes[0] * n if even else sizes[picked].sum(axis=0)
        means.append(total / tasks)
    return np.concatenate(means)

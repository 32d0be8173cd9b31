"""What a comparison can find, and what would settle one that found nothing: more tasks, or more samples of each.

Takes differences, variances and counts; gives powers and sizes, for two-sided tests at 5 %. Knows no files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from core.errors import InputError
from core.stats.intervals import cluster_sums, standard_error
from core.stats.paired import POWER, mcnemar_power
from core.stats.student import t_quantile

LIMIT = 10_000_000
"""Tasks or samples beyond which nothing is said: nobody has them."""


@dataclass(frozen=True)
class Spread:
    """Where the variance of a mean difference comes from; variances are of the mean over tasks."""

    total: float
    """As observed between units, sampling of answers included."""
    within: float | None
    """The part that sampling of answers adds, which more samples a task take away; None where it is not known."""
    tasks: int
    units: int
    """Scenarios, or tasks where they stand alone."""
    samples: float
    """Samples a task of each model; the harmonic mean where the two differ."""

    @property
    def between(self) -> float:
        """The part that is left with any number of samples: tasks differ in which model they favour."""
        return max(0.0, self.total - (self.within or 0.0))


@dataclass(frozen=True)
class Settling:
    """What would find a true difference as large as the one seen, with 80 % power."""

    tasks: int | None
    """Tasks like these, at as many samples each; None beyond `LIMIT`."""
    samples: int | None
    """Samples of each of these tasks; None where no number of them would do."""
    samples_at_least: bool
    """True where it is not known how much of the variance is sampling: then `samples` are the fewest possible."""

    @property
    def sentence(self) -> str:
        """What would settle it, in words."""
        parts = []
        if self.tasks is not None:
            parts.append(f"about {self.tasks:,} tasks")
        if self.samples is not None:
            word = "at least" if self.samples_at_least else "about"
            parts.append(f"{word} {self.samples:,} samples of each of these")
        if not parts:
            return "A difference this small would take more tasks than anyone has."
        more = "" if self.samples is not None else ", and no number of samples of these"
        return f"If the true difference is what was seen, {' or '.join(parts)} would settle it{more}."


def spread_of(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    clusters: Sequence[Any] | None = None,
    *,
    within: float | None = None,
) -> Spread:
    """The variance of mean b − mean a, apart by source (Miller 2024, arXiv 2411.00640, sections 3 and 4).

    `a` and `b` are the samples of each task, in one order. What sampling adds is Σ (s²ₐ/nₐ + s²_b/n_b)/T², with s²
    the variance of a task's samples, where every task has two or more of each model; else `within`, as
    replicates tell it, or not known. The rest lies between units. Raises InputError without tasks.
    """
    if not len(a) or len(a) != len(b):
        raise InputError(f"a spread needs the same tasks of both models, at least one; found {len(a)} and {len(b)}.")
    d = np.array([math.fsum(y) / len(y) - math.fsum(x) / len(x) for x, y in zip(a, b, strict=True)])
    sums = d if clusters is None else cluster_sums(d, clusters)
    sizes = np.ones_like(d) if clusters is None else cluster_sums(np.ones_like(d), clusters)
    counts = [len(one) for side in (a, b) for one in side]
    if min(counts) > 1:
        each = [float(np.var(one, ddof=1)) / len(one) for side in (a, b) for one in side]
        within = math.fsum(each) / len(d) ** 2
    error = standard_error(sums, sizes) if len(sums) > 1 else math.inf
    samples = len(counts) / math.fsum(1 / one for one in counts)
    return Spread(error**2, within, len(d), len(sums), samples)


def power_by_mean(difference: float, error: float, units: int, *, step: float = 0.0) -> float:
    """Probability that a sign-flip test on `units` finds a true mean difference of this standard error.

    It is that of the t test, from scipy's noncentral t distribution (Cohen 1988, chapter 2), to which the sign-flip
    test's comes near in large samples (Hoeffding 1952, "The large-sample power of tests based on permutations").
    Where scores are counts, sums of random signs lie 2 steps apart, a `step` being one sample's part in the mean,
    and that far only counts half: |difference| − step, as in a continuity correction. Raises InputError.
    """
    from scipy.stats import nct

    if units < 2 or error < 0:
        raise InputError(f"a power needs two or more units and an error from 0, found {units} and {error:g}.")
    if error == 0:
        return 0.0 if difference == 0 else 1.0
    limit, shift = t_quantile(units - 1), max(0.0, abs(difference) - step) / error
    return float(nct.sf(limit, units - 1, shift) + nct.cdf(-limit, units - 1, shift))


def detectable_beyond(found: float, error: float, band: float, runs: int) -> float:
    """The difference that passes a test and lies beyond the noise band with 80 % power, in [0, 1].

    `found` is the one that the test alone detects, `error` the standard error of a difference. The band's half-width
    was measured with `runs` runs, so it is itself off by about band/√(2(runs − 1)) (the standard deviation of a
    standard deviation); power is the mean of Φ((δ − max(limit, B))/error) over bands B of that spread, with the
    test's limit found − z₀.₈₀ · error, solved for δ by bisection.
    """
    normal = NormalDist()
    limit = found - normal.inv_cdf(POWER) * error
    spread = band / math.sqrt(2 * max(1, runs - 1))
    bands = [max(limit, band + spread * normal.inv_cdf((at + 0.5) / 40)) for at in range(40)]
    if error <= 0:
        return min(1.0, max(found, band))
    low, high = found, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        power = math.fsum(normal.cdf((middle - one) / error) for one in bands) / len(bands)
        low, high = (middle, high) if power < POWER else (low, middle)
    return high


def tasks_for_mcnemar(difference: float, discordance: float) -> int | None:
    """Fewest tasks with which exact McNemar finds a true difference with 80 % power; None beyond `LIMIT`.

    `discordance` is the share of tasks that just one model solves, at least |difference|. Power is the exact one of
    `mcnemar_power`, which rises in small saws: from the number given, it stays above 80 % less 1 point.
    """
    if not 0 < abs(difference) <= discordance <= 1:
        raise InputError(
            f"tasks needed: expected 0 < |difference| <= discordance <= 1, found {difference:g} and {discordance:g}."
        )
    return _tasks_for_mcnemar(abs(difference), discordance)


@lru_cache(maxsize=4096)
def _tasks_for_mcnemar(difference: float, discordance: float) -> int | None:
    high = 6
    while mcnemar_power(high, difference, discordance) < POWER:
        high *= 2
        if high > LIMIT:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if mcnemar_power(middle, difference, discordance) < POWER:
            low = middle
        else:
            high = middle
    return high


def settling(difference: float, spread: Spread, discordance: float | None = None) -> Settling | None:
    """What would settle a difference that was not resolved; None where the means are equal.

    With `discordance`, tasks are those of exact McNemar; else the number at which |difference| is
    (t₀.₉₇₅ + t₀.₈₀) standard errors. Samples are those that bring the variance of these tasks down to the same:
    n · within / (wanted − between).
    """
    if not abs(difference) > 1e-12:
        return None
    if spread.units < 2:
        return Settling(None, None, samples_at_least=False)
    own = spread.within is None
    within = spread.total if own else min(spread.within or 0.0, spread.total)
    wanted = (abs(difference) / _quantiles(spread.units)) ** 2
    left = wanted - (spread.total - within)
    samples = math.ceil(spread.samples * within / left - 1e-9) if left > 0 else None
    if samples is not None:
        samples = None if samples > LIMIT else max(samples, math.ceil(spread.samples) + 1)
    if discordance is not None:
        tasks = tasks_for_mcnemar(difference, max(discordance, abs(difference)))
    else:
        tasks = _tasks_by_mean(difference, spread)
    return Settling(tasks if tasks is None else max(tasks, spread.tasks), samples, samples_at_least=own)


def _tasks_by_mean(difference: float, spread: Spread) -> int | None:
    """Units grow with tasks, and the quantiles of t fall with them: three rounds settle it."""
    each = spread.total * spread.units
    units = spread.units
    for _ in range(5):
        units = max(6, math.ceil(each * (_quantiles(units) / abs(difference)) ** 2))
        if units * spread.tasks / spread.units > LIMIT:
            return None
    return math.ceil(units * spread.tasks / spread.units)


def _quantiles(units: int) -> float:
    freedom = max(1, min(units - 1, 20_000))
    return t_quantile(freedom) + t_quantile(freedom, POWER)

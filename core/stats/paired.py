"""Paired tests of two models on the same tasks, and the difference that such a test could detect.

Takes counts of tasks gained and lost, or per-task differences; gives p-values and sizes. Two-sided
throughout, at the 5 % level. Knows nothing about samples or files.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from core.errors import InputError
from core.stats.intervals import standard_error
from core.stats.student import t_quantile

ALPHA = 0.05
POWER = 0.8
MAX_GRID = 1_000_000
"""Points of an exact sign-flip distribution; a finer one is sampled instead."""
FLIPS = 9_999
"""Random sign flips where the exact distribution is too fine."""


class SignFlip(NamedTuple):
    """Outcome of a sign-flip test."""

    p_value: float
    exact: bool
    """False where the distribution was sampled with `FLIPS` draws."""


def mcnemar(gained: int, lost: int) -> float:
    """Exact McNemar p-value, two-sided: binomial test of `gained` among the discordant tasks at 1/2.

    McNemar 1947, in its exact form (scipy.stats.binomtest); 1 when nothing is discordant.
    """
    if gained < 0 or lost < 0:
        raise InputError(f"McNemar's test needs counts from 0, found {gained} gained and {lost} lost.")
    if gained + lost == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost, 0.5).pvalue)


def sign_flip(differences: np.ndarray, *, denominator: int | None = None, seed: int = 0) -> SignFlip:
    """P-value, two-sided, of the sum of `differences` (units,) under random signs of each (Fisher 1935).

    If each unit's difference is as likely −x as x, the sum's distribution over all signs is known. Where
    every difference is a multiple of 1/`denominator` it is computed exactly, as a convolution over
    distinct sizes (n equal sizes: a binomial), else sampled by scipy.stats.permutation_test. For
    differences of −1, 0 and 1 it is the exact McNemar test.
    """
    d = np.asarray(differences, dtype=np.float64)
    d = d[np.abs(d) > 1e-12]
    if d.size < 2:
        return SignFlip(1.0, True)
    if denominator is not None:
        whole = np.rint(d * denominator).astype(np.int64)
        if np.abs(whole - d * denominator).max() < 1e-6 and 0 < int(np.abs(whole).sum()) <= MAX_GRID:
            return SignFlip(_exact_sign_flip(whole), True)
    from scipy.stats import permutation_test

    found = permutation_test(
        (d, -d),
        lambda x, y, axis: x.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        batch=max(1, 4_000_000 // d.size),
        rng=np.random.default_rng(seed),
    )
    return SignFlip(float(found.pvalue), d.size <= math.log2(FLIPS))


def _exact_sign_flip(whole: np.ndarray) -> float:
    """P(|Σ ±xᵢ| ≥ |Σ xᵢ|) for whole numbers x, all signs equally likely."""
    from scipy.signal import fftconvolve
    from scipy.stats import binom

    step = int(np.gcd.reduce(np.abs(whole)))
    sizes, counts = np.unique(np.abs(whole) // step, return_counts=True)
    # Mass of (number of plus signs times size), summed over sizes: index 0 is "all minus".
    mass = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        own = np.zeros(size * count + 1)
        own[::size] = binom.pmf(np.arange(count + 1), count, 0.5)
        direct = min(len(mass), len(own)) < 500
        mass = np.convolve(mass, own) if direct else np.maximum(fftconvolve(mass, own), 0)
    top = len(mass) - 1
    observed = abs(int(whole.sum())) // step
    sums = 2 * np.arange(top + 1) - top
    return float(min(1.0, mass[np.abs(sums) >= observed].sum()))


def detectable_by_mcnemar(n: int, discordant: int) -> float:
    """Smallest true difference, in [0, 1], that exact McNemar on `n` tasks finds with 80 % power at 5 %.

    Tasks are discordant with probability ψ = discordant/n, or just δ where δ is larger, and then favour
    the better model with probability (ψ+δ)/2ψ. Power is exact and unconditional: the sum over d ~
    Binomial(n, ψ) of the power of the binomial test on d (Miettinen 1968; Lachenbruch 1992), solved for δ by
    bisection. ψ is what was observed, so this is an estimate. 1 where even δ = 1 would not be found.
    """
    if n < 1 or not 0 <= discordant <= n:
        raise InputError(f"a detectable difference needs 0 <= discordant <= n and n > 0, found {discordant} of {n}.")
    return _detectable(n, discordant)


@lru_cache(maxsize=4096)
def _detectable(n: int, discordant: int) -> float:
    observed = discordant / n
    low, high = 0.0, 1.0
    if mcnemar_power(n, 1.0, 1.0) < POWER:
        return 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        if mcnemar_power(n, middle, max(observed, middle)) < POWER:
            low = middle
        else:
            high = middle
    return high


def mcnemar_power(n: int, difference: float, discordance: float) -> float:
    """Probability that exact McNemar on `n` tasks gives p ≤ 0.05 for a true difference and discordance."""
    from scipy.stats import binom

    if discordance <= 0:
        return 0.0
    spread = 8 * math.sqrt(n * discordance * (1 - discordance)) + 8
    d = np.arange(max(0, int(n * discordance - spread)), min(n, int(n * discordance + spread) + 1) + 1)
    favour = min(1.0, (discordance + difference) / (2 * discordance))
    # Largest loser count that is still significant: P(X <= m) <= 0.025 for X ~ Binomial(d, 1/2).
    limit = binom.ppf(ALPHA / 2, d, 0.5)
    limit = np.where(binom.cdf(limit, d, 0.5) <= ALPHA / 2, limit, limit - 1)
    reject = binom.cdf(limit, d, 1 - favour) + binom.cdf(limit, d, favour)
    reject = np.where(limit >= 0, reject, 0.0)
    return float((binom.pmf(d, n, discordance) * reject).sum())


def detectable_by_mean(unit_sums: np.ndarray, unit_sizes: np.ndarray) -> float:
    """Smallest true mean difference found with 80 % power at 5 % by a test on units (clusters or tasks).

    (t₀.₉₇₅ + t₀.₈₀)·s, with s the standard error of the mean over tasks, taken between units, and t of
    units − 1 degrees of freedom (Cohen 1988, chapter 2). `unit_sums` and `unit_sizes` have shape
    (units,). 0 where the units do not differ; 1 for a single unit, which can show nothing.
    """
    units = len(unit_sums)
    if units < 2:
        return 1.0
    error = standard_error(unit_sums, unit_sizes)
    return min(1.0, (t_quantile(units - 1) + t_quantile(units - 1, POWER)) * error)

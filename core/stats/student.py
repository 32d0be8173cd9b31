"""Quantiles of Student's t distribution for whole degrees of freedom, without scipy.

Importing scipy for this one number would cost the first page a fifth of a second. Takes and gives floats.
"""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from core.errors import InputError


@lru_cache(maxsize=4096)
def t_quantile(freedom: int, probability: float = 0.975) -> float:
    """The t that a Student variable stays below with `probability`, which is from 1/2 to below 1.

    Newton's method from the normal quantile: the distribution function is concave above 0 and the start
    lies to the left, so every step goes right and none beyond. Raises InputError for other arguments.
    """
    if freedom < 1 or not 0.5 <= probability < 1:
        raise InputError(
            f"a t quantile needs freedom from 1 and probability in [0.5, 1), found {freedom}, {probability}."
        )
    t = NormalDist().inv_cdf(probability)
    for _ in range(100):
        step = (probability - 0.5 - _half(t, freedom)) / _density(t, freedom)
        t += step
        if abs(step) <= 1e-14 * max(t, 1.0):
            break
    return t


def _half(t: float, freedom: int) -> float:
    """P(0 < T < t), by the finite sums for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    # The terms' ratios: cos² times 1/2, 3/4, 5/6 … for even degrees, 2/3, 4/5, 6/7 … for odd ones.
    top = np.arange(1 + odd, freedom - 1, 2)
    terms = np.cumprod(cosine * cosine * top / (top + 1))
    total = 1.0 + math.fsum(terms.tolist())
    if not odd:
        return sine * total / 2
    return (angle + (sine * cosine * total if freedom > 1 else 0.0)) / math.pi


def _density(t: float, freedom: int) -> float:
    log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))

"""From relevances of the picks to their merge weights, and how many members those amount to.

Pure numpy; knows nothing about how the picks were chosen.
"""

import math

import numpy as np

from core.errors import RecipeError


def softmax_weights(q: np.ndarray, tau: float) -> np.ndarray:
    """`softmax(q / τ)`, with the maximum subtracted first; shape (K,), float64, sums to 1.

    `q` are relevances, shape (K,); τ is in the same units. Raises RecipeError for τ that is not a
    finite number above 0, an empty `q`, or a relevance that is not finite.
    """
    if not (math.isfinite(tau) and tau > 0):
        raise RecipeError(f"τ must be a number above 0, found {tau!r}.")
    values = np.asarray(q, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise RecipeError("weights need one finite relevance a pick; found none, NaN, infinity or another shape.")
    # A difference over a tiny τ may overflow to -inf, whose exponential is the right answer, 0.
    with np.errstate(over="ignore"):
        powers = np.exp((values - values.max()) / tau)
    return powers / powers.sum()


def effective_members(weights: np.ndarray) -> float:
    """`exp(entropy)`: K when all weights are equal, 1 when one member has everything."""
    w = np.asarray(weights, dtype=np.float64)
    w = w[w > 0]
    return float(np.exp(-(w * np.log(w)).sum()))

"""Merging and rounding written the plain way in numpy: whole tensors, full sorts. The kernels must agree."""

from collections.abc import Sequence

import numpy as np

F32 = np.float32


def keep_largest(delta: np.ndarray, k: int) -> np.ndarray:
    """Zero all but the k largest |δ|; equal ones are kept from the lowest index."""
    order = np.lexsort((np.arange(delta.size), -np.abs(delta).astype(np.float64)))
    kept = np.zeros_like(delta)
    kept[order[:k]] = delta[order[:k]]
    return kept


def ties(
    base: np.ndarray,
    members: Sequence[np.ndarray],
    weights: Sequence[float],
    *,
    densities: Sequence[float] | None = None,
    normalize: bool = True,
    scale: float = 1.0,
) -> np.ndarray:
    """mergekit's TIES over flat fp32 arrays, sums in member order."""
    n = base.size
    weighted = []
    for index, (member, weight) in enumerate(zip(members, weights, strict=True)):
        delta = member - base
        density = densities[index] if densities else 1.0
        if density < 1:
            delta = keep_largest(delta, max(1, int(density * n)) if density > 0 else 0)
        weighted.append(delta * F32(weight))
    total = np.zeros(n, F32)
    for one in weighted:
        total = total + one
    sign = np.where(total >= 0, F32(1), F32(-1))
    mixed, divisor = np.zeros(n, F32), np.zeros(n, F32)
    for one, weight in zip(weighted, weights, strict=True):
        agrees = np.sign(one) == sign
        mixed = mixed + np.where(agrees, one, F32(0))
        divisor = divisor + np.where(agrees, F32(weight), F32(0))
    if normalize:
        mixed = mixed / np.where(divisor == 0, F32(1), divisor)
    if scale != 1:
        mixed = mixed * F32(scale)
    return base + mixed


def task_arithmetic(
    base: np.ndarray, members: Sequence[np.ndarray], weights: Sequence[float], scale: float
) -> np.ndarray:
    """base + scale · Σ w·δ."""
    mixed = np.zeros(base.size, F32)
    for member, weight in zip(members, weights, strict=True):
        mixed = mixed + (member - base) * F32(weight)
    return base + (mixed if scale == 1 else mixed * F32(scale))


def linear(members: Sequence[np.ndarray], weights: Sequence[float], *, normalize: bool) -> np.ndarray:
    """Σ w·m, over Σ w."""
    mixed, total = np.zeros(members[0].size, F32), F32(0)
    for member, weight in zip(members, weights, strict=True):
        mixed, total = mixed + member * F32(weight), total + F32(weight)
    return mixed / total if normalize else mixed


def half_ulps(base: np.ndarray, merged: np.ndarray) -> np.ndarray:
    """|m − b| in half bf16 ulps of b, float64: half an ulp is 2^(e−8)."""
    exponent = np.maximum(np.frexp(base.astype(np.float64))[1] - 1, -126)
    exponent = np.where(base == 0, -126, exponent)
    return np.abs(merged.astype(np.float64) - base.astype(np.float64)) / np.exp2(exponent.astype(np.float64) - 8)

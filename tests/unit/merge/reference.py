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


def influence(
    base: np.ndarray, members: Sequence[np.ndarray], weights: Sequence[float]
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Of mergekit's TIES with normalize and no trimming, per member: elected signs that are others without it where
    another member votes, Σ|merged delta| that comes from it, and of that where it votes alone."""
    x = np.stack([(member - base) * F32(weight) for member, weight in zip(members, weights, strict=True)])

    def elected(rows: np.ndarray) -> np.ndarray:
        total = np.zeros(base.size, F32)
        for row in rows:
            total = total + row
        return np.where(total >= 0, 1, -1)

    sign, voters = elected(x), (x != 0).sum(axis=0)
    flips = [
        int(((elected(np.delete(x, i, axis=0)) != sign) & (voters - (x[i] != 0) > 0) & (x[i] != 0)).sum())
        for i in range(len(x))
    ]
    agrees = (np.sign(x) == sign).astype(np.float64)
    divisor = np.abs((agrees * np.array(weights, F32).astype(np.float64)[:, None]).sum(axis=0))
    parts = agrees * np.abs(x.astype(np.float64)) / np.where(divisor == 0, 1, divisor)
    return flips, parts.sum(axis=1), (parts * (voters == 1)).sum(axis=1)


def paper(
    base: np.ndarray,
    members: Sequence[np.ndarray],
    densities: Sequence[float],
    *,
    mean: bool = True,
    scale: float = 1.0,
) -> np.ndarray:
    """The paper's repository over one flat vector: trim, majority sign where a vote is zero, disjoint mean or sum."""
    deltas = []
    for member, density in zip(members, densities, strict=True):
        delta = member - base
        if density < 1:
            k = delta.size - int(density * delta.size)
            lowest = np.sort(np.abs(delta))[k - 1]
            delta = np.where(np.abs(delta) >= lowest, delta, F32(0))
        deltas.append(delta)
    total = np.zeros(base.size, F32)
    for delta in deltas:
        total = total + delta
    sign = np.sign(total)
    sign = np.where(sign == 0, np.sign(sign.sum()), sign)
    stack = np.stack(deltas)
    agrees = np.where(sign > 0, stack > 0, stack < 0)
    summed = np.zeros(base.size, F32)
    for delta, one in zip(stack, agrees, strict=True):
        summed = summed + np.where(one, delta, F32(0))
    if mean:
        summed = summed / np.maximum(agrees.sum(axis=0), 1).astype(F32)
    return base + summed * F32(scale)

"""A merge taken apart: trim, weigh, vote, mean, scale, add, with every number in between kept.

Takes fp32 values of the base and the members at some elements, and a kernels' rule; gives arrays of each step. The
same fp32 operations in the same order as the kernels, so that the last step is the engine's result to the bit. Reads
nothing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from core.merge.kernels import Rule

ZERO, ONE = np.float32(0), np.float32(1)


@dataclass(frozen=True, eq=False)
class Steps:
    """Every step at n elements; float32 where nothing else is said. Rows are members."""

    base: np.ndarray
    """(n,)."""
    raw: np.ndarray
    """(members, n): the members' own values."""
    delta: np.ndarray
    """(members, n): raw − base, before the trim."""
    kept: np.ndarray
    """bool (members, n): not trimmed."""
    weighted: np.ndarray
    """(members, n): weight · kept delta."""
    total: np.ndarray
    """(n,): their sum in member order, whose sign is elected."""
    sign: np.ndarray
    """(n,): 1 or −1; always 1 where the method holds no election."""
    agrees: np.ndarray
    """bool (members, n): what is merged: in an election, those of the elected sign."""
    mixed: np.ndarray
    """(n,): sum of what is merged."""
    divisor: np.ndarray
    """(n,): what it is divided by; 1 for no division."""
    mean: np.ndarray
    """(n,)."""
    update: np.ndarray
    """(n,): scale · mean."""
    merged: np.ndarray
    """(n,): base + update; for `linear` the update itself."""


def take_steps(base: np.ndarray, raw: np.ndarray, kept: np.ndarray, rule: "Rule") -> Steps:
    """Merge `base` float32 (n,) and `raw` float32 (members, n), of which `kept`, bool (members, n), is not trimmed."""
    from core.merge import kernels

    with np.errstate(all="ignore"):
        delta = raw - base
        weighted = np.where(kept, delta, ZERO) * rule.weights[:, None]
        total = _sum(weighted)
        ties = rule.method == kernels.TIES
        plus = (total > ZERO) | ((total == ZERO) & bool(rule.zero_plus))
        sign = np.where(plus, ONE, -ONE) if ties else np.ones_like(total)
        agrees = weighted * sign > ZERO if ties else weighted != ZERO
        mixed, divisor = _mix(raw, weighted, agrees, total, rule)
        mean = mixed / divisor if rule.divide_by != ZERO else mixed
        update = mean * rule.scale if rule.scale != ONE else mean
        merged = update if rule.method == kernels.LINEAR else base + update
    return Steps(base, raw, delta, kept, weighted, total, sign, agrees, mixed, divisor, mean, update, merged)


def _mix(
    raw: np.ndarray, weighted: np.ndarray, agrees: np.ndarray, total: np.ndarray, rule: "Rule"
) -> tuple[np.ndarray, np.ndarray]:
    """What is merged, summed; and what that is divided by."""
    from core.merge import kernels

    if rule.method == kernels.TIES:
        mixed = _sum(np.where(agrees, weighted, ZERO))
        divisor = _sum(np.where(agrees, rule.weights[:, None], ZERO))
        if rule.divide_by == ZERO:
            return mixed, np.ones_like(mixed)
        return mixed, np.where(divisor != ZERO, divisor, ONE)
    mixed = total if rule.method == kernels.TASK_ARITHMETIC else _sum(raw * rule.weights[:, None])
    return mixed, np.full_like(mixed, rule.divide_by if rule.divide_by != ZERO else ONE)


def _sum(rows: np.ndarray) -> np.ndarray:
    """Rows added one after the other in fp32, from zero."""
    total = np.zeros(rows.shape[1], np.float32)
    for row in rows:
        total = total + row
    return total


def sign_without(steps: Steps, member: int, zero_plus: bool) -> np.ndarray:
    """The sign elected at each element when a member's vote is left out: float32 (n,)."""
    total = _sum(np.delete(steps.weighted, member, axis=0))
    return np.where((total > ZERO) | ((total == ZERO) & zero_plus), ONE, -ONE)


def kept_of(delta: np.ndarray, start: int, thresholds: np.ndarray, cutoffs: np.ndarray) -> np.ndarray:
    """Which deltas (float32 (members, n), from flat index `start`) the trim keeps: bool, the same shape.

    `thresholds` uint32 and `cutoffs` int64 (members,): see `core.merge.trim.Kept`.
    """
    magnitude = np.abs(delta).view(np.uint32)
    level = thresholds[:, None]
    before = np.arange(start, start + delta.shape[1]) < cutoffs[:, None]
    return (level == 0) | (magnitude > level) | ((magnitude == level) & before)


def bf16(values: np.ndarray) -> np.ndarray:
    """float32 values rounded to the nearest bf16, ties to even, as float32; NaN and infinity as they are."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return np.where(finite, rounded, bits).astype(np.uint32).view(np.float32)

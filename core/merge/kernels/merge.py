"""The fused merge of one block: trim, elect, merge, scale, add the base, and count on the way."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

from typing import NamedTuple

import numpy as np
from numba import njit

from core.merge.kernels.bits import EXPONENT, SIGN_OFF, Rows, count_bad, load
from core.merge.kernels.influence import MINUS, Scratch, close_shares, count_election, count_influence
from core.merge.kernels.layout import CHUNK, LANES, SHARES, SUB_BLOCK, SUMS, Count, Figures
from core.merge.kernels.rounding import close_sub_block, count_rounding

TIES, TASK_ARITHMETIC, LINEAR = 0, 1, 2
SMALL_DIVISOR, OVERFLOW = int(Count.SMALL_DIVISOR), int(Count.OVERFLOW)
SMALL = np.float32(0.01)
"""A divisor below this share of the agreeing members' Σ|w| is counted as small."""
ZERO, ONE = np.float32(0.0), np.float32(1.0)


class Rule(NamedTuple):
    """How deltas become one, in fp32."""

    method: int
    """TIES, TASK_ARITHMETIC, or LINEAR, whose row 0 is a reference that only the figures look at."""
    weights: np.ndarray
    """float32 (members,)."""
    divide_by: np.float32
    """0 for no division; for TIES anything else divides by the agreeing weights; else the divisor."""
    scale: np.float32
    guard: bool
    """Count small divisors: only weights of both signs can make them."""
    zero_plus: bool = True
    """Whether a sum of zero elects +."""
    figures: bool = True
    """Count elections, influence and rounding; without, only what is not finite."""


@njit(cache=True, nogil=True, inline="always")
def trim(delta: np.ndarray, bits: np.ndarray, n: int, threshold: np.uint32, kept_before: int) -> np.int32:
    """Zero the deltas below the threshold; those at it are kept below position `kept_before`.

    Gives how many non-zero deltas were zeroed.
    """
    trimmed = np.int32(0)
    if kept_before <= 0 or kept_before >= n:
        lowest = threshold if kept_before >= n else threshold + np.uint32(1)
        for j in range(n):
            magnitude = np.uint32(bits[j] & SIGN_OFF)
            gone = magnitude < lowest
            trimmed += np.int32(gone and magnitude != 0)
            delta[j] = ZERO if gone else delta[j]
        return trimmed
    for j in range(n):
        magnitude = np.uint32(bits[j] & SIGN_OFF)
        if magnitude < threshold or (magnitude == threshold and j >= kept_before):
            trimmed += np.int32(magnitude != 0)
            delta[j] = ZERO
    return trimmed


@njit(cache=True, nogil=True, inline="always")
def vote(delta: np.ndarray, weight: np.float32, n: int, x: np.ndarray, s: Scratch) -> None:
    """Weight one member's kept deltas and add them to the sum and to the counts of signs."""
    for j in range(n):
        value = delta[j] * weight
        x[j] = value
        s.total[j] += value
        s.absolute[j] += abs(value)
        s.votes[j] += np.int32(value > ZERO) + (np.int32(value < ZERO) << MINUS)


@njit(cache=True, nogil=True, inline="always")
def elect(weights: np.ndarray, n: int, zero_plus: bool, s: Scratch) -> None:
    """Elect each element's sign; sum deltas and weights over the members that agree with it."""
    for j in range(n):
        s.sign[j] = ONE if (s.total[j] > ZERO) | ((s.total[j] == ZERO) & zero_plus) else -ONE
        s.mixed[j] = ZERO
        s.divisor[j] = ZERO
    for i in range(weights.size):
        weight, x = weights[i], s.x[i]
        for j in range(n):
            agrees = x[j] * s.sign[j] > ZERO
            s.mixed[j] += x[j] if agrees else ZERO
            s.divisor[j] += weight if agrees else ZERO


@njit(cache=True, nogil=True, inline="always")
def count_small(weights: np.ndarray, n: int, s: Scratch) -> int:
    """How many divisors are small against the agreeing members' Σ|w|."""
    for j in range(n):
        s.factor[j] = ZERO
    for i in range(weights.size):
        size, x = abs(weights[i]), s.x[i]
        for j in range(n):
            agrees = x[j] * s.sign[j] > ZERO
            s.factor[j] += size if agrees else ZERO
    small = 0
    for j in range(n):
        small += abs(s.divisor[j]) < SMALL * s.factor[j]
    return small


@njit(cache=True, nogil=True, inline="always")
def gather(
    rows: Rows,
    start: int,
    n: int,
    rule: Rule,
    thresholds: np.ndarray,
    cutoffs: np.ndarray,
    base: np.ndarray,
    value: np.ndarray,
    delta: np.ndarray,
    s: Scratch,
    figures: Figures,
) -> None:
    """Read every member's chunk: trimmed weighted deltas into `s.x`, their sum and signs into `s`."""
    base_f, value_f, bits = base.view(np.float32), value.view(np.float32), delta.view(np.uint32)
    for j in range(n):
        s.total[j] = ZERO
        s.absolute[j] = ZERO
        s.mixed[j] = ZERO
        s.votes[j] = 0
    for i in range(rule.weights.size):
        figures.bad[i + 1] += load(rows, i + 1, start, n, value)
        moved = np.int32(0)
        for j in range(n):
            delta[j] = value_f[j] - base_f[j]
            moved += np.int32(delta[j] != ZERO)
        figures.changed[i] += moved
        if thresholds[i] > 0:
            figures.trimmed[i] += trim(delta, bits, n, thresholds[i], cutoffs[i] - start)
        if rule.method == LINEAR:
            for j in range(n):
                s.mixed[j] += value_f[j] * rule.weights[i]
        vote(delta, rule.weights[i], n, s.x[i], s)


@njit(cache=True, nogil=True, inline="always")
def combine(base_f: np.ndarray, n: int, rule: Rule, s: Scratch, merged_f: np.ndarray) -> None:
    """Divide, scale and add the base: the merged values of a chunk, fp32."""
    if rule.divide_by != ZERO:
        if rule.method == TIES:
            for j in range(n):
                s.mixed[j] /= s.divisor[j] if s.divisor[j] != ZERO else ONE
        else:
            for j in range(n):
                s.mixed[j] /= rule.divide_by
    if rule.scale != ONE:
        for j in range(n):
            s.mixed[j] *= rule.scale
    if rule.method == LINEAR:
        for j in range(n):
            merged_f[j] = s.mixed[j]
    else:
        for j in range(n):
            merged_f[j] = base_f[j] + s.mixed[j]


@njit(cache=True, nogil=True, inline="always")
def find_factor(n: int, rule: Rule, s: Scratch) -> None:
    """What the agreeing weighted deltas of each element are multiplied by in the end, without its sign."""
    divides = rule.divide_by != ZERO
    by = abs(rule.scale) / abs(rule.divide_by) if divides and rule.method != TIES else abs(rule.scale)
    for j in range(n):
        s.factor[j] = by
    if divides and rule.method == TIES:
        for j in range(n):
            s.factor[j] /= abs(s.divisor[j]) if s.divisor[j] != ZERO else ONE


@njit(cache=True, nogil=True)
def new_scratch(members: int) -> Scratch:
    """Room for one chunk of so many members."""
    f32, i32 = np.float32, np.int32
    return Scratch(
        np.empty(CHUNK, f32),
        np.ones(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, i32),
        np.empty(CHUNK, i32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.zeros(CHUNK, np.uint8),
        np.empty((members, CHUNK), f32),
        np.zeros((members, SHARES, LANES), np.float64),
    )


@njit(cache=True, nogil=True, inline="always")
def count_not_finite(merged: np.ndarray, n: int) -> int:
    """How many of n fp32 bit patterns are NaN or infinite; looks twice only where there is one."""
    largest = np.uint32(0)
    for j in range(n):
        largest = max(largest, np.uint32(merged[j] & SIGN_OFF))
    return count_bad(merged, n) if largest >= EXPONENT else 0


@njit(cache=True, nogil=True)
def merge_block(
    rows: Rows, n: int, rule: Rule, thresholds: np.ndarray, cutoffs: np.ndarray, out: np.ndarray, figures: Figures
) -> None:
    """Merge one block of one tensor into `out` (uint32, fp32 bit patterns) and add to its figures.

    `thresholds` uint32 and `cutoffs` int64, one a member: |δ| below the threshold is trimmed, at it kept
    before position `cutoff` of this block; threshold 0 keeps all.
    """
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    s = new_scratch(rule.weights.size)
    lanes = np.zeros((SUMS, LANES), np.float64)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        merged = out[start : start + size]
        figures.bad[0] += load(rows, 0, start, size, base)
        gather(rows, start, size, rule, thresholds, cutoffs, base, value, delta, s, figures)
        if rule.method == TIES:
            elect(rule.weights, size, rule.zero_plus, s)
            if rule.guard:
                figures.counts[SMALL_DIVISOR] += count_small(rule.weights, size, s)
        elif rule.method == TASK_ARITHMETIC:
            for j in range(size):
                s.mixed[j] = s.total[j]
        combine(base.view(np.float32), size, rule, s, merged.view(np.float32))
        figures.counts[OVERFLOW] += count_not_finite(merged, size)
        if not rule.figures:
            continue
        count_election(size, rule.method == TIES, s, figures.counts)
        find_factor(size, rule, s)
        count_influence(size, rule.method == TIES, rule.zero_plus, s, figures.flips)
        count_rounding(base, merged, size, s.place, lanes, figures)
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, figures.sums[start // SUB_BLOCK])
            close_shares(s.lanes, figures.shares[start // SUB_BLOCK])

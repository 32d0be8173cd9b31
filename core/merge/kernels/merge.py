"""The fused merge of one block: trim, elect, merge, scale, add the base, and count on the way."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

from typing import NamedTuple

import numpy as np
from numba import njit

from core.merge.kernels.bits import SIGN_OFF, Rows, count_bad, load
from core.merge.kernels.layout import CHUNK, SUB_BLOCK, SUMS, Count, Figures
from core.merge.kernels.rounding import close_sub_block, count_rounding

TIES, TASK_ARITHMETIC, LINEAR = 0, 1, 2
CHANGED_0, SOLO, CHANGED_2 = int(Count.CHANGED_0), int(Count.SOLO), int(Count.CHANGED_2)
UNANIMOUS, CONTESTED, ZERO_SUM = int(Count.UNANIMOUS), int(Count.CONTESTED), int(Count.ZERO_SUM)
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


class Scratch(NamedTuple):
    """Room for one chunk; all (CHUNK,) but `x`."""

    total: np.ndarray
    mixed: np.ndarray
    divisor: np.ndarray
    absolute: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    x: np.ndarray
    """float32 (members, CHUNK): kept weighted deltas."""


@njit(cache=True, nogil=True, inline="always")
def trim(delta: np.ndarray, bits: np.ndarray, n: int, threshold: np.uint32, kept_before: int) -> int:
    """Zero the deltas below the threshold; those at it are kept below position `kept_before`.

    Gives how many non-zero deltas were zeroed.
    """
    trimmed = 0
    if kept_before <= 0 or kept_before >= n:
        lowest = threshold if kept_before >= n else threshold + np.uint32(1)
        for j in range(n):
            magnitude = bits[j] & SIGN_OFF
            gone = magnitude < lowest
            trimmed += gone and magnitude != 0
            delta[j] = ZERO if gone else delta[j]
        return trimmed
    for j in range(n):
        magnitude = bits[j] & SIGN_OFF
        if magnitude < threshold or (magnitude == threshold and j >= kept_before):
            trimmed += magnitude != 0
            delta[j] = ZERO
    return trimmed


@njit(cache=True, nogil=True, inline="always")
def vote(x: np.ndarray, n: int, s: Scratch) -> None:
    """Add one member's weighted deltas to the sum and to the two counts of signs."""
    for j in range(n):
        s.total[j] += x[j]
        s.positive[j] += np.int32(x[j] > ZERO)
        s.negative[j] += np.int32(x[j] < ZERO)


@njit(cache=True, nogil=True, inline="always")
def elect(weights: np.ndarray, n: int, s: Scratch) -> None:
    """Sum each element's deltas and weights over the members that agree with the sign of the sum."""
    for j in range(n):
        s.mixed[j] = ZERO
        s.divisor[j] = ZERO
    for i in range(weights.size):
        weight, x = weights[i], s.x[i]
        for j in range(n):
            agrees = (x[j] > ZERO) if s.total[j] >= ZERO else (x[j] < ZERO)
            s.mixed[j] += x[j] if agrees else ZERO
            s.divisor[j] += weight if agrees else ZERO


@njit(cache=True, nogil=True, inline="always")
def count_small(weights: np.ndarray, n: int, s: Scratch) -> int:
    """How many divisors are small against the agreeing members' Σ|w|."""
    for j in range(n):
        s.absolute[j] = ZERO
    for i in range(weights.size):
        size, x = abs(weights[i]), s.x[i]
        for j in range(n):
            agrees = (x[j] > ZERO) if s.total[j] >= ZERO else (x[j] < ZERO)
            s.absolute[j] += size if agrees else ZERO
    small = 0
    for j in range(n):
        small += abs(s.divisor[j]) < SMALL * s.absolute[j]
    return small


@njit(cache=True, nogil=True, inline="always")
def count_election(n: int, s: Scratch, counts: np.ndarray) -> None:
    """Tally how many members voted on each element, and how."""
    nobody = solo = unanimous = contested = zero_sum = 0
    for j in range(n):
        voters = s.positive[j] + s.negative[j]
        both = (s.positive[j] != 0) & (s.negative[j] != 0)
        nobody += voters == 0
        solo += voters == 1
        contested += both
        unanimous += (voters > 1) & (not both)
        zero_sum += (voters > 0) & (s.total[j] == ZERO)
    counts[CHANGED_0] += nobody
    counts[SOLO] += solo
    counts[CHANGED_2] += n - nobody - solo
    counts[UNANIMOUS] += unanimous
    counts[CONTESTED] += contested
    counts[ZERO_SUM] += zero_sum


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
        s.mixed[j] = ZERO
        s.positive[j] = 0
        s.negative[j] = 0
    for i in range(rule.weights.size):
        load(rows, i + 1, start, n, value)
        figures.bad[i + 1] += count_bad(value, n)
        moved = 0
        for j in range(n):
            delta[j] = value_f[j] - base_f[j]
            moved += delta[j] != ZERO
        figures.changed[i] += moved
        if thresholds[i] > 0:
            figures.trimmed[i] += trim(delta, bits, n, thresholds[i], cutoffs[i] - start)
        weight, x = rule.weights[i], s.x[i]
        for j in range(n):
            x[j] = delta[j] * weight
        if rule.method == LINEAR:
            for j in range(n):
                s.mixed[j] += value_f[j] * weight
        vote(x, n, s)


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


@njit(cache=True, nogil=True)
def new_scratch(members: int) -> Scratch:
    """Room for one chunk of so many members."""
    f32, i32 = np.float32, np.int32
    return Scratch(
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, f32),
        np.empty(CHUNK, i32),
        np.empty(CHUNK, i32),
        np.empty((members, CHUNK), f32),
    )


@njit(cache=True, nogil=True)
def merge_block(
    rows: Rows, n: int, rule: Rule, thresholds: np.ndarray, cutoffs: np.ndarray, out: np.ndarray, figures: Figures
) -> None:
    """Merge one block of one tensor into `out` (uint32, fp32 bit patterns) and add to its figures.

    `thresholds` uint32 and `cutoffs` int64, one a member: |δ| below the threshold is trimmed, at it kept
    before position `cutoff` of this block; threshold 0 keeps all.
    """
    base, value, merged = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    s = new_scratch(rule.weights.size)
    rounding = np.empty((2, CHUNK), np.uint32)
    lanes = np.zeros((SUMS, CHUNK), np.float64)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        figures.bad[0] += count_bad(base, size)
        gather(rows, start, size, rule, thresholds, cutoffs, base, value, delta, s, figures)
        count_election(size, s, figures.counts)
        if rule.method == TIES:
            elect(rule.weights, size, s)
            if rule.guard:
                figures.counts[SMALL_DIVISOR] += count_small(rule.weights, size, s)
        elif rule.method == TASK_ARITHMETIC:
            for j in range(size):
                s.mixed[j] = s.total[j]
        combine(base.view(np.float32), size, rule, s, merged.view(np.float32))
        figures.counts[OVERFLOW] += count_bad(merged, size)
        count_rounding(base, merged, size, rounding, lanes, figures)
        for j in range(size):
            out[start + j] = merged[j]
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, figures.sums[start // SUB_BLOCK])

"""What casting a merged chunk to bf16 loses against its base: counts, sums and a histogram."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

import numpy as np
from numba import njit

from core.merge.kernels.bits import EXPONENT, Rows, count_bad, load, round_bits
from core.merge.kernels.layout import BINS, CHUNK, LOWEST_BIN, SUB_BLOCK, SUMS, Count, Figures

CHANGED, LOST = int(Count.CHANGED), int(Count.LOST)


@njit(cache=True, nogil=True, inline="always")
def count_rounding(
    base: np.ndarray, merged: np.ndarray, n: int, scratch: np.ndarray, lanes: np.ndarray, figures: Figures
) -> None:
    """Add one chunk's rounding figures; `base` and `merged` are fp32 bit patterns.

    `lanes` is float64 (SUMS, CHUNK): each lane sums its own elements, so the order is fixed. `scratch` is
    uint32 (2, CHUNK).
    """
    base_f, merged_f = base.view(np.float32), merged.view(np.float32)
    base_r, merged_r = scratch[0], scratch[1]
    base_rf, merged_rf = base_r.view(np.float32), merged_r.view(np.float32)
    for j in range(n):
        base_r[j] = round_bits(base[j])
        merged_r[j] = round_bits(merged[j])
    changed = lost = 0
    for j in range(n):
        moved = merged_f[j] != base_f[j]
        changed += moved
        lost += moved & (merged_rf[j] == base_rf[j])
    figures.counts[CHANGED] += changed
    figures.counts[LOST] += lost
    for j in range(n):
        b, m, r = np.float64(base_f[j]), np.float64(merged_f[j]), np.float64(merged_rf[j])
        step = r - np.float64(base_rf[j])
        lanes[0, j] += (m - b) * (m - b)
        lanes[1, j] += (r - m) * (r - m)
        lanes[2, j] += (m - b) * step
        lanes[3, j] += step * step
        lanes[4, j] += b * b
    count_steps(base, base_f, merged_f, n, base_r.view(np.int32), figures.bins)


@njit(cache=True, nogil=True, inline="always")
def count_steps(
    base: np.ndarray, base_f: np.ndarray, merged_f: np.ndarray, n: int, place: np.ndarray, bins: np.ndarray
) -> None:
    """Add |m − b| to the histogram in half ulps of b: a bin is a difference of two exponents.

    Half a bf16 ulp of b is 2^(e−8), with e = −126 for zero and subnormals; fp64 holds m − b with its
    exponent in place, subnormals included.
    """
    delta = np.empty(CHUNK, np.float64)
    words = delta.view(np.int64)
    for j in range(n):
        field = max(np.int32((base[j] & EXPONENT) >> np.uint32(23)), np.int32(1))
        place[j] = field - np.int32(127) - np.int32(8) + np.int32(LOWEST_BIN)
        delta[j] = np.float64(merged_f[j]) - np.float64(base_f[j])
    for j in range(n):
        exponent = np.int32((words[j] >> 52) & 2047) - np.int32(1023)
        inside = min(max(exponent - place[j], np.int32(0)), np.int32(BINS - 1))
        place[j] = inside if merged_f[j] != base_f[j] else np.int32(BINS)
    for j in range(n):
        bins[j & 3, place[j]] += 1


@njit(cache=True, nogil=True)
def close_sub_block(lanes: np.ndarray, sums: np.ndarray) -> None:
    """Reduce the lanes in order to one float64 each, and clear them."""
    for s in range(SUMS):
        total = 0.0
        for j in range(CHUNK):
            total += lanes[s, j]
            lanes[s, j] = 0.0
        sums[s] = total


@njit(cache=True, nogil=True)
def round_block(rows: Rows, n: int, figures: Figures) -> None:
    """The rounding figures alone, of row 1 (merged) against row 0 (base)."""
    base, merged = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    scratch = np.empty((2, CHUNK), np.uint32)
    lanes = np.zeros((SUMS, CHUNK), np.float64)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        load(rows, 1, start, size, merged)
        figures.bad[0] += count_bad(base, size)
        figures.bad[1] += count_bad(merged, size)
        count_rounding(base, merged, size, scratch, lanes, figures)
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, figures.sums[start // SUB_BLOCK])

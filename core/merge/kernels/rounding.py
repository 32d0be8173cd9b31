"""What casting a merged chunk to bf16 loses against its base: counts, sums and a histogram."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

import numpy as np
from numba import njit

from core.merge.kernels.bits import EXPONENT, Rows, as_float, exponent_of, load, round_bits
from core.merge.kernels.layout import BINS, CHUNK, LANES, LOWEST_BIN, SUB_BLOCK, SUMS, Count, Figures

CHANGED, LOST = int(Count.CHANGED), int(Count.LOST)


@njit(cache=True, nogil=True, inline="always")
def add_lanes(base: np.ndarray, merged: np.ndarray, start: int, n: int, lanes: np.ndarray) -> tuple[np.int32, np.int32]:
    """Add n elements, at most LANES, one to each lane of float64 (SUMS, LANES); gives how many changed, and of
    those how many are lost."""
    changed, lost = np.int32(0), np.int32(0)
    for lane in range(n):
        bits, moved_bits = base[start + lane], merged[start + lane]
        b32, m32 = as_float(bits), as_float(moved_bits)
        r32, s32 = as_float(round_bits(moved_bits)), as_float(round_bits(bits))
        moved = m32 != b32
        changed += np.int32(moved)
        lost += np.int32(moved & (r32 == s32))
        b, m, r = np.float64(b32), np.float64(m32), np.float64(r32)
        step = r - np.float64(s32)
        lanes[0, lane] += (m - b) * (m - b)
        lanes[1, lane] += (r - m) * (r - m)
        lanes[2, lane] += (m - b) * step
        lanes[3, lane] += step * step
        lanes[4, lane] += b * b
    return changed, lost


@njit(cache=True, nogil=True, inline="always")
def count_rounding(
    base: np.ndarray, merged: np.ndarray, n: int, place: np.ndarray, lanes: np.ndarray, figures: Figures
) -> None:
    """Add one chunk's rounding figures; `base` and `merged` are fp32 bit patterns.

    `lanes` is float64 (SUMS, LANES); `place` is int32 (CHUNK,), scratch.
    """
    whole = n - n % LANES
    changed = lost = 0
    for start in range(0, whole, LANES):
        more, gone = add_lanes(base, merged, start, LANES, lanes)
        changed += more
        lost += gone
    if whole < n:
        more, gone = add_lanes(base, merged, whole, n - whole, lanes)
        changed += more
        lost += gone
    figures.counts[CHANGED] += changed
    figures.counts[LOST] += lost
    count_steps(base, merged, n, place, figures.bins)


@njit(cache=True, nogil=True, inline="always")
def count_steps(base: np.ndarray, merged: np.ndarray, n: int, place: np.ndarray, bins: np.ndarray) -> None:
    """Add |m − b| to the histogram in half ulps of b: a bin is a difference of two exponents.

    Half a bf16 ulp of b is 2^(e−8), with e = −126 for zero and subnormals; fp64 holds m − b with its
    exponent in place, subnormals included.
    """
    for j in range(n):
        field = max(np.int32((base[j] & EXPONENT) >> np.uint32(23)), np.int32(1))
        unit = field - np.int32(127) - np.int32(8) + np.int32(LOWEST_BIN)
        delta = np.float64(as_float(merged[j])) - np.float64(as_float(base[j]))
        inside = min(max(exponent_of(delta) - unit, np.int32(0)), np.int32(BINS - 1))
        place[j] = inside if delta != 0.0 else np.int32(BINS)
    for j in range(n):
        bins[j & 3, place[j]] += 1


@njit(cache=True, nogil=True)
def close_sub_block(lanes: np.ndarray, sums: np.ndarray) -> None:
    """Reduce the lanes (any, LANES) in order to one float64 each, and clear them."""
    for s in range(lanes.shape[0]):
        total = 0.0
        for lane in range(LANES):
            total += lanes[s, lane]
            lanes[s, lane] = 0.0
        sums[s] = total


@njit(cache=True, nogil=True)
def round_block(rows: Rows, n: int, figures: Figures) -> None:
    """The rounding figures alone, of row 1 (merged) against row 0 (base)."""
    base, merged = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    place = np.empty(CHUNK, np.int32)
    lanes = np.zeros((SUMS, LANES), np.float64)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        figures.bad[0] += load(rows, 0, start, size, base)
        figures.bad[1] += load(rows, 1, start, size, merged)
        count_rounding(base, merged, size, place, lanes, figures)
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, figures.sums[start // SUB_BLOCK])

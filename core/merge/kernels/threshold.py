"""Histograms of |δ| bit patterns, from which the exact trim threshold follows without a sort."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

import numpy as np
from numba import njit

from core.merge.kernels.bits import SIGN_OFF, Rows, load
from core.merge.kernels.layout import CHUNK

HIGH_BITS, LOW_BITS = 16, 15
LOW_MASK = np.uint32((1 << LOW_BITS) - 1)
SPARE, SPARES = np.uint32(1 << LOW_BITS), 64


@njit(cache=True, nogil=True, inline="always")
def load_delta(
    rows: Rows, row: int, start: int, n: int, base: np.ndarray, value: np.ndarray, delta: np.ndarray
) -> None:
    """Put a member's deltas of a chunk in `delta` (fp32); `base` holds the base's bits, `value` is scratch."""
    load(rows, row, start, n, value)
    base_f, value_f = base.view(np.float32), value.view(np.float32)
    for j in range(n):
        delta[j] = value_f[j] - base_f[j]


@njit(cache=True, nogil=True)
def count_high(rows: Rows, n: int, counts: np.ndarray) -> None:
    """Add |δ| of each member to a histogram over the upper 16 of its 31 magnitude bits.

    `counts` is int64 (members, 2**16).
    """
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        for i in range(counts.shape[0]):
            load_delta(rows, i + 1, start, size, base, value, delta)
            row = counts[i]
            for j in range(size):
                row[(bits[j] & SIGN_OFF) >> np.uint32(LOW_BITS)] += 1


@njit(cache=True, nogil=True)
def count_low(rows: Rows, n: int, high: np.ndarray, counts: np.ndarray) -> None:
    """As `count_high` over the lower 15 bits, for magnitudes whose upper bits are `high[member]`.

    `counts` is int64 (members, 2**15 + SPARES), where all other magnitudes go to the spare bins: that is
    quicker than a branch. A member with `high` = -1 is left out.
    """
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    place = np.empty(CHUNK, np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        for i in range(high.size):
            if high[i] < 0:
                continue
            load_delta(rows, i + 1, start, size, base, value, delta)
            wanted = np.uint32(high[i])
            for j in range(size):
                magnitude = bits[j] & SIGN_OFF
                inside = (magnitude >> np.uint32(LOW_BITS)) == wanted
                place[j] = (magnitude & LOW_MASK) if inside else SPARE + np.uint32(j & (SPARES - 1))
            row = counts[i]
            for j in range(size):
                row[place[j]] += 1


@njit(cache=True, nogil=True)
def find_tie(rows: Rows, n: int, member: int, threshold: np.uint32, wanted: int) -> tuple[int, int]:
    """Look for the `wanted`-th element (from 1) of a member whose |δ| has the bits `threshold`.

    Gives (position + 1, 0) when it is in this block, else (-1, elements still wanted).
    """
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        load_delta(rows, member + 1, start, size, base, value, delta)
        found = 0
        for j in range(size):
            found += (bits[j] & SIGN_OFF) == threshold
        if found < wanted:
            wanted -= found
            continue
        for j in range(size):
            wanted -= (bits[j] & SIGN_OFF) == threshold
            if wanted == 0:
                return start + j + 1, 0
    return -1, wanted

"""Counts of |δ| bit patterns, from which the exact trim threshold follows without a sort.

`count_window` counts around a guess and collects what lies between two magnitudes; the histograms need no guess.
"""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

import numpy as np
from numba import njit

from core.merge.kernels.bits import BF16, F32, SIGN_OFF, Rows, load
from core.merge.kernels.layout import CHUNK

ABOVE, AT_HIGH, INSIDE, AT_LOW = 0, 1, 2, 3
"""Places in the counts of a window."""

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


@njit(cache=True, nogil=True, inline="always")
def load_some(rows: Rows, row: int, stride: int, values: np.ndarray) -> None:
    """Every `stride`-th element of a row as fp32."""
    code = rows.codes[row]
    bits = values.view(np.uint32)
    for k in range(values.size):
        if code == F32:
            bits[k] = rows.raw32[row, k * stride]
        elif code == BF16:
            bits[k] = np.uint32(rows.raw16[row, k * stride]) << np.uint32(16)
        else:
            bits[k] = rows.table[rows.raw16[row, k * stride]]


@njit(cache=True, nogil=True)
def sample_magnitudes(rows: Rows, stride: int, found: np.ndarray) -> None:
    """Put the bits of every `stride`-th |δ| of each member in `found`, uint32 (members, ⌈n / stride⌉)."""
    base, value = np.empty(found.shape[1], np.float32), np.empty(found.shape[1], np.float32)
    load_some(rows, 0, stride, base)
    for i in range(found.shape[0]):
        load_some(rows, i + 1, stride, value)
        for k in range(base.size):
            value[k] -= base[k]
        bits, row = value.view(np.uint32), found[i]
        for k in range(base.size):
            row[k] = bits[k] & SIGN_OFF


@njit(cache=True, nogil=True)
def collect(bits: np.ndarray, n: int, bottom: np.uint32, top: np.uint32, mask: np.ndarray, found: np.ndarray) -> None:
    """Put the magnitudes between two in `found`, as far as there is room; looks at eight at a time.

    `mask` is uint8 (CHUNK,), scratch.
    """
    for j in range(n):
        magnitude = np.uint32(bits[j] & SIGN_OFF)
        mask[j] = (magnitude > bottom) & (magnitude < top)
    mask[n:] = np.uint8(0)
    place, eights = 0, mask.view(np.uint64)
    for k in range(eights.size):
        if eights[k]:
            for j in range(8 * k, 8 * k + 8):
                if mask[j] and place < found.size:
                    found[place] = bits[j] & SIGN_OFF
                    place += 1


@njit(cache=True, nogil=True)
def count_window(
    rows: Rows, n: int, wanted: np.ndarray, low: np.ndarray, high: np.ndarray, counts: np.ndarray, found: np.ndarray
) -> None:
    """Count each wanted member's |δ| above `high`, at it, between the two, and at `low`; collect those between.

    `wanted` bool, `low` ≤ `high` uint32, one a member (equal ones count as `high`); `counts` int64 (members, 4);
    `found` uint32 (members, room): what does not fit is counted and dropped.
    """
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    mask = np.empty(CHUNK, np.uint8)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        for i in range(wanted.size):
            if not wanted[i]:
                continue
            load_delta(rows, i + 1, start, size, base, value, delta)
            top, bottom = high[i], low[i]
            above, at_high, at_low, below = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
            for j in range(size):
                magnitude = np.uint32(bits[j] & SIGN_OFF)
                above += np.int32(magnitude > top)
                at_high += np.int32(magnitude == top)
                at_low += np.int32(magnitude == bottom)
                below += np.int32(magnitude < bottom)
            if top == bottom:
                at_low = np.int32(0)
            inside = size - above - at_high - at_low - below
            if inside:
                collect(bits, size, bottom, top, mask, found[i, counts[i, INSIDE] :])
            counts[i, ABOVE] += above
            counts[i, AT_HIGH] += at_high
            counts[i, INSIDE] += inside
            counts[i, AT_LOW] += at_low


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


@njit(cache=True, nogil=True)
def sum_signs(rows: Rows, n: int, thresholds: np.ndarray) -> int:
    """Σ of the signs of the elements' sums over members, of the deltas that are not below `thresholds` (uint32)."""
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta, total = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    signs = 0
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(rows, 0, start, size, base)
        for j in range(size):
            total[j] = np.float32(0)
        for i in range(thresholds.size):
            load_delta(rows, i + 1, start, size, base, value, delta)
            for j in range(size):
                total[j] += delta[j] if np.uint32(bits[j] & SIGN_OFF) >= thresholds[i] else np.float32(0)
        for j in range(size):
            signs += int(total[j] > 0) - int(total[j] < 0)
    return signs

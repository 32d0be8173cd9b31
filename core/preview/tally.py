"""Compiled loops over sampled blocks: the merge kernel on each, trim thresholds, and elements near them.

The arithmetic is the merge's own (`core.merge.kernels.merge_block`); here blocks are only handed to it and its
figures copied out, a row a block. Importing this module imports numba. Knows nothing about files or intervals.
"""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from numba import njit

from core.merge.kernels import Count, Figures, Rows, Rule, merge_block
from core.merge.kernels.bits import SIGN_OFF, load
from core.merge.kernels.layout import CHUNK
from core.merge.kernels.threshold import load_delta
from core.merge.trim import KEEP_NOTHING

CHANGED, LOST, SOLO = int(Count.CHANGED), int(Count.LOST), int(Count.SOLO)
UNANIMOUS, CONTESTED, ZERO_SUM = int(Count.UNANIMOUS), int(Count.CONTESTED), int(Count.ZERO_SUM)
SHARED = ("elements", "changed", "lost", "solo", "unanimous", "contested", "zero_sum", "squares")
"""Columns of a block; `squares` is Σ(merged − base)²."""
EACH = ("changed", "kept", "flips", "part", "alone")
"""Columns of a block and member: elements that differ from the base, those of them that the trim leaves, elected
signs that need it, its part of |merged δ|, and of that the part where it votes alone."""
SHARED_COUNT, EACH_COUNT = len(SHARED), len(EACH)

# Kept with the merge kernels' compiled code, whose folder is named by their source: numba would not notice
# a change in what these functions call.
_before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(Path(merge_block.stats.cache_path).parent)


class Raw(NamedTuple):
    """Blocks of raw bytes, of every model of a merge."""

    raw16: np.ndarray
    """uint16 (blocks, rows, …): a view of the same bytes as `raw32`; row 0 is the base."""
    raw32: np.ndarray
    """uint32 (blocks, rows, …)."""
    codes: np.ndarray
    """int64 (tensors, rows): how to read each row, see `Rows`."""
    tensor: np.ndarray
    """int64 (blocks,): the tensor of each block."""
    sizes: np.ndarray
    """int64 (blocks,): elements of each block."""
    starts: np.ndarray
    """int64 (blocks,): sampled elements of the same tensor before it."""
    table: np.ndarray
    """HALF_TO_FLOAT."""


class Limits(NamedTuple):
    """What is trimmed of each block, see `merge_block`."""

    at: np.ndarray
    """int64 (n,): which block of `Raw`."""
    thresholds: np.ndarray
    """uint32 (n, members)."""
    cutoffs: np.ndarray
    """int64 (n, members): counted from the block's first element."""


@njit(cache=True, nogil=True)
def merge_each(
    raw: Raw, limits: Limits, first: int, last: int, rule: Rule, figures: Figures, out: np.ndarray,
    shared: np.ndarray, each: np.ndarray, bad: np.ndarray,
) -> None:  # fmt: skip
    """Merge blocks `first` … `last` one by one and copy their figures out.

    `figures` and `out` (uint32, a block's elements) are scratch. Fills `shared` float64 (n, SHARED), `each` float64
    (n, members, EACH) and `bad` int64 (n, rows), the values that are not finite.
    """
    for b in range(first, last):
        at = limits.at[b]
        figures.counts[:] = 0
        figures.bad[:] = 0
        figures.changed[:] = 0
        figures.trimmed[:] = 0
        figures.flips[:] = 0
        n = raw.sizes[at]
        rows = Rows(raw.raw16[at], raw.raw32[at], raw.codes[raw.tensor[at]], raw.table)
        merge_block(rows, n, rule, limits.thresholds[b], limits.cutoffs[b], out, figures)
        shared[b, 0] = n
        shared[b, 1] = figures.counts[CHANGED]
        shared[b, 2] = figures.counts[LOST]
        shared[b, 3] = figures.counts[SOLO]
        shared[b, 4] = figures.counts[UNANIMOUS]
        shared[b, 5] = figures.counts[CONTESTED]
        shared[b, 6] = figures.counts[ZERO_SUM]
        shared[b, 7] = figures.sums[0, 0]
        for i in range(each.shape[1]):
            each[b, i, 0] = figures.changed[i]
            each[b, i, 1] = figures.changed[i] - figures.trimmed[i]
            each[b, i, 2] = figures.flips[i]
            each[b, i, 3] = figures.shares[0, i, 0]
            each[b, i, 4] = figures.shares[0, i, 1]
        for row in range(bad.shape[1]):
            bad[b, row] = figures.bad[row]


@njit(cache=True, nogil=True, inline="always")
def block_magnitudes(raw: Raw, block: int, member: int, out: np.ndarray) -> None:
    """Bits of |δ| of one member over one block, into `out` (uint32)."""
    base, value, delta = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    rows = Rows(raw.raw16[block], raw.raw32[block], raw.codes[raw.tensor[block]], raw.table)
    for start in range(0, raw.sizes[block], CHUNK):
        size = min(CHUNK, raw.sizes[block] - start)
        load(rows, 0, start, size, base)
        load_delta(rows, member + 1, start, size, base, value, delta)
        for j in range(size):
            out[start + j] = bits[j] & SIGN_OFF


@njit(cache=True, nogil=True)
def all_magnitudes(raw: Raw, member: int, out: np.ndarray) -> None:
    """Bits of |δ| of one member over all blocks, one after the other, into `out` (uint32)."""
    at = 0
    for block in range(raw.sizes.size):
        block_magnitudes(raw, block, member, out[at : at + raw.sizes[block]])
        at += raw.sizes[block]


@njit(cache=True, nogil=True)
def find_limits(
    magnitudes: np.ndarray, ordered: np.ndarray, edges: np.ndarray, wanted: np.ndarray, least: int, share: float,
    thresholds: np.ndarray, cutoffs: np.ndarray, around: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """One member's trim of each tensor's sampled elements, where `wanted` int64 (tensors,) are not all of them.

    `magnitudes` are uint32 in file order, `ordered` ascending within each tensor; tensor t lies at `edges[t]` …
    `edges[t + 1]`. Fills per tensor the threshold (uint32), the place before which ties stay (int64), `around` uint32
    (2, tensors), the magnitudes `share` of the elements by rank (at least `least`) below and above the threshold, and
    how many elements lie between; 0 where the threshold matters to nothing.
    """
    for t in range(wanted.size):
        here, n = ordered[edges[t] : edges[t + 1]], edges[t + 1] - edges[t]
        if wanted[t] >= n:
            continue
        if wanted[t] == 0:
            thresholds[t] = KEEP_NOTHING
            continue
        threshold = here[n - wanted[t]]
        if threshold == 0:
            continue
        left = np.searchsorted(here, threshold, side="left")
        right = np.searchsorted(here, threshold, side="right")
        ties, cutoff = wanted[t] - (n - right), n
        if ties < right - left:
            cutoff = 0
            while ties > 0:
                ties -= magnitudes[edges[t] + cutoff] == threshold
                cutoff += 1
        half = max(least, round(share * n))
        thresholds[t], cutoffs[t] = threshold, cutoff
        around[0, t] = max(np.uint32(1), here[max(0, n - wanted[t] - half)])
        around[1, t] = here[min(n - 1, n - wanted[t] + half - 1)]
        below = np.searchsorted(here, around[0, t], side="left")
        counts[t] = np.searchsorted(here, around[1, t], side="right") - below


@njit(cache=True, nogil=True)
def gather_near(
    raw: Raw, magnitudes: np.ndarray, first: int, last: int, low: np.uint32, high: np.uint32, stride: int, group: int,
    raw16: np.ndarray, raw32: np.ndarray, positions: np.ndarray,
) -> int:  # fmt: skip
    """Copy every `stride`-th element of blocks `first` … `last` with low ≤ |δ| ≤ high into one row of a new `Raw`.

    `magnitudes` uint32 are those of one member over these blocks, one after the other. `raw16`, `raw32`
    (groups, rows, …) and `positions` int64 (groups, cap), the place of each among the tensor's sampled elements, are
    filled at `group`. Gives how many.
    """
    count = seen = start = 0
    for block in range(first, last):
        codes = raw.codes[raw.tensor[block]]
        for j in range(raw.sizes[block]):
            if magnitudes[start + j] < low or magnitudes[start + j] > high:
                continue
            seen += 1
            if seen % stride or count >= positions.shape[1]:
                continue
            positions[group, count] = start + j
            for row in range(codes.size):
                if codes[row] == 2:
                    raw32[group, row, count] = raw.raw32[block, row, j]
                else:
                    raw16[group, row, count] = raw.raw16[block, row, j]
            count += 1
        start += raw.sizes[block]
    return count


numba.config.CACHE_DIR = _before

"""Compiled loops that keep the merged values of sampled blocks, compare two merges of them, and see what knobs reach.

The merge is `core.merge.kernels.merge_block`. Importing this module imports numba. Knows nothing about files or
intervals.
"""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

from pathlib import Path

import numba
import numpy as np
from numba import njit

from core.merge.kernels import Figures, Rows, Rule, merge_block
from core.merge.kernels.bits import as_float, load, round_bits
from core.merge.kernels.layout import CHUNK
from core.merge.kernels.merge import trim
from core.merge.kernels.threshold import load_delta
from core.preview.tally import Limits, Raw

DIFFERENCE = ("elements", "visible", "turned", "gone", "distance", "one", "other", "cross")
"""Columns of a block: elements; those whose bf16 value is another; whose change points the other way; that only the
first merge changes; and Σ of (one − other)², (one − base)², (other − base)², (one − base)(other − base)."""
REACH = ("elements", "changed", "weights", "tau", "normalize", "trimmed")
"""Columns of a block: elements; those that a member still changes after the trim; whose merged value depends on the
weights; on τ; on the division; and where the trim drops a change."""
DIFFERENCE_COUNT, REACH_COUNT = len(DIFFERENCE), len(REACH)

# As in `core.preview.tally`.
_before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(Path(merge_block.stats.cache_path).parent)


@njit(cache=True, nogil=True)
def merge_into(
    raw: Raw, limits: Limits, first: int, last: int, rule: Rule, figures: Figures, out: np.ndarray, kept: np.ndarray
) -> None:
    """Merge blocks `first` … `last` into `out`, uint32 (n, block) of fp32 bit patterns; `figures` is scratch.

    Fills `kept` float64 (n, members), each member's changes that the trim leaves.
    """
    for b in range(first, last):
        figures.changed[:] = 0
        figures.trimmed[:] = 0
        rows = Rows(raw.raw16[b], raw.raw32[b], raw.codes[raw.tensor[b]], raw.table)
        merge_block(rows, raw.sizes[b], rule, limits.thresholds[b], limits.cutoffs[b], out[b], figures)
        for i in range(kept.shape[1]):
            kept[b, i] = figures.changed[i] - figures.trimmed[i]


@njit(cache=True, nogil=True)
def difference(raw: Raw, one: np.ndarray, other: np.ndarray, first: int, last: int, sums: np.ndarray) -> None:
    """Compare two merges of blocks `first` … `last`, uint32 (n, block); fills `sums` float64 (n, DIFFERENCE)."""
    base = np.empty(CHUNK, np.uint32)
    for b in range(first, last):
        rows = Rows(raw.raw16[b], raw.raw32[b], raw.codes[raw.tensor[b]], raw.table)
        row = sums[b]
        row[:] = 0.0
        row[0] = raw.sizes[b]
        for start in range(0, raw.sizes[b], CHUNK):
            size = min(CHUNK, raw.sizes[b] - start)
            load(rows, 0, start, size, base)
            for j in range(size):
                x, y = one[b, start + j], other[b, start + j]
                zero = np.float64(as_float(base[j]))
                here, there = np.float64(as_float(x)) - zero, np.float64(as_float(y)) - zero
                row[1] += as_float(round_bits(x)) != as_float(round_bits(y))
                row[2] += here * there < 0
                row[3] += (here != 0) & (there == 0)
                row[4] += (here - there) * (here - there)
                row[5] += here * here
                row[6] += there * there
                row[7] += here * there


@njit(cache=True, nogil=True)
def count_reach(
    raw: Raw, limits: Limits, first: int, last: int, normalize: bool, groups: np.ndarray, counts: np.ndarray
) -> None:
    """What the knobs can reach in blocks `first` … `last`; `groups` int64 (members,): equal where weights always are.

    Fills `counts` float64 (n, REACH + members), the last with each member's changes that the trim leaves. With
    `normalize` the merged value is a weighted mean of changes, which weights move only where the changes that are left
    differ; without, a sum, which they leave alone only where all are equal.
    """
    members = groups.size
    one_group = True
    for i in range(members):
        one_group &= groups[i] == groups[0]
    base, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    delta, leader = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    group, voters = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    unlike, mixed, against = np.empty(CHUNK, np.bool_), np.empty(CHUNK, np.bool_), np.empty(CHUNK, np.bool_)
    dropped, before = np.empty(CHUNK, np.bool_), np.empty(CHUNK, np.bool_)
    for b in range(first, last):
        rows = Rows(raw.raw16[b], raw.raw32[b], raw.codes[raw.tensor[b]], raw.table)
        row = counts[b]
        row[:] = 0.0
        row[0] = raw.sizes[b]
        for start in range(0, raw.sizes[b], CHUNK):
            size = min(CHUNK, raw.sizes[b] - start)
            load(rows, 0, start, size, base)
            voters[:] = 0
            unlike[:] = mixed[:] = against[:] = dropped[:] = False
            for i in range(members):
                load_delta(rows, i + 1, start, size, base, value, delta)
                if limits.thresholds[b, i] > 0:
                    for j in range(size):
                        before[j] = delta[j] != 0
                    trim(delta, bits, size, limits.thresholds[b, i], limits.cutoffs[b, i] - start)
                    for j in range(size):
                        dropped[j] |= before[j] & (delta[j] == 0)
                for j in range(size):
                    if delta[j] == 0:
                        continue
                    row[REACH_COUNT + i] += 1
                    if voters[j] == 0:
                        leader[j], group[j] = delta[j], groups[i]
                    else:
                        unlike[j] |= delta[j] != leader[j]
                        against[j] |= (delta[j] > 0) != (leader[j] > 0)
                        mixed[j] |= groups[i] != group[j]
                    voters[j] += 1
            for j in range(size):
                some = voters[j] > 0
                open_weights = unlike[j] if normalize else some & (unlike[j] | (voters[j] < members))
                row[1] += some
                row[2] += open_weights
                row[3] += open_weights & (mixed[j] if normalize else not one_group)
                row[4] += some & ((voters[j] < members) | against[j])
                row[5] += dropped[j]


numba.config.CACHE_DIR = _before

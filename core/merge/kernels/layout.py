"""What the kernels count, and in which places. Plain numbers; no compiled code."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

CHUNK = 1024
"""Elements worked on at a time, so that scratch stays in the first caches; divides SUB_BLOCK."""
SUB_BLOCK = 65536
"""Elements behind each float64 partial sum, whatever the block size."""
BINS = 24
LOWEST_BIN = -12
"""The histogram counts |δ| in half ulps: bin i holds [2^(i-12), 2^(i-11)), first and last are open."""
SUMS = 5
"""Partial sums of a sub-block: (m−b)², (r−m)², (m−b)(r−s), (r−s)², b²; r is bf16(m), s is bf16(b)."""


class Count(IntEnum):
    """Places in `Figures.counts`."""

    CHANGED_0 = 0
    SOLO = 1
    CHANGED_2 = 2
    UNANIMOUS = 3
    CONTESTED = 4
    ZERO_SUM = 5
    SMALL_DIVISOR = 6
    CHANGED = 7
    LOST = 8
    OVERFLOW = 9


COUNTS = len(Count)


class Figures(NamedTuple):
    """What is counted over one block; kernels add to it."""

    counts: np.ndarray
    """int64 (COUNTS,): elements, see `Count`."""
    bad: np.ndarray
    """int64 (rows,): NaN or infinite values of each input, the base's first."""
    changed: np.ndarray
    """int64 (members,): elements that differ from the base."""
    trimmed: np.ndarray
    """int64 (members,): of those, how many the trim dropped."""
    bins: np.ndarray
    """int64 (4, BINS + 1): histograms to be added up; the last column counts what did not change."""
    sums: np.ndarray
    """float64 (sub-blocks, SUMS)."""

    @classmethod
    def zeros(cls, members: int, elements: int) -> "Figures":
        """Room for one block."""
        return cls(
            np.zeros(COUNTS, np.int64),
            np.zeros(members + 1, np.int64),
            np.zeros(members, np.int64),
            np.zeros(members, np.int64),
            np.zeros((4, BINS + 1), np.int64),
            np.zeros((-(-elements // SUB_BLOCK), SUMS), np.float64),
        )

"""What the kernels count, and in which places. Plain numbers; no compiled code."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

CHUNK = 512
"""Elements worked on at a time, so that scratch stays in the first cache; divides SUB_BLOCK."""
LANES = 64
"""Every float sum runs in so many lanes, element j in lane j mod LANES, which are added in order; divides CHUNK."""
SUB_BLOCK = 65536
"""Elements behind each float64 partial sum, whatever the block size."""
BINS = 24
LOWEST_BIN = -12
"""The histogram counts |δ| in half ulps: bin i holds [2^(i-12), 2^(i-11)), first and last are open."""
SUMS = 5
"""Partial sums of a sub-block: (m−b)², (r−m)², (m−b)(r−s), (r−s)², b²; r is bf16(m), s is bf16(b)."""
SHARES = 2
"""Partial sums of a sub-block and member: its part of |merged δ|, and of that the part where it is alone."""


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
    flips: np.ndarray
    """int64 (members,): elements where another member votes too, and whose elected sign is another without it."""
    bins: np.ndarray
    """int64 (4, BINS + 1): histograms to be added up; the last column counts what did not change."""
    sums: np.ndarray
    """float64 (sub-blocks, SUMS)."""
    shares: np.ndarray
    """float64 (sub-blocks, members, SHARES)."""

    @classmethod
    def zeros(cls, members: int, elements: int) -> "Figures":
        """Room for one block."""
        sub_blocks = -(-elements // SUB_BLOCK)
        return cls(
            np.zeros(COUNTS, np.int64),
            np.zeros(members + 1, np.int64),
            np.zeros(members, np.int64),
            np.zeros(members, np.int64),
            np.zeros(members, np.int64),
            np.zeros((4, BINS + 1), np.int64),
            np.zeros((sub_blocks, SUMS), np.float64),
            np.zeros((sub_blocks, members, SHARES), np.float64),
        )

"""What rounding fp32 to bf16 takes away, encoded so that both together give the fp32 back exactly.

Takes and gives bit patterns. The residual of a value is the lower 16 bits of its fp32 pattern. Those and the bf16 are
enough except for exact ties (lower half 0x8000), which round to an even bf16 from above and from below: one more bit
says for each tie, in order, whether it was rounded up. Reads no file.
"""

import numpy as np

TIE = np.uint32(0x8000)
EXPONENT = np.uint32(0x7F800000)


def encode(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finite fp32 patterns, uint32 (n,), as bf16 (uint16 (n,)), residual (uint16 (n,)) and ties (bool (ties,)).

    The bf16 is the nearest, ties to even; a value above the largest bf16 becomes infinite and comes back all the same.
    """
    low = (bits & np.uint32(0xFFFF)).astype(np.uint16)
    high = bits >> np.uint32(16)
    odd = high & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    return rounded, low, odd[low == TIE].astype(bool)


def decode(rounded: np.ndarray, low: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """The fp32 patterns, uint32 (n,), of what `encode` gave."""
    up = low > TIE
    up[low == TIE] = ties
    high = rounded.astype(np.uint32) - up.astype(np.uint32)
    return np.asarray((high << np.uint32(16)) | low.astype(np.uint32), np.uint32)


def not_finite(bits: np.ndarray) -> int:
    """How many fp32 patterns are NaN or infinite."""
    return int(np.count_nonzero((bits & EXPONENT) == EXPONENT))

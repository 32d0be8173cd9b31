"""Bit patterns: widening bf16 and fp16 to fp32, rounding fp32 to bf16, spotting NaN and infinity."""

from typing import NamedTuple

import numpy as np
from numba import njit

BF16, F16, F32 = 0, 1, 2

SIGN_OFF = np.uint32(0x7FFFFFFF)
EXPONENT = np.uint32(0x7F800000)

HALF_TO_FLOAT = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
"""fp32 bit pattern of every fp16 bit pattern."""


class Rows(NamedTuple):
    """One block of several tensors, the base's (or reference's) first."""

    raw16: np.ndarray
    """uint16 (rows, …): a view of the same bytes as `raw32`."""
    raw32: np.ndarray
    """uint32 (rows, …)."""
    codes: np.ndarray
    """int64 (rows,): BF16, F16 or F32, how to read each row."""
    table: np.ndarray
    """HALF_TO_FLOAT."""


@njit(cache=True, nogil=True, inline="always")
def load(rows: Rows, row: int, start: int, n: int, bits: np.ndarray) -> int:
    """Put elements start … start+n of a row, widened to fp32 bit patterns, in `bits`; gives how many are not finite."""
    code = rows.codes[row]
    largest = np.uint32(0)
    if code == BF16:
        narrow = rows.raw16[row, start : start + n]
        for j in range(n):
            bits[j] = np.uint32(narrow[j]) << np.uint32(16)
            largest = max(largest, np.uint32(bits[j] & SIGN_OFF))
    elif code == F32:
        wide = rows.raw32[row, start : start + n]
        for j in range(n):
            bits[j] = wide[j]
            largest = max(largest, np.uint32(bits[j] & SIGN_OFF))
    else:
        half = rows.raw16[row, start : start + n]
        for j in range(n):
            bits[j] = rows.table[half[j]]
            largest = max(largest, np.uint32(bits[j] & SIGN_OFF))
    return count_bad(bits, n) if largest >= EXPONENT else 0


@njit(cache=True, nogil=True, inline="always")
def count_bad(bits: np.ndarray, n: int) -> int:
    """How many of n fp32 bit patterns are NaN or infinite."""
    bad = 0
    for j in range(n):
        bad += (bits[j] & EXPONENT) == EXPONENT
    return bad


@njit(cache=True, nogil=True)
def as_float(bits: np.uint32) -> np.float32:
    """The fp32 of a bit pattern."""
    return np.uint32(bits).view(np.float32)


@njit(cache=True, nogil=True)
def exponent_of(value: np.float64) -> np.int32:
    """The unbiased exponent of a float64, −1023 for zero."""
    return np.int32((np.float64(value).view(np.int64) >> 52) & 2047) - np.int32(1023)


@njit(cache=True, nogil=True)
def round_bits(bits: np.uint32) -> np.uint32:
    """Bit pattern, still 32 wide, of the bf16 nearest to a finite fp32, ties to even."""
    odd = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(np.uint32(bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000))


@njit(cache=True, nogil=True)
def narrow_bf16(bits: np.ndarray, n: int, out: np.ndarray) -> int:
    """Write n finite fp32 bit patterns as bf16 in `out` (uint16); gives how many became infinite."""
    overflowed = 0
    for j in range(n):
        rounded = round_bits(bits[j])
        overflowed += (rounded & EXPONENT) == EXPONENT
        out[j] = np.uint16(rounded >> np.uint32(16))
    return overflowed

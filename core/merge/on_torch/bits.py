"""Bit patterns on a torch device: widening to fp32, rounding to bf16, spotting NaN and infinity.

torch has few operations on unsigned integers, so a pattern is an int32, or an int16 before it is widened. Left
shifts and sums wrap as unsigned ones do; a right shift brings copies of the sign, which are masked off.
"""

import torch
from torch import Tensor

BF16, F16 = 0, 1
SIGN_OFF = 0x7FFFFFFF
EXPONENT = 0x7F800000
UPPER_HALF = -65536
"""0xFFFF0000 as an int32."""


def widen(raw: Tensor, code: int, table: Tensor) -> Tensor:
    """fp32 bit patterns, int32, of bf16 or fp16 ones (int16), or of fp32 ones as they are (int32: not a copy).

    `table` is int32 (65536,): the fp32 pattern of every fp16 one.
    """
    if code == BF16:
        return raw.to(torch.int32).bitwise_left_shift_(16)
    if code == F16:
        return table.index_select(0, raw.to(torch.int32).bitwise_and_(0xFFFF))
    return raw


def as_float(bits: Tensor) -> Tensor:
    """The fp32 of int32 patterns: a view."""
    return bits.view(torch.float32)


def magnitude(values: Tensor) -> Tensor:
    """Patterns of |fp32 values|, int32: ordered as the values are."""
    return values.view(torch.int32) & SIGN_OFF


def count_bad(bits: Tensor) -> Tensor:
    """How many patterns are NaN or infinite, int64 ()."""
    return (bits & EXPONENT).eq_(EXPONENT).sum()


def exponent_of(values: Tensor) -> Tensor:
    """The unbiased exponents of float64 values, int32, −1023 for zero."""
    return ((values.view(torch.int64) >> 52) & 2047).to(torch.int32).sub_(1023)


def round_bits(bits: Tensor) -> Tensor:
    """Patterns, still 32 wide, of the bf16 nearest to finite fp32 ones, ties to even."""
    odd = (bits >> 16).bitwise_and_(1)
    return odd.add_(bits).add_(0x7FFF).bitwise_and_(UPPER_HALF)

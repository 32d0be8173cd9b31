"""What casting a merged slice to bf16 loses against its base; see `core.merge.kernels.rounding`."""

from typing import NamedTuple

import torch
from torch import Tensor

from core.merge.kernels.layout import BINS, LOWEST_BIN, SUMS
from core.merge.on_torch.bits import EXPONENT, as_float, exponent_of, round_bits
from core.merge.on_torch.sums import add_groups, width_of


class Rounding(NamedTuple):
    """Figures of one slice, on the device."""

    changed: Tensor
    """int64 ()."""
    lost: Tensor
    bins: Tensor
    """int64 (4 · (BINS + 1),)."""
    lanes: Tensor
    """float64 (SUMS, sub-blocks, LANES)."""


def count_rounding(base: Tensor, merged: Tensor) -> Rounding:
    """The rounding figures of int32 (n,) fp32 bit patterns."""
    rounded, before = round_bits(merged), round_bits(base)
    moved = as_float(merged) != as_float(base)
    lost = (as_float(rounded) == as_float(before)).logical_and_(moved)
    b, m = as_float(base).double(), as_float(merged).double()
    bins = count_steps(base, m - b)
    lanes = add_groups(_products(b, m, as_float(rounded).double(), as_float(before).double()))
    return Rounding(moved.sum(), lost.sum(), bins, lanes)


def _products(b: Tensor, m: Tensor, r: Tensor, s: Tensor) -> Tensor:
    """(m−b)², (r−m)², (m−b)(r−s), (r−s)² and b², float64 (SUMS, width)."""
    n = b.numel()
    room = torch.zeros((SUMS, width_of(n)), dtype=torch.float64, device=b.device)
    moved, error, step = m - b, r - m, r - s
    pairs = ((moved, moved), (error, error), (moved, step), (step, step), (b, b))
    for row, (one, other) in zip(room, pairs, strict=True):
        torch.mul(one, other, out=row[:n])
    return room


def count_steps(base: Tensor, delta: Tensor) -> Tensor:
    """Histograms of |m − b| (float64) in half ulps of b (bit patterns), int64 (4 · (BINS + 1),): one an index mod 4."""
    field = ((base & EXPONENT) >> 23).clamp_(min=1)
    place = exponent_of(delta).sub_(field).add_(127 + 8 - LOWEST_BIN).clamp_(0, BINS - 1)
    place.masked_fill_(delta == 0, BINS)
    place += (torch.arange(base.numel(), dtype=torch.int32, device=base.device) & 3) * (BINS + 1)
    return torch.bincount(place, minlength=4 * (BINS + 1))

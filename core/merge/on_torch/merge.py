"""The merge of one slice: trim, elect, merge, scale, add the base, and count; see `core.merge.kernels.merge`.

Every fp32 operation is its own torch operation, on tensors only, in member order. Then each result is the IEEE one:
- CUDA keeps subnormals and divides with correct rounding unless it is compiled with -ftz=true or -prec-div=false
  (CUDA C++ Programming Guide, Floating-Point Standard), which torch is not; `torch.set_flush_denormal` is about the
  CPU, and left alone.
- No multiply and add meet in one kernel, so none can be fused.
- A divisor that is a Python number, or lies on the CPU, would be turned into a reciprocal on CUDA
  (aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu): the constants of a rule lie on the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.merge.kernels.layout import LANES, SHARES, SUB_BLOCK, Figures
from core.merge.kernels.merge import LINEAR, OVERFLOW, SMALL, SMALL_DIVISOR, TIES, Rule
from core.merge.kernels.rounding import CHANGED, LOST
from core.merge.on_torch.bits import as_float, count_bad, magnitude
from core.merge.on_torch.influence import Ballot, add_shares, count_election, count_flips, elected
from core.merge.on_torch.rounding import count_rounding
from core.merge.on_torch.sums import close
from core.merge.on_torch.tally import Tally

Load = Callable[[int], Tensor]
"""Gives a row of the slice as int32 fp32 bit patterns on the device."""


class Constants(NamedTuple):
    """A rule's numbers on the device, each float32 (1,)."""

    weights: list[Tensor]
    sizes: list[Tensor]
    """|w|."""
    divide_by: Tensor
    scale: Tensor
    factor: Tensor
    """What an agreeing weighted delta is multiplied by in the end, but for the divisor of TIES."""
    small: Tensor
    slack: Tensor

    @classmethod
    def of(cls, rule: Rule, device: torch.device) -> "Constants":
        """One copy takes them all there."""
        members = rule.weights.size
        factor = np.abs(np.float32(rule.scale))
        if rule.divide_by != 0 and rule.method != TIES:
            factor = factor / np.abs(np.float32(rule.divide_by))
        slack = np.float32((members + 2) * 2.0**-23)
        rest = [rule.divide_by, rule.scale, factor, SMALL, slack]
        values = np.concatenate([rule.weights, np.abs(rule.weights), np.array(rest, np.float32)])
        there = list(torch.from_numpy(values).to(device).split(1))
        return cls(there[:members], there[members : 2 * members], *there[2 * members :])


def trim(delta: Tensor, threshold: int, kept_before: int) -> Tensor:
    """Zero the deltas below the threshold, and those at it from position `kept_before` on.

    Gives how many non-zero deltas were zeroed, int64 ().
    """
    size = magnitude(delta)
    gone = size < threshold
    at = max(0, kept_before)
    gone[at:] |= size[at:] == threshold
    delta.masked_fill_(gone, 0.0)
    return gone.logical_and_(size != 0).sum()


@dataclass(frozen=True, eq=False)
class Slice:
    """A part of a block, how to merge it, and where its figures go."""

    load: Load
    start: int
    """Its first element in the block, a multiple of SUB_BLOCK."""
    rule: Rule
    constants: Constants
    thresholds: list[int]
    kept_before: list[int]
    """Elements at the threshold are kept before this position of the slice."""
    figures: Figures
    tally: Tally


def gather(one: Slice, base: Tensor) -> Ballot:
    """Read every member's slice: trimmed weighted deltas, their sum and signs. `base` is float32 (n,)."""
    n, members = base.numel(), one.rule.weights.size

    def zeros(dtype: torch.dtype) -> Tensor:
        return torch.zeros(n, dtype=dtype, device=base.device)

    x = torch.empty((members, n), dtype=torch.float32, device=base.device)
    f32, i16 = torch.float32, torch.int16
    ballot = Ballot(x, zeros(f32), zeros(f32), zeros(i16), zeros(i16), zeros(f32))
    for i, weight in enumerate(one.constants.weights):
        bits = one.load(i + 1)
        one.tally.add(one.figures.bad, i + 1, count_bad(bits))
        value = as_float(bits)
        delta = value - base
        one.tally.add(one.figures.changed, i, (delta != 0).sum())
        if one.thresholds[i] > 0:
            one.tally.add(one.figures.trimmed, i, trim(delta, one.thresholds[i], one.kept_before[i]))
        if one.rule.method == LINEAR:
            ballot.mixed += value * weight
        torch.mul(delta, weight, out=x[i])
        ballot.total += x[i]
        ballot.absolute += x[i].abs()
        ballot.positive += x[i] > 0
        ballot.negative += x[i] < 0
    return ballot


def elect(one: Slice, ballot: Ballot) -> None:
    """Elect each element's sign; sum deltas and weights over the members that agree with it; count small divisors."""
    sign, zero = elected(ballot.total, one.rule.zero_plus), torch.zeros_like(ballot.total)
    divisor, sizes = torch.zeros_like(zero), torch.zeros_like(zero)
    for x, weight, size in zip(ballot.x, one.constants.weights, one.constants.sizes, strict=True):
        agrees = x * sign > 0
        ballot.mixed += torch.where(agrees, x, zero)
        divisor += torch.where(agrees, weight, zero)
        if one.rule.guard:
            sizes += torch.where(agrees, size, zero)
    if one.rule.guard:
        one.tally.add(one.figures.counts, SMALL_DIVISOR, (divisor.abs() < one.constants.small * sizes).sum())
    ballot.sign, ballot.divisor = sign, divisor


def combine(one: Slice, base: Tensor, ballot: Ballot) -> Tensor:
    """Divide, scale and add the base: the merged values, float32 (n,)."""
    mixed, divisor = ballot.mixed, ballot.divisor
    if one.rule.divide_by != 0:
        mixed /= one.constants.divide_by if divisor is None else divisor.masked_fill(divisor == 0, 1.0)
    if one.rule.scale != 1:
        mixed *= one.constants.scale
    return mixed if one.rule.method == LINEAR else base + mixed


def factor_of(one: Slice, ballot: Ballot) -> Tensor:
    """What the agreeing weighted deltas are multiplied by in the end, without its sign: float32 (n,) or (1,)."""
    if one.rule.divide_by == 0 or ballot.divisor is None:
        return one.constants.factor
    return one.constants.factor / ballot.divisor.abs().masked_fill_(ballot.divisor == 0, 1.0)


def merge_slice(one: Slice) -> Tensor:
    """Merge a slice; gives its fp32 bit patterns, int32 (n,). Its figures wait in the tally."""
    base = one.load(0)
    one.tally.add(one.figures.bad, 0, count_bad(base))
    ballot = gather(one, as_float(base))
    if one.rule.method == TIES:
        elect(one, ballot)
    elif one.rule.method != LINEAR:
        ballot.mixed = ballot.total.clone()
    merged = combine(one, as_float(base), ballot).view(torch.int32)
    one.tally.add(one.figures.counts, OVERFLOW, count_bad(merged))
    if one.rule.figures:
        _influence(one, ballot)
        del ballot
        _rounding(one, base, merged)
    return merged


def _influence(one: Slice, ballot: Ballot) -> None:
    contested = count_election(ballot, one.figures.counts, one.tally)
    if one.rule.method == TIES:
        flips = count_flips(ballot, contested, one.constants.slack, one.rule.zero_plus)
        for member, count in enumerate(flips):
            one.tally.add(one.figures.flips, member, count)
    sub_block = one.start // SUB_BLOCK

    def set_shares(lanes: np.ndarray) -> None:
        shares = close(lanes.reshape(-1, SHARES, lanes.shape[1], LANES))
        one.figures.shares[sub_block : sub_block + shares.shape[2]] = shares.transpose(2, 0, 1)

    one.tally.give(set_shares, add_shares(ballot, factor_of(one, ballot)))


def _rounding(one: Slice, base: Tensor, merged: Tensor) -> None:
    found, sub_block = count_rounding(base, merged), one.start // SUB_BLOCK
    one.tally.add(one.figures.counts, CHANGED, found.changed)
    one.tally.add(one.figures.counts, LOST, found.lost)

    def add_bins(bins: np.ndarray) -> None:
        one.figures.bins[:] += bins.reshape(one.figures.bins.shape)

    def set_sums(lanes: np.ndarray) -> None:
        sums = close(lanes)
        one.figures.sums[sub_block : sub_block + sums.shape[1]] = sums.T

    one.tally.give(add_bins, found.bins)
    one.tally.give(set_sums, found.lanes)

"""What each member does to the merge of a slice; see `core.merge.kernels.influence`."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.merge.kernels.influence import CHANGED_0, CHANGED_2, CONTESTED, SOLO, UNANIMOUS, ZERO_SUM
from core.merge.kernels.layout import CHUNK, LANES, SHARES
from core.merge.on_torch.sums import add_folded, fold, width_of
from core.merge.on_torch.tally import Tally


@dataclass(eq=False)
class Ballot:
    """One slice's votes and what comes of them; all (n,) but `x`."""

    x: Tensor
    """float32 (members, n): kept weighted deltas."""
    total: Tensor
    """float32: their sum, in member order."""
    absolute: Tensor
    """float32: Σ|x|, from which a bound on the rounding error of `total` follows."""
    positive: Tensor
    """int16: members that vote +."""
    negative: Tensor
    mixed: Tensor
    """float32: Σ of the agreeing, later the merged delta."""
    sign: Tensor | None = None
    """float32: the elected sign, 1 or −1; None where nothing is elected."""
    divisor: Tensor | None = None
    """float32: the agreeing members' Σw; None where nothing is elected."""


def elected(total: Tensor, zero_plus: bool) -> Tensor:
    """The sign of each sum, fp32 1 or −1."""
    plus = total >= 0 if zero_plus else total > 0
    return plus.to(torch.float32).mul_(2).sub_(1)


def count_election(ballot: Ballot, counts: np.ndarray, tally: Tally) -> Tensor:
    """Tally how many members voted on each element, and how; gives the contested elements, bool (n,)."""
    voters = ballot.positive + ballot.negative
    contested = (ballot.positive > 0) & (ballot.negative > 0)
    several = voters > 1
    for place, which in (
        (CHANGED_0, voters == 0),
        (SOLO, voters == 1),
        (CHANGED_2, several),
        (UNANIMOUS, several & ~contested),
        (CONTESTED, contested),
        (ZERO_SUM, (voters > 0) & (ballot.total == 0)),
    ):
        tally.add(counts, place, which.sum())
    return contested


def count_flips(ballot: Ballot, contested: Tensor, slack: Tensor, zero_plus: bool) -> list[Tensor]:
    """Of each member, the contested elements whose elected sign is another without it, int64 ().

    `slack` is float32 (1,). As in the kernels: where `total − x` is farther from zero than rounding can move it,
    its sign is the answer; elsewhere the others are added up again, in member order.
    """
    assert ballot.sign is not None
    bound = ballot.absolute * slack
    near = bound.masked_fill(~contested, -1.0)
    far = bound.neg_().masked_fill_(~contested, -torch.inf)
    flips = []
    for member, x in enumerate(ballot.x):
        rest = ballot.total - x
        flipped = (rest * ballot.sign < far).sum()
        unsure = torch.nonzero(rest.abs_() <= near).squeeze(1)
        if unsure.numel():
            others = torch.zeros(unsure.numel(), dtype=torch.float32, device=x.device)
            for index, other in enumerate(ballot.x):
                if index != member:
                    others += other[unsure]
            flipped += (elected(others, zero_plus) != ballot.sign[unsure]).sum()
        flips.append(flipped)
    return flips


def add_shares(ballot: Ballot, factor: Tensor) -> Tensor:
    """Lanes, float64 (members · SHARES, sub-blocks, LANES), of each agreeing member's |weighted delta| × factor,
    and of that where no other member votes. `factor` is float32 (n,) or (1,)."""
    members, n = ballot.x.shape
    width = width_of(n)
    alone = (ballot.positive + ballot.negative) == 1
    folded = torch.empty((members, SHARES, width // CHUNK * LANES), dtype=torch.float32, device=factor.device)
    for x, room in zip(ballot.x, folded, strict=True):
        mine = x.abs() if ballot.sign is None else x * ballot.sign
        mine = factor * mine
        both = torch.zeros((SHARES, width), dtype=torch.float32, device=factor.device)
        torch.where(mine > 0, mine, both[0, :n], out=both[0, :n])
        torch.where(alone, both[0, :n], both[1, :n], out=both[1, :n])
        room.copy_(fold(both))
    return add_folded(folded.view(members * SHARES, -1))

"""What one pass counted over each tensor, per member and in total; as plain values and back.

Takes the kernels' counts of a tensor's blocks; gives `TensorFigures`. Knows nothing about files or threads.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import CheckpointError, RunError
from core.merge.pairing import TensorJob
from core.precision.figures import RoundingSums, sums_of_blocks

if TYPE_CHECKING:
    from core.merge.kernels import Figures

ELECTION = (
    "members_changed_0", "members_changed_1", "members_changed_2plus", "unanimous", "contested", "zero_sum",
    "small_divisor",
)  # fmt: skip
"""Elements that no, one, or more members vote on (kept weighted delta not zero); where two or more vote, alike or
not; where the votes cancel to exactly zero; where the divisor is below 1 % of the agreeing members' Σ|w|."""
MEMBER = ("member_changed", "member_trimmed", "member_flips", "member_delta", "member_solo")


@dataclass(frozen=True, eq=False)
class TensorFigures:
    """What the pass counted over one tensor."""

    job: TensorJob
    election: dict[str, int]
    """Elements by how they were elected; see `ELECTION`."""
    member_changed: tuple[int, ...]
    """Of each member, elements that differ from the base."""
    member_trimmed: tuple[int, ...]
    """Of those, how many the trim dropped."""
    member_flips: tuple[int, ...]
    """Elements where another member votes too, and whose elected sign is another if this one is left out."""
    member_delta: tuple[float, ...]
    """Σ|merged delta| that comes from each member: its agreeing weighted deltas, divided and scaled."""
    member_solo: tuple[float, ...]
    """Of that, where no other member votes."""
    rounding: RoundingSums

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which `from_dict` makes the same figures to the bit."""
        one = self.rounding
        sums = {"elements": one.elements, "changed": one.changed, "lost": one.lost, "sums": list(one.sums)}
        return {
            "election": self.election,
            **{name: list(getattr(self, name)) for name in MEMBER},
            "rounding": sums | {"histogram": one.histogram.tolist()},
        }

    @classmethod
    def from_dict(cls, job: TensorJob, value: Mapping[str, Any]) -> "TensorFigures":
        """The figures that `as_dict` gave."""
        one = value["rounding"]
        rounding = RoundingSums(
            one["elements"], one["changed"], one["lost"], tuple(one["sums"]), np.array(one["histogram"], np.int64)
        )
        return cls(job, dict(value["election"]), rounding=rounding, **{name: tuple(value[name]) for name in MEMBER})


def add_up_blocks(job: TensorJob, blocks: Sequence["Figures"]) -> TensorFigures:
    """One tensor's figures from those of its blocks, in order; the float sums do not depend on the blocks' sizes.

    Raises CheckpointError for a non-finite input, RunError where the result does not fit its dtype.
    """
    from core.merge.kernels import Count

    counts, bad, changed, trimmed, flips = (np.sum(one, axis=0) for one in zip(*(b[:5] for b in blocks), strict=True))
    refuse_bad(job, bad, int(counts[Count.OVERFLOW]))
    bins = np.concatenate([one.bins for one in blocks])
    lost, moved = int(counts[Count.LOST]), int(counts[Count.CHANGED])
    rounding = sums_of_blocks(job.elements, moved, lost, [one.sums for one in blocks], bins)
    shares = np.concatenate([one.shares for one in blocks])
    delta, solo = ([math.fsum(column) for column in shares[:, :, which].T] for which in range(2))
    election = dict(zip(ELECTION, (int(one) for one in counts), strict=False))
    changed, trimmed, flips = (tuple(int(one) for one in column) for column in (changed, trimmed, flips))
    return TensorFigures(job, election, changed, trimmed, flips, tuple(delta), tuple(solo), rounding)


def refuse_bad(job: TensorJob, bad: np.ndarray, overflowed: int) -> None:
    """Raise CheckpointError for a non-finite input, RunError for a result that does not fit its dtype."""
    for info, count in zip(job.inputs, bad, strict=True):
        if count:
            raise CheckpointError(
                f"{info.file.parent}: tensor {info.name} has {count:,} values that are NaN or infinite, "
                f"of {job.elements:,}. Expected finite weights: this checkpoint cannot be merged."
            )
    if overflowed:
        raise RunError(
            f"tensor {job.name}: {overflowed:,} merged values do not fit {job.out_dtype}. "
            "Choose a wider out_dtype, such as float32."
        )


def total_election(figures: Sequence[TensorFigures]) -> dict[str, Any]:
    """Figures over all tensors; the members' are lists in plan order, with the shares of the merged delta.

    `member_share` is each member's part of Σ|merged delta|, `member_solo_share` how much of its own part is solo.
    """
    totals: dict[str, Any] = {name: sum(one.election[name] for one in figures) for name in ELECTION}
    for name in MEMBER:
        columns = zip(*(getattr(one, name) for one in figures), strict=True)
        totals[name] = [math.fsum(c) if name in ("member_delta", "member_solo") else sum(c) for c in columns]
    whole = math.fsum(totals["member_delta"])
    totals["member_share"] = [one / whole if whole else 0.0 for one in totals["member_delta"]]
    pairs = zip(totals["member_solo"], totals["member_delta"], strict=True)
    totals["member_solo_share"] = [solo / mine if mine else 0.0 for solo, mine in pairs]
    return totals

"""What a preview says, as plain data: every figure an estimate with a 95 % interval, and of which kind.

Takes arrays from `core.preview.estimate`; gives dictionaries for JSON and rows for a table. Computes nothing.
"""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from core.preview.design import Design
from core.preview.intervals import Both, Bounds

SHARES = ("changed", "solo", "unanimous", "contested", "zero_sum")
"""Shares of all elements: that the merge changes; that one member votes on; that several vote on, alike or not; where
the votes cancel to exactly zero."""
FIGURES = ("rounding_loss", *SHARES, "merged_norm")
"""With the share of changed elements that bf16 rounds back to the base, and ‖merged − base‖."""
EACH_MEMBER = ("changed", "share", "solo_share", "flips")
"""Shares of elements that a member changes; of Σ|merged δ| that is its own; of that, where it votes alone; of elements
whose elected sign would be another without it, among those where another member votes too."""


class Figure(NamedTuple):
    """One figure; the interval of an exact one has no width. NaN where there is nothing to estimate."""

    estimate: float
    low: float
    high: float
    kind: Literal["exact", "sampled"]

    def as_dict(self) -> dict[str, float | str | None]:
        """For JSON: numbers that it does not have are None."""
        numbers = {name: float(getattr(self, name)) for name in ("estimate", "low", "high")}
        return {name: one if np.isfinite(one) else None for name, one in numbers.items()} | {"kind": self.kind}


@dataclass(frozen=True, eq=False)
class Preview:
    """Figures of a merge, a tensor each and in total."""

    method: str
    seed: int
    names: tuple[str, ...]
    """The tensors."""
    members: tuple[Path, ...]
    design: Design
    bytes_read: int
    figures: dict[str, Both]
    """By FIGURES; arrays (tensors,) and ()."""
    of_members: dict[str, Both]
    """By EACH_MEMBER; arrays (tensors, members) and (members,)."""
    cosines: Both
    """Of the task vectors of all pairs of members, in the order of `itertools.combinations`: (tensors, pairs)."""
    warnings: tuple[str, ...]
    seconds: float
    """What this estimate took, without the reading."""

    def tensor(self, at: int) -> dict[str, Figure]:
        """The figures of one tensor, by FIGURES."""
        exact = bool(self.design.exact[at])
        return {name: _figure(both.tensors, at, exact) for name, both in self.figures.items()}

    @property
    def total(self) -> dict[str, Figure]:
        """The figures of all tensors together, by FIGURES."""
        return {name: _figure(both.total, (), self.exact) for name, both in self.figures.items()}

    @property
    def exact(self) -> bool:
        """Whether every tensor was read whole."""
        return bool(self.design.exact.all())

    def member(self, at: int, tensor: int | None = None) -> dict[str, Figure]:
        """The figures of one member, by EACH_MEMBER, in total or in one tensor."""
        return {name: self._place(both, at, tensor) for name, both in self.of_members.items()}

    def pair(self, at: int, tensor: int | None = None) -> Figure:
        """The cosine of one pair of task vectors, in total or in one tensor."""
        return self._place(self.cosines, at, tensor)

    def _place(self, both: Both, at: int, tensor: int | None) -> Figure:
        if tensor is None:
            return _figure(both.total, at, self.exact)
        return _figure(both.tensors, (tensor, at), bool(self.design.exact[tensor]))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which members each cosine is of."""
        return list(combinations(range(len(self.members)), 2))

    def as_dict(self, *, full: bool = False) -> dict[str, Any]:
        """For JSON; `full` gives members and cosines of every tensor too."""
        return {
            "method": self.method,
            "seed": self.seed,
            "block_elements": self.design.block,
            "blocks": int(self.design.numbers.size),
            "elements": int(self.design.elements.sum()),
            "elements_read": int(self.design.sizes.sum()),
            "bytes_read": self.bytes_read,
            "seconds": self.seconds,
            "total": _dicts(self.total),
            "tensors": [self._tensor_dict(at, full) for at in range(len(self.names))],
            "members": self._members(None),
            "cosines": self._cosines(None),
            "warnings": list(self.warnings),
        }

    def _tensor_dict(self, at: int, full: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.names[at], "elements": int(self.design.elements[at])}
        found |= {"blocks": int(self.design.taken[at])} | _dicts(self.tensor(at))
        return found | ({"members": self._members(at), "cosines": self._cosines(at)} if full else {})

    def _members(self, tensor: int | None) -> list[dict[str, Any]]:
        return [{"path": str(one)} | _dicts(self.member(at, tensor)) for at, one in enumerate(self.members)]

    def _cosines(self, tensor: int | None) -> list[dict[str, Any]]:
        return [
            {"first": str(self.members[one]), "second": str(self.members[two])} | self.pair(at, tensor).as_dict()
            for at, (one, two) in enumerate(self.pairs)
        ]


def _figure(bounds: Bounds, at: int | tuple[int, ...], exact: bool) -> Figure:
    estimate, low, high = (float(one[at]) for one in bounds)
    return Figure(estimate, low, high, "exact" if exact else "sampled")


def _dicts(figures: dict[str, Figure]) -> dict[str, Any]:
    return {name: one.as_dict() for name, one in figures.items()}

"""What each member did to a finished merge, as rows for a table and one sentence about them.

Takes the plan and the election figures of a `MergeResult`; gives plain values. Computes shares, and draws nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.merge.plan import Plan

NOTABLE = 3.0
"""A member whose solo part of the merged change is so many times its part of the weights is worth a sentence."""


@dataclass(frozen=True)
class MemberRow:
    """One member of a merge."""

    name: str
    weight: float
    changed: float
    """Share of the parameters that it changed."""
    trimmed: int
    """Of its changes, how many the trim dropped."""
    flips: int
    """Parameters whose elected sign is another without it, where another member votes too."""
    share: float
    """Of Σ|merged delta|, what comes from it."""
    solo_share: float
    """Of that, where it votes alone."""


def member_rows(election: Mapping[str, Any], plan: Plan, elements: int) -> list[MemberRow]:
    """One row a member in plan order; empty where nothing was counted, as in merges of earlier versions."""
    if not election.get("member_share"):
        return []
    return [
        MemberRow(
            one.path.name,
            one.weight,
            election["member_changed"][at] / max(elements, 1),
            election["member_trimmed"][at],
            election["member_flips"][at],
            election["member_share"][at],
            election["member_solo_share"][at],
        )
        for at, one in enumerate(plan.members)
    ]


def outweighed(rows: list[MemberRow]) -> MemberRow | None:
    """The member whose changes that it alone made are furthest above its weight in the merge, where that is notable."""
    whole = sum(abs(one.weight) for one in rows)

    def alone(one: MemberRow) -> float:
        return one.share * one.solo_share

    found = [one for one in rows if whole and alone(one) > max(NOTABLE * abs(one.weight) / whole, 0.001)]
    return max(found, key=lambda one: alone(one) / max(abs(one.weight), 1e-12), default=None)

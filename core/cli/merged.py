"""What a finished merge says in a shell: its figures, then a row a member.

Takes the result as a plain dict and the plan; gives text. Computes nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.cli.output import table
from core.words import duration, file_size

if TYPE_CHECKING:
    from core.merge import Plan

HEADINGS = ["member", "weight", "changed", "trimmed", "signs that need it", "of the merged change", "alone"]


def as_text(found: Mapping[str, Any], plan: "Plan") -> str:
    """The figures of a merge, one a line, and a table of its members where they were counted."""
    election, rounding = found["election"], found["rounding"]
    lines: dict[str, Any] = {
        "merged": found["out"],
        "engine": f"{found['engine']}, {found['device']}",
        "tensors": f"{found['tensors']:,}, {found['elements']:,} parameters",
        "time": f"{duration(found['seconds'])}, {file_size(found['bytes_read'])} read, "
        f"{file_size(found['bytes_written'])} written, {file_size(found['peak_rss_bytes'])} of memory at most",
    }
    if election:
        lines["changed by members"] = (
            f"none {election['members_changed_0']:,}, one {election['members_changed_1']:,}, "
            f"more {election['members_changed_2plus']:,}"
        )
        lines["where more vote"] = (
            f"agreed {election['unanimous']:,}, contested {election['contested']:,}, "
            f"cancelled to zero {election['zero_sum']:,}"
        )
    if rounding:
        share = 100 * rounding["lost_fraction"]
        lines["lost in bf16"] = f"{rounding['lost']:,} of {rounding['changed']:,} changes ({share:.1f} %)"
    for number, warning in enumerate(found["warnings"], start=1):
        lines[f"warning {number}"] = warning
    said = "\n".join(f"{name:20}  {text}" for name, text in lines.items())
    return said + (f"\n\n{_members(election, plan, found['elements'])}" if election else "")


def _members(election: Mapping[str, Any], plan: "Plan", elements: int) -> str:
    """Each member's part: parameters it changed, elected signs that are others without it, its part of Σ|merged δ|."""
    rows = [
        [
            one.path.name,
            f"{one.weight:.6g}",
            f"{100 * election['member_changed'][at] / max(elements, 1):.2f} %",
            f"{election['member_trimmed'][at]:,}",
            f"{election['member_flips'][at]:,}",
            f"{100 * election['member_share'][at]:.2f} %",
            f"{100 * election['member_solo_share'][at]:.2f} %",
        ]
        for at, one in enumerate(plan.members)
    ]
    return table(rows, HEADINGS)

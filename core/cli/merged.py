"""What a finished merge says in a shell: its figures, then a row a member.

Takes the result as a plain dict and the plan; gives text. Computes nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.cli.output import table
from core.words import duration, file_size, percent

if TYPE_CHECKING:
    from core.merge import Plan

HEADINGS = ["member", "weight", "changed", "trimmed", "signs that need it", "of the merged change", "of that, alone"]


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
    """Each member's part, as `MemberRow` says."""
    from core.merge.members import member_rows

    rows = [
        [
            one.name,
            f"{one.weight:.6g}",
            percent(one.changed, 2),
            f"{one.trimmed:,}",
            f"{one.flips:,}",
            percent(one.share, 2),
            percent(one.solo_share, 2),
        ]
        for one in member_rows(election, plan, elements)
    ]
    return table(rows, HEADINGS)

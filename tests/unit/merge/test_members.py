"""Rows about members from a merge's figures, and which member is worth a sentence.

Run: .venv/bin/python -m pytest tests/unit/merge/test_members.py
"""

from pathlib import Path

from core.merge import parse_plan, run_merge
from core.merge.members import MemberRow, member_rows, outweighed
from tests.unit.merge.models import ties_config, write_pool


def test_rows_are_the_figures_of_the_merge(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path / "models", 2)
    plan = parse_plan(ties_config(base, members, [0.75, 0.25]), tmp_path)
    found = run_merge(plan, tmp_path / "out")
    rows = member_rows(found.election, plan, found.elements)
    assert [(one.name, one.weight) for one in rows] == [("member-0", 0.75), ("member-1", 0.25)]
    assert [one.changed * found.elements for one in rows] == found.election["member_changed"]
    assert abs(sum(one.share for one in rows) - 1) < 1e-12
    assert member_rows({"members_changed_0": 3}, plan, 10) == []


def test_a_member_far_above_its_weight_is_named() -> None:
    rows = [
        MemberRow("heavy", 0.99, 0.2, 0, 0, 0.7, 0.5),
        MemberRow("light", 0.01, 0.2, 0, 0, 0.3, 0.9),
    ]
    assert outweighed(rows) is rows[1]
    # Far above its weight, but not by what it changed alone: another reason, and no sentence about this one.
    assert outweighed([MemberRow("heavy", 0.9, 1, 0, 0, 0.5, 0), MemberRow("light", 0.1, 1, 0, 0, 0.5, 0)]) is None
    assert outweighed([MemberRow("one", 0.5, 1, 0, 0, 0.6, 0), MemberRow("two", 0.5, 1, 0, 0, 0.4, 0)]) is None

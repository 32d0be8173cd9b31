"""What each member did to a finished merge, as one of the parts of a run.

Takes one job of the ledger; draws the figures that its merge counted. Computes nothing.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.errors import MergescopeError
from core.words import percent
from pages.shared.runs import note
from pages.shared.show import plain, say


def members(job: Any) -> None:
    """A sentence about the election, then a row a member."""
    merge = (job.result or {}).get("merge") or {}
    election, text = merge.get("election") or {}, job.spec.get("plan") or job.spec.get("config")
    if not election.get("member_share") or not text:
        note("No figures of members: they are there once a merge on the streaming engine has finished.")
        return
    from core.merge import parse_plan
    from core.merge.members import member_rows, outweighed

    try:
        plan = parse_plan(text, Path(job.spec.get("where") or job.folder / "config.yml"))
    except MergescopeError as problem:
        say(problem)
        return
    rows = member_rows(election, plan, merge["elements"])
    note(_said(election))
    st.dataframe(
        _table(rows), hide_index=True, key="run_members",
        alt="Members of the merge: weight, share of parameters changed, and what each did to the result",
    )  # fmt: skip
    one = outweighed(rows)
    if one and plan.normalize:
        note(
            f"{plain(one.name)} has weight {one.weight:.3g} and {percent(one.share)} of the merged change, "
            f"{percent(one.solo_share)} of that alone: with normalize, what one member alone changed stays whole."
        )


def _said(election: dict[str, Any]) -> str:
    small = (
        f" {election['small_divisor']:,} were divided by less than 1 % of their members' weights."
        if election["small_divisor"]
        else ""
    )
    return (
        f"Measured by the merge. No member changed {election['members_changed_0']:,} parameters, one member "
        f"{election['members_changed_1']:,}, more than one {election['members_changed_2plus']:,}; these agreed on the "
        f"sign of {election['unanimous']:,} and not of {election['contested']:,}.{small}"
    )


def _table(rows: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "member": [one.name for one in rows],
            "weight": [f"{one.weight:.4g}" for one in rows],
            "changed": [percent(one.changed) for one in rows],
            "trimmed": [f"{one.trimmed:,}" for one in rows],
            "signs that need it": [f"{one.flips:,}" for one in rows],
            "of the merged change": [percent(one.share) for one in rows],
            "of that, alone": [percent(one.solo_share) for one in rows],
        }
    )

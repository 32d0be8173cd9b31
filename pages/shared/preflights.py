"""What a merge needs and what stands in its way, on screen: one check for every page that shows a plan.

Takes a mergekit config; gives the preflight of `core.merge` and words for it. Reads headers, never weights.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.words import amount, file_size
from pages.shared.runs import NEXT, note
from pages.shared.show import ledger

if TYPE_CHECKING:
    from core.merge import Preflight

SHOWN = 3
"""Problems shown at once; the shell lists all of them."""


def checked(plan: str, where: Path, *, same: tuple[Hashable, ...] | None = None) -> "Preflight":
    """Check a mergekit config as if its merge came next; remembered for a minute.

    `where` is the file that the config would lie in. `same` stands for the plan where only a part of it matters to
    the check, so that a slider does not read headers again. Raises PlanError for a config that cannot be parsed.
    """
    return _checked(same or (plan,), plan, str(where))


@st.cache_resource(max_entries=64, show_spinner=False, ttl="60s")
def _checked(key: tuple[Hashable, ...], _plan: str, where: str) -> "Preflight":
    from core.merge import parse_plan, preflight

    return preflight(parse_plan(_plan, Path(where)), ledger().home / NEXT)


def needs(found: "Preflight", copies: int = 1) -> str:
    """What the merge takes, in one sentence; `copies` merges of its size are written."""
    memory = f", and up to {file_size(found.memory_expected)} of memory" if found.memory_expected else ""
    return (
        f"{found.tensors:,} tensors, {amount(found.elements)} parameters. "
        f"Needs up to {file_size(found.disk_needed * copies)} of disk ({file_size(found.disk_free)} free){memory}."
    )


def obstacles(found: "Preflight") -> list[str]:
    """The first few things that stand in the way, and how many more there are."""
    more = len(found.problems) - SHOWN
    rest = [f"And {more:,} more: `python -m core merge CONFIG.yml OUT --check --json` lists them."] if more > 0 else []
    return [*found.problems[:SHOWN], *rest]


def particulars(found: "Preflight", key: str) -> None:
    """Each model in a line, and what to know before the merge; folded away."""
    count = len(found.warnings)
    title = f"Models, and {count} thing{'s' * (count != 1)} to know" if count else "Models"
    with st.expander(title, key=key):
        for one in found.models:
            words = [
                f"{amount(one.parameters)} parameters",
                *one.dtypes,
                *([f"{one.vocabulary:,} tokens"] if one.vocabulary else []),
            ]
            words += [*(["tied"] if one.tied else []), one.form, file_size(one.bytes)]
            note(f"{one.role} ({Path(one.folder).name}): {', '.join(words)}")
        for warning in found.warnings:
            note(warning)

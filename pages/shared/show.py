"""One way to draw a chart, its table and an error, so that every page looks and reads alike.

Takes figures from `core.charts`; a chart always has a text alternative, and a table when it shows
numbers. Knows nothing about banks or recipes.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import streamlit as st

if TYPE_CHECKING:
    import pandas as pd

    from core.jobs import Ledger

CONFIG = {
    "displaylogo": False,
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg"},
    "scrollZoom": False,
    "doubleClick": False,
}


def is_dark() -> bool:
    """True when the visitor's browser shows the dark theme."""
    return getattr(st.context.theme, "type", None) == "dark"


def chart(
    fig: Any,
    *,
    alt: str,
    key: str,
    table: "pd.DataFrame | Callable[[], pd.DataFrame] | None" = None,
    height: int | None = None,
    clickable: bool = False,
) -> list[dict[str, Any]]:
    """Draw a plotly figure with its text alternative and, behind a small button, its numbers.

    `table` may be a function, which is called only when the table is open. With `clickable`, gives
    the points of the latest click (each a dict with `customdata`), and an empty list otherwise.
    """
    options: dict[str, Any] = {"on_select": "rerun", "selection_mode": "points"} if clickable else {}
    with st.container(gap=None):
        event = st.plotly_chart(fig, key=key, theme=None, config=CONFIG, alt=alt, height=height or "content", **options)
        if table is not None:
            _table(table, alt, key)
    return list(event["selection"]["points"]) if clickable else []


def _table(table: "pd.DataFrame | Callable[[], pd.DataFrame]", alt: str, key: str) -> None:
    with st.container(horizontal=True, horizontal_alignment="right"):
        holder = st.popover(
            "Table", icon=":material/table_rows:", type="tertiary", key=f"{key}_table", on_change="rerun"
        )
    if holder.open:
        frame = table() if callable(table) else table
        holder.dataframe(frame, hide_index=True, alt=f"Table: {alt}", key=f"{key}_frame")


def ledger() -> "Ledger":
    """The ledger of runs of this machine; one for the whole server."""
    home = os.environ.get("MERGESCOPE_HOME")
    return _ledger(home or str(Path.cwd() / "runs"))


@st.cache_resource(max_entries=4, show_spinner=False)
def _ledger(home: str) -> "Ledger":
    from core.jobs import Ledger

    return Ledger(Path(home))


def say(problem: Exception) -> None:
    """Show an error that is meant for the user."""
    st.error(str(problem), icon=":material/error:")


def stop_with(problem: Exception) -> NoReturn:
    """Show an error that is meant for the user, and end the page here."""
    say(problem)
    st.stop()

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
    on_click: Callable[[list[dict[str, Any]]], None] | None = None,
) -> list[dict[str, Any]]:
    """Draw a plotly figure with its text alternative and, behind a small button, its numbers.

    `table` may be a function, which is called only when the table is open. `on_click` is called with
    the points of a click (each a dict with `customdata`) before the page is drawn again, so that it
    may set what widgets hold. With `clickable` instead, the points are given back once, in the run
    the click caused, and an empty list otherwise: plotly keeps its selection between runs, which
    would undo what is chosen elsewhere.
    """
    options: dict[str, Any] = {}
    if clickable or on_click:
        options = {"on_select": _handler(key, on_click) if on_click else "rerun", "selection_mode": "points"}
    with st.container(gap=None):
        event = st.plotly_chart(fig, key=key, theme=None, config=CONFIG, alt=alt, height=height or "content", **options)
        if table is not None:
            _table(table, alt, key)
    return _fresh(list(event["selection"]["points"]), f"{key}_seen") if clickable else []


def _handler(key: str, on_click: Callable[[list[dict[str, Any]]], None]) -> Callable[[], None]:
    def handle() -> None:
        on_click(list(st.session_state[key]["selection"]["points"]))

    return handle


def _fresh(points: list[dict[str, Any]], seen: str) -> list[dict[str, Any]]:
    """The points, unless an earlier run has already been given them."""
    before = st.session_state.get(seen)
    st.session_state[seen] = points
    return points if points != before else []


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


def plain(text: object) -> str:
    """Text from a bank or an address inside Markdown, shown as it is written."""
    return "".join("\\" + one if one in "\\`*_~[]{}()#|<>$:!" else one for one in str(text))


def on_primary(label: str, *, disabled: bool = False) -> str:
    """The label of a `type="primary"` button: dark ink in the dark theme, whose accent is light."""
    return f':color[{label}]{{foreground="#10151C"}}' if is_dark() and not disabled else label

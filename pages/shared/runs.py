"""What the pages about runs share: choosing a run, and saying its state, sizes and times as people do.

Takes jobs of the ledger; gives widgets and words. Changes no run.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from core.charts.theme import ink
from core.words import duration
from pages.shared.show import is_dark, plain

OPEN = "run"
"""Session and address key of the run that Runs, Precision and Results show."""
WRITTEN = "run_in_address"
"""What `choose_run` last wrote into the address: anything else there is the visitor's."""
NEXT = Path("jobs", "next")
"""Where, below the runs' home, a preflight supposes the next merge: a place that is free on the right disk."""
REPORT = "merge_report.parquet"
PAGES = Path(__file__).resolve().parents[1]


def when(moment: float | None) -> str:
    """A time stamp in local time, `14:03:07` today and `30 Nov 14:03` before; empty for none."""
    if not moment:
        return ""
    then, now = time.localtime(moment), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%d %b %H:%M", then)


def took(job: Any) -> str:
    """How long a run worked, so far or in all; empty before it began."""
    if not job.started:
        return ""
    return duration((job.finished or time.time()) - job.started)


def merged_folder(job: Any) -> Path | None:
    """The folder of a finished merge that has a report, or None."""
    out = (job.result or {}).get("merge", {}).get("out") or (job.result or {}).get("out")
    if job.state != "succeeded" or not out:
        return None
    folder = Path(out)
    return folder if (folder / REPORT).is_file() else None


def has_scores(job: Any) -> bool:
    """True for a finished run whose score files are still there."""
    scores = (job.result or {}).get("scores") or {}
    files = [path for one in scores.values() for path in one.values()]
    return job.state == "succeeded" and bool(files) and all(Path(path).is_file() for path in files)


def clicked_name(points: Sequence[Mapping[str, Any]]) -> str | None:
    """What a click on a chart means: the first entry of the first point's `customdata`."""
    return next((str(one["customdata"][0]) for one in points if one.get("customdata")), None)


def of_bank(job: Any, root: Path) -> bool:
    """True for a run of the bank in `root`."""
    return bool(job.spec.get("bank")) and Path(job.spec["bank"]) == root


def run_label(job: Any) -> str:
    """One run in a menu: its title and when it was started; never its state, which a menu would not keep up with."""
    return f"{job.title}, {when(job.created)}"


def choose_run(jobs: Sequence[Any], label: str, *, first: str | None = None) -> Any:
    """A menu of runs; its choice is in the address as `run`, and `first` is chosen where none is asked for.

    The address is written here and not by the widget, which would write the label in place of the id.
    """
    by_id = {one.id: one for one in jobs}
    asked = st.query_params.get(OPEN)
    if asked in by_id and asked != st.session_state.get(WRITTEN):
        st.session_state[OPEN] = asked
    elif st.session_state.get(OPEN) not in by_id:
        st.session_state[OPEN] = first if first in by_id else next(iter(by_id))
    chosen = st.selectbox(
        label,
        list(by_id),
        format_func=lambda one: run_label(by_id[one]),
        key=OPEN,
        persist_state="session",
        filter_mode="contains",
    )
    if asked != chosen:
        st.query_params[OPEN] = chosen
    st.session_state[WRITTEN] = chosen
    return by_id[chosen]


def page_link(page: str, label: str) -> None:
    """A link to another page; the run that is open stays open there."""
    st.page_link(PAGES / f"{page}.py", label=label, icon=":material/arrow_forward:")


def note(text: str) -> None:
    """Small muted text, shown as written; unlike a caption it passes 4.5:1 in both themes."""
    st.markdown(f':small[:color[{plain(text)}]{{foreground="{ink(is_dark()).muted}"}}]', anchors=False)

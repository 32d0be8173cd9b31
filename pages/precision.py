"""The Precision page: what casting a finished merge to bf16 would round away, and where.

Shows measured figures of one merge's report. Merges nothing.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from core.bank.model import Bank
from core.charts import election as votes
from core.charts import rounding as figures
from core.charts import rounding_words as words
from core.errors import MergescopeError
from pages.shared import chart, current_bank, is_dark, ledger, lens, stop_with, xray
from pages.shared.runs import REPORT, choose_run, clicked_name, merged_folder, note, of_bank, page_link

if TYPE_CHECKING:
    import pandas as pd

TENSOR, WHICH = "precision_tensor", "precision_which"
ALL = "all tensors"


def main() -> None:
    """Choose a merge, then one number, where, one tensor, who voted, and the table."""
    bank = current_bank()
    jobs = [one for one in ledger().jobs(200) if merged_folder(one) is not None]
    if not jobs:
        nothing_yet(bank)
        return
    left, right = st.columns([0.7, 0.3], vertical_alignment="bottom", gap="small")
    with left:
        job = choose_run(jobs, "Merge", first=next((one.id for one in jobs if of_bank(one, bank.root)), None))
    with right:
        what, folder = choose_folder(merged_folder(job) or job.folder)
    if job.spec.get("bank") and not of_bank(job, bank.root):
        note(f"This merge is of the bank {Path(job.spec['bank']).name}, not of the bank above.")
    report = read(folder)
    if report.empty:
        st.title("Nothing to compare", anchor=False)
        note("The result of this merge shares no tensor of the same shape with a base, so no rounding was measured.")
        return
    found = words.summary(report, total_of(job, what))
    headline(found, what, done=job.spec.get("recipe", {}).get("out_dtype") == "bfloat16")
    if found.lost >= 0.01 * max(found.changed, 1):
        note(words.what_would_save(sizes_of(report)))
    elif what == "merge" and normalized(job) and found.changed and members_are_bf16(folder):
        st.info(words.WHY_SO_LITTLE, icon=":material/info:")
    where_it_is_lost(report)
    one_tensor(report)
    lens.draw(folder)
    who_voted(report, job, what)
    every_tensor(report)


def nothing_yet(bank: Bank) -> None:
    """What to do while there is no merge."""
    st.title("No finished merge yet", anchor=False)
    st.markdown(
        "After a merge this page says how many of its changes bfloat16 could not hold, tensor by tensor. Updates of "
        "reinforcement learning are small beside the weights they change, so that casting a merge to bf16 can round "
        "most of them back to the base.",
        anchors=False,
    )
    if bank.has_weights:
        st.markdown("Press **Merge and evaluate** in the sidebar; it appears here when it has finished.", anchors=False)
    else:
        st.markdown("This bank has scores only. Choose one with weights above, then merge.", anchors=False)
    page_link("runs", "Runs")


def choose_folder(merged: Path) -> tuple[str, Path]:
    """The merge itself, or the uniform mean that was made with it; its name and its folder."""
    uniform = merged.with_name("uniform")
    if not (uniform / REPORT).is_file():
        return "merge", merged
    names = {"merge": merged, "uniform mean": uniform}
    chosen = st.segmented_control("Of this run", list(names), default="merge", required=True, key=WHICH) or "merge"
    return chosen, names[chosen]


def total_of(job: Any, what: str) -> dict[str, Any] | None:
    """The figures of all tensors together, as the merge recorded them."""
    found = (job.result.get("merge" if what == "merge" else "uniform") or {}).get("rounding") or {}
    found = found.get("total", found)
    return found if "cosine" in found else None


def normalized(job: Any) -> bool:
    """True where the recipe of the run divides by the agreeing members' weights."""
    return bool(job.spec.get("recipe", {}).get("normalize", False))


def members_are_bf16(folder: Path) -> bool:
    """True where the merge recorded that everything it read was bfloat16."""
    try:
        dtypes = json.loads((folder / "provenance.json").read_text())["dtypes"]["inputs"]
        return set(dtypes.values()) == {"bfloat16"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read(folder: Path) -> "pd.DataFrame":
    """The report of a merge, a row a tensor; says why and stops where it cannot be read."""
    try:
        stat = (folder / REPORT).stat()
        return _read(str(folder), stat.st_mtime_ns, stat.st_size)
    except (MergescopeError, OSError) as problem:
        stop_with(problem)


@st.cache_resource(max_entries=8, show_spinner=False)
def _read(folder: str, stamp: int, size: int) -> "pd.DataFrame":
    from core.merge import read_report

    return read_report(Path(folder))


def sizes_of(rows: "pd.DataFrame") -> np.ndarray:
    """The histograms of some tensors added up."""
    return np.sum(np.stack([np.asarray(one) for one in rows["histogram"]]), axis=0)


def headline(found: "words.Summary", what: str, *, done: bool) -> None:
    """The one number, in a sentence, then the figures behind it."""
    st.title(words.headline(found, what, done=done), anchor=False)
    note(words.basis(found))
    with st.container(horizontal=True, gap="large", key="precision_figures"):
        for name, value, help_text in words.metrics(found):
            st.metric(name, value, help=help_text, width="content")


def where_it_is_lost(report: "pd.DataFrame") -> None:
    """Layers by modules; a click chooses the tensor below."""
    st.header(
        "Where it is lost",
        anchor=False,
        help="Numbers are the per cent of a tensor's changed parameters that bf16 would round back to the base. The "
        "colours always span 0 to 100 %, so that two merges compare; grey is a tensor that did not change. Click "
        "a cell to see that tensor's changes.",
    )
    chosen = st.session_state.get(TENSOR, ALL)
    points = chart(
        figures.loss_heatmap(report, chosen=chosen, dark=is_dark()),
        alt=words.heatmap_alt(report),
        table=lambda: figures.loss_table(report),
        key="loss_heatmap",
        clickable=True,
    )
    clicked = clicked_name(points)
    if clicked and clicked != chosen:
        st.session_state[TENSOR] = clicked
        xray.aim(clicked)
        st.rerun()


def one_tensor(report: "pd.DataFrame") -> None:
    """Sizes of the changes of one tensor, or of all, in half-ulps."""
    st.header(
        "How large the changes are",
        anchor=False,
        help="A bf16 number has 8 significant bits. Its ulp is the step to the next one; a change of less than half a "
        "step rounds back to where it was. Exactly at a power of two the step below is half as wide, so a few changes "
        "near the line fall on the other side; the counts of lost parameters are exact.",
    )
    options = [ALL, *report["name"]]
    if st.session_state.get(TENSOR) not in options:
        st.session_state[TENSOR] = ALL
    chosen = st.selectbox("Tensor", options, key=TENSOR, persist_state="session", filter_mode="contains")
    rows = report if chosen == ALL else report[report["name"] == chosen]
    counts = sizes_of(rows)
    st.markdown(words.tensor_sentence(chosen, rows), anchors=False)
    chart(
        figures.ulp_histogram(counts, dark=is_dark()),
        alt=words.histogram_alt(chosen, rows, counts),
        table=lambda: figures.histogram_table(counts),
        key="ulp_histogram",
    )


def who_voted(report: "pd.DataFrame", job: Any, what: str) -> None:
    """How many members changed each parameter, and whether they agreed."""
    st.header("Who decided", anchor=False)
    if report["members_changed_0"].isna().any():
        st.markdown("The engine that made this merge counted no votes.", anchors=False)
        return
    shares = votes.election_shares(report)
    st.markdown(words.election_sentence(shares), anchors=False)
    if what == "merge" and normalized(job):
        st.markdown(
            "With *normalize* on, the merged change of a parameter is divided by the weights of the members that "
            "agree on it. So where only one member changed a parameter, the merge takes 100 % of that member's "
            "change, **whatever its weight**; this is how members of near-zero weight matter.",
            anchors=False,
        )
    chart(
        votes.election_bars(shares, dark=is_dark()),
        alt=words.election_sentence(shares),
        table=lambda: votes.election_table(shares),
        key="election_bars",
    )


def every_tensor(report: "pd.DataFrame") -> None:
    """All tensors; a click on a column's head sorts."""
    st.header("Every tensor", anchor=False)
    st.dataframe(
        figures.loss_table(report),
        hide_index=True,
        height=390 if len(report) > 10 else "content",
        key="loss_table",
        alt="What bf16 would lose of every tensor, measured; the largest loss first",
        column_config={
            "tensor": st.column_config.TextColumn(width="medium"),
            "parameters": st.column_config.NumberColumn(format="localized"),
            "changed": st.column_config.NumberColumn(format="localized"),
            "lost": st.column_config.NumberColumn(format="localized"),
            "lost, % of changed": st.column_config.NumberColumn(format="%.2f"),
            "relative L2 error": st.column_config.NumberColumn(format="%.4f"),
            "cosine": st.column_config.NumberColumn(format="%.4f"),
        },
    )


main()

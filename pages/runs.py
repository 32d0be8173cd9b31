"""The Runs page: every merge and evaluation, how far each is, and all there is to know about one.

Reads the ledger; cancels, repeats and cleans up through it. A run goes on when this page is closed.
"""

import time
from typing import Any

import pandas as pd
import streamlit as st

from core.errors import MergescopeError
from core.words import duration
from pages.shared import ledger, on_primary, plain, say
from pages.shared.run_details import details
from pages.shared.runs import OPEN, choose_run, has_scores, merged_folder, note, page_link, took, when
from pages.shared.runs_words import headline, outcome_lines, result_line, state_line, what_to_do

REFUSED = "runs_refused"
LIMIT = 200


def main() -> None:
    """Draw the page; the part that moves is drawn again every second while something is live."""
    jobs = ledger().jobs(LIMIT)
    if not jobs:
        nothing_yet()
        return
    if any(one.live for one in jobs):
        st.fragment(board, run_every=1.0)()
    else:
        board()


def nothing_yet() -> None:
    """What to do on a first visit."""
    st.title("No runs yet", anchor=False)
    st.markdown(
        "A run merges what the recipe picks, in float32 and in a process of its own, then evaluates the result. "
        "Press **Merge and evaluate** in the sidebar; the run appears here with its progress and log, and goes on "
        "when the browser is closed. Choose a bank with weights first: a bank of scores only cannot be merged.",
        anchors=False,
    )
    note("From a shell, the same work: python -m core merge CONFIG.yml OUT, then python -m core eval MODEL.")


def board() -> None:
    """The table of runs and the one that is open."""
    jobs = ledger().jobs(LIMIT)
    was_live = st.session_state.get("runs_live", False)
    st.session_state["runs_live"] = live = any(one.live for one in jobs)
    if was_live and not live:
        st.rerun()
    st.title(headline(jobs), anchor=False)
    table = st.container()
    job = choose_run(jobs, "Open run", first=jobs[0].id)
    with table:
        overview(jobs, job.id)
    one_run(job)


def overview(jobs: list[Any], opened: str) -> None:
    """The table, the open run marked; choosing a row opens that run.

    The key changes with the open run and with new runs, so that the mark is never on another row.
    """
    ids = [one.id for one in jobs]
    key = f"runs_table_{ids[0]}_{opened}"
    st.dataframe(
        run_table(jobs),
        key=key,
        hide_index=True,
        on_select=lambda: open_chosen(ids, key),
        selection_mode="single-row",
        selection_default={"selection": {"rows": [ids.index(opened)]}},
        height="content" if len(jobs) <= 8 else 330,
        alt="Runs with their state, progress, device, time and result; the newest first",
        column_config={
            "progress": st.column_config.ProgressColumn("progress", format="%d %%", min_value=0, max_value=100),
            "result": st.column_config.TextColumn(
                "result",
                width="large",
                help="Tasks that the merge solves more (+) or fewer (−) than the best single checkpoint, with the "
                "verdict; while a run is live, what it is doing.",
            ),
        },
    )


def run_table(jobs: list[Any]) -> pd.DataFrame:
    """What, state, progress, device, time and result of every run."""
    return pd.DataFrame(
        {
            "what": [one.title for one in jobs],
            "state": [state_line(one) for one in jobs],
            "progress": [round(100 * one.fraction) for one in jobs],
            "device": [one.device or "" for one in jobs],
            "started": [when(one.started or one.created) for one in jobs],
            "took": [took(one) for one in jobs],
            "result": [result_line(one) for one in jobs],
        }
    )


def open_chosen(ids: list[str], key: str) -> None:
    """Open the run whose row was chosen; a callback."""
    rows = st.session_state[key]["selection"]["rows"]
    if rows and rows[0] < len(ids):
        st.session_state[OPEN] = ids[rows[0]]


def one_run(job: Any) -> None:
    """One run: how it stands, what can be done with it, and its parts."""
    with st.container(border=True, key="one_run"):
        st.header(plain(job.title), anchor=False)
        st.markdown(
            f"**{state_line(job)}** · run `{job.id}` · {job.device or 'no device yet'} · "
            f"started {when(job.started) or 'not yet'}" + (f" · {took(job)}" if job.started else ""),
            anchors=False,
        )
        progress(job)
        outcome(job)
        actions(job)
        details(job)


def progress(job: Any) -> None:
    """The present stage with its amount and the time left, while the run is live."""
    if not job.live:
        return
    parts = [job.stage or job.state]
    if job.total:
        parts.append(f"{job.done:,.0f} of {job.total:,.0f} {job.unit}".strip())
    parts.append("time left not known yet" if job.eta_seconds is None else f"about {duration(job.eta_seconds)} left")
    if job.heartbeat and time.time() - job.heartbeat > 20:
        parts.append(f"last heard of {duration(time.time() - job.heartbeat)} ago")
    st.progress(min(max(job.fraction, 0.0), 1.0), text=plain(", ".join(parts)))


def outcome(job: Any) -> None:
    """What came out, or why it ended and what to do."""
    if job.state == "succeeded":
        for line in outcome_lines(job):
            st.markdown(plain(line), anchors=False)
        with st.container(horizontal=True):
            if merged_folder(job) is not None:
                page_link("precision", "What bf16 would lose")
            if has_scores(job):
                page_link("results", "The verdict")
        if (job.result or {}).get("merge") and merged_folder(job) is None:
            note("Its files are no longer there. Run again makes them anew.")
    elif job.state in ("failed", "lost"):
        st.error(f"{plain(job.error or 'It ended without a message.')}\n\n{what_to_do(job)}", icon=":material/error:")
    elif job.state == "cancelled":
        st.info(f"Cancelled. {what_to_do(job)}", icon=":material/info:")


def actions(job: Any) -> None:
    """Cancel, run again, clean up."""
    with st.container(horizontal=True, gap="small"):
        if job.live:
            st.button(
                "Cancelling" if job.cancel_requested else "Cancel",
                icon=":material/stop:",
                key="run_cancel",
                on_click=attempt,
                args=("cancel", job.id),
                disabled=job.cancel_requested,
                help="Stops the run within seconds and removes what was half-written.",
            )
        else:
            st.button(
                "Run again",
                icon=":material/replay:",
                key="run_again",
                on_click=attempt,
                args=("resubmit", job.id),
                help="Submits the same work as a new run, which goes on with a merge that was killed; this one stays.",
            )
            clean_up(job)
    refused = st.session_state.pop(REFUSED, None)
    if refused:
        say(refused)


def clean_up(job: Any) -> None:
    """Remove a run's files after a second press that says what will go."""
    with st.popover("Clean up", icon=":material/delete:", key="run_clean"):
        st.markdown(
            "Removes the merged weights, scores and reports of this run from disk. The record, the log and the "
            "specification stay, so it can be run again. What the run wrote outside its own folder is not touched.",
            anchors=False,
        )
        note(str(job.folder))
        st.button(
            on_primary("Remove the files"),
            key="run_clean_sure",
            type="primary",
            on_click=attempt,
            args=("delete_files", job.id),
        )


def attempt(verb: str, job: str) -> None:
    """Do something to a run; a callback, whose refusal is shown under the buttons."""
    try:
        done = getattr(ledger(), verb)(job)
    except (MergescopeError, OSError) as problem:
        st.session_state[REFUSED] = problem
        return
    if verb == "resubmit":
        st.session_state[OPEN] = done


main()

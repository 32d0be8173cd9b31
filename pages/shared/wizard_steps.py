"""The wizard's first steps: where, what was found, how scores and checkpoints match, which one is the base.

Each draws its question and gives what *Next* does. Searching and reading run here, between two steps, with progress.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from core.bank.discover import Discovery, discover
from core.bank.match import LEFT_OUT, SCORES_ONLY, Match, match_scores
from core.bank.readers import ReadOptions
from core.charts.words import counted, short_number
from core.errors import BankError, MergescopeError
from pages.shared.banks import allowed_roots
from pages.shared.show import plain
from pages.shared.wizard_state import (
    KEY,
    NO_BASE,
    apply_mapping,
    base_options,
    first_mapping,
    folder_of,
    forget_choices,
    forward,
    keep_uploads,
    read_chosen,
    refuse,
    typed,
    wizard,
)

SCORE_TYPES = ["csv", "tsv", "txt", "json", "jsonl", "parquet", "eval", "zip"]
SEARCH_SECONDS = 30.0
QUIET_SECONDS = 2.0
"""A search that takes longer says how far it is."""
OUT, ALONE = "(leave out)", "(scores only)"
NONE_OF_THESE = "None of these"
QUESTION = "What the checkpoints were trained from"
MANY = 16
"""Checkpoints up to which all are shown at once."""


class GoOn(NamedTuple):
    """The button that leads on: what it says and does, and why it cannot be pressed."""

    label: str
    run: Callable[[], None]
    disabled: bool = False
    why: str = ""


def where() -> GoOn:
    """A folder, or uploaded score files, or both."""
    state = wizard()
    st.markdown(
        "A bank is several checkpoints and their scores on the same tasks. The weights are needed only to merge them.",
        anchors=False,
    )
    st.text_input(
        "Folder with checkpoints, score files, or both",
        key=f"{KEY}_where",
        persist_state="session",
        placeholder="runs/grpo",
        help="It is searched, with the folders in it. Nothing in it is changed, and checkpoints stay where they are. "
        f"May be read: {plain(', '.join(map(str, allowed_roots())))}.",
    )
    st.file_uploader(
        "Score files to upload",
        type=SCORE_TYPES,
        accept_multiple_files=True,
        key=f"{KEY}_files",
        help="Score files of any tool that is known here, or a table with the columns checkpoint, task and score. "
        "Checkpoints are too large to upload: name their folder.",
    )
    if state.uploaded and not typed("files", []):
        st.caption(f"Uploaded before: {plain(', '.join(one.name for one in state.uploaded))}.")
    if state.busy == "search":
        _search()
    return GoOn("Next", _ask_search)


def _ask_search() -> None:
    state = wizard()
    text = typed("where").strip()
    try:
        keep_uploads(list(typed("files", []) or []))
        if text:
            folder_of(text)
        elif not state.uploads:
            raise BankError("Name a folder, or upload score files.")
    except (MergescopeError, OSError, ValueError) as problem:
        refuse(problem)
        return
    if text != state.searched or typed("files", []):
        forget_choices()
    state.searched, state.discovery, state.scores, state.error = text, None, None, ""
    state.busy = "search" if text else ""
    if not text:
        forward()


def _search() -> None:
    """Search the folder, with progress where it takes long, and go on."""
    slot, shown = st.empty(), [0.0]

    def seen(entries: int, seconds: float) -> None:
        if seconds > QUIET_SECONDS and seconds - shown[0] > 0.25:
            shown[0] = seconds
            slot.progress(min(seconds / SEARCH_SECONDS, 1.0), text=f"{entries:,} files and folders looked at so far")

    state = wizard()
    try:
        folder = folder_of(typed("where").strip())
        state.discovery = discover(folder, roots=allowed_roots(), seconds=SEARCH_SECONDS, seen=seen)
        files = [one.path for one in state.discovery.scores]
        state.used = [one for one in files if one in state.used or one not in state.offered]
        state.offered = files
    except (MergescopeError, OSError) as problem:
        refuse(problem)
    else:
        forward()
    st.rerun()


def found() -> GoOn:
    """What the folder holds; which score files are used."""
    state = wizard()
    discovery = state.discovery
    if discovery is not None:
        _describe(discovery)
    files = [one.path for one in discovery.scores] if discovery else []
    if files and discovery is not None:
        _choose_files(discovery)
    if state.uploaded:
        st.markdown(f"Uploaded: {plain(', '.join(one.name for one in state.uploaded))}.", anchors=False)
    with st.expander("Which score, where a file has several"):
        left, right = st.columns(2)
        left.text_input("Metric", key=f"{KEY}_metric", persist_state="session", placeholder="the file's own")
        right.text_input(
            "Filter (lm-evaluation-harness)", key=f"{KEY}_filter", persist_state="session", placeholder="the first"
        )
    if state.busy == "read":
        _read()
    if not files and not state.uploaded:
        st.warning(
            "No score files were found here. A bank needs scores: go back and upload them, or name a folder with both.",
            icon=":material/search_off:",
        )
    return GoOn("Next", _ask_read, disabled=not files and not state.uploaded, why="")


def _describe(one: Discovery) -> None:
    steps = [each.step for each in one.checkpoints if each.step is not None]
    parts = [
        counted(len(one.checkpoints), "checkpoint") + (f" (steps {min(steps):,} to {max(steps):,})" if steps else ""),
        counted(len(one.scores), "score file"),
        counted(len(one.tasks), "task file"),
    ]
    looked = f"{one.entries:,} files and folders were looked at"
    st.markdown(f"Found {parts[0]}, {parts[1]} and {parts[2]}; {looked}.", anchors=False)
    if one.root in one.banks:
        st.info("This folder is a bank already; going on makes another one from what is in it.", icon=":material/info:")
    if one.checkpoints:
        rows = {
            "checkpoint": [each.id for each in one.checkpoints],
            "step": ["" if each.step is None else f"{each.step:,}" for each in one.checkpoints],
            "parameters": [short_number(each.parameters) for each in one.checkpoints],
            "dtype": [each.dtype for each in one.checkpoints],
            "folder": [each.folder for each in one.checkpoints],
        }
        st.dataframe(pd.DataFrame(rows), hide_index=True, alt="The checkpoints that were found", key=f"{KEY}_table")
    if one.unreadable:
        with st.expander(f"{counted(len(one.unreadable), 'folder').capitalize()} of weights that cannot be merged"):
            for each in one.unreadable[:20]:
                st.markdown(f"- {plain(each.problem)}", anchors=False)
    for warning in one.warnings[:8]:
        st.caption(plain(warning))


def _choose_files(found: Discovery) -> None:
    """A table of the score files with a tick at each that is used."""
    state = wizard()
    if state.shown_used is None:
        state.shown_used = list(state.used)
    changed = st.data_editor(
        pd.DataFrame(
            {
                "use": [one.path in state.shown_used for one in found.scores],
                "score file": [str(_below(one.path, found.root)) for one in found.scores],
                "format": [one.format for one in found.scores],
            }
        ),
        column_config={
            "use": st.column_config.CheckboxColumn(
                "use", width="small", help="Leave out scores that were made with other settings than the rest."
            )
        },
        disabled=["score file", "format"],
        hide_index=True,
        key=f"{KEY}_used",
        alt="The score files that were found, and whether each is used",
    )
    state.used = [one.path for one, use in zip(found.scores, changed["use"], strict=True) if use]


def _below(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _ask_read() -> None:
    state = wizard()
    state.error, state.busy = "", "read"


def _read() -> None:
    """Read the scores, match their names to the checkpoints, and go on."""
    state = wizard()
    options = ReadOptions(metric=typed("metric").strip() or None, filter=typed("filter").strip() or None)
    try:
        if not state.used and not state.uploaded:
            raise BankError("Choose at least one score file.")
        with st.spinner("Reading the scores"):
            state.scores = read_chosen(state.used, options)
    except (MergescopeError, OSError) as problem:
        refuse(problem)
        st.rerun()
    targets = state.discovery.targets if state.discovery else []
    state.matches = match_scores(state.scores.checkpoints, targets)
    state.mapping = first_mapping(state.matches, weights=bool(targets))
    state.base = None
    forward()
    st.rerun()


def match() -> GoOn:
    """Which checkpoint each name in the score files means; a table to correct."""
    state = wizard()
    ids = [one.id for one in state.members]
    st.markdown(
        "Each row is a name in the score files; choose the checkpoint that it means. Several rows of one are its "
        "repeated evaluations, which give the run-to-run noise.",
        anchors=False,
    )
    if state.shown is None:
        state.shown = dict(state.mapping)
    changed = st.data_editor(
        pd.DataFrame(
            {
                "scores": [one.scores for one in state.matches],
                "checkpoint": [_label(state.shown[one.scores]) for one in state.matches],
                "why": [_why(one, state.shown[one.scores]) for one in state.matches],
            }
        ),
        column_config={
            "checkpoint": st.column_config.SelectboxColumn("checkpoint", options=[*ids, ALONE, OUT], required=True)
        },
        disabled=["scores", "why"],
        hide_index=True,
        key=f"{KEY}_editor",
        alt="Names in the score files and the checkpoint each means",
    )
    state.mapping = mapping_of(changed)
    _say_matches(state.mapping)
    return GoOn("Next", _ask_match)


def mapping_of(table: Any) -> dict[str, str]:
    """The mapping that the table shows: name in the score files to checkpoint id, `""` or `"+"`."""
    back = {OUT: LEFT_OUT, ALONE: SCORES_ONLY}
    return {str(one): back.get(str(to), str(to)) for one, to in zip(table["scores"], table["checkpoint"], strict=True)}


def _why(one: Match, chosen: str) -> str:
    """The reason of a match, or that people said otherwise."""
    return one.reason if chosen in (one.checkpoint, LEFT_OUT, SCORES_ONLY) else "chosen by hand"


def _label(chosen: str) -> str:
    return {LEFT_OUT: OUT, SCORES_ONLY: ALONE}.get(chosen, chosen)


def _say_matches(mapping: dict[str, str]) -> None:
    state = wizard()
    used = [one for one in mapping.values() if one not in (LEFT_OUT, SCORES_ONLY)]
    without = [one.id for one in state.members if one.id not in used]
    parts = [f"{len(used)} of {len(mapping)} names mean a checkpoint"]
    if alone := sum(one == SCORES_ONLY for one in mapping.values()):
        parts.append(f"{alone} {'stands' if alone == 1 else 'stand'} without weights")
    if out := sum(one == LEFT_OUT for one in mapping.values()):
        parts.append(f"{out} {'is' if out == 1 else 'are'} left out")
    if without:
        parts.append(f"no scores for {', '.join(without[:6])}{' and more' if len(without) > 6 else ''}")
    st.markdown(plain("; ".join(parts) + "."), anchors=False)
    for warning in (state.scores.warnings if state.scores else ())[:6]:
        st.caption(plain(warning))


def _ask_match() -> None:
    state = wizard()
    try:
        state.matched = apply_mapping(state.mapping)
    except MergescopeError as problem:
        refuse(problem)
        return
    if state.base not in (None, NO_BASE, *(one for one, _ in base_options())):
        state.base = None
    forward()


def base() -> GoOn:
    """What the checkpoints were trained from."""
    state = wizard()
    options = base_options()
    reasons = dict(options)
    names = [one for one, _ in options]
    likely = [one for one, why in options if why]
    if state.base is None and len(likely) == 1:
        state.base = likely[0]
    labels = [*names, NONE_OF_THESE]
    at = None if state.base is None else labels.index(state.base or NONE_OF_THESE)
    said = {one: plain(reasons[one]) for one in names} | {NONE_OF_THESE: "Scores can be explored, but nothing merged."}
    if len(labels) > MANY:
        chosen = st.selectbox(QUESTION, labels, index=at, key=f"{KEY}_base", placeholder="Choose one")
        st.caption(said.get(chosen or "", ""))
    else:
        captions = [said[one] for one in labels]
        chosen = st.radio(QUESTION, labels, index=at, key=f"{KEY}_base", format_func=plain, captions=captions)
    if chosen is not None:
        state.base = NO_BASE if chosen == NONE_OF_THESE else chosen
    return GoOn("Next", forward, disabled=state.base is None, why="" if state.base is not None else "Choose one first.")

"""What lies behind the Bank page's heatmap: coverage, one checkpoint, one task, the data card.

Takes the live bank and what was chosen in the heatmap or here; reads task and score files when asked.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.bank import Bank, Checkpoint, SampleRow, Split, scores_of_task
from core.charts import bank as figures
from core.charts import words
from core.errors import MergescopeError
from core.files import read_jsonl
from pages.shared.banks import FileStamp, file_stamp
from pages.shared.show import chart, is_dark, plain

TASK, MEMBER = "bank_task", "bank_checkpoint"
MANY = 16
"""Answers that are shown without scrolling."""
LARGE = 256 << 20
"""Bytes of a score file above which the page does not look for answers in it."""


def coverage(rows: figures.ScoreRows) -> None:
    """How many tasks the pool solves together."""
    found = figures.coverage(rows.scores[: len(rows.scores) - rows.has_base])
    st.header(
        "Coverage",
        anchor=False,
        help="Tasks that only some checkpoints solve are what a merge could combine; those that none solves are out of "
        "its reach as far as these scores show. A task counts as solved by a mean score of 0.5 or more.",
    )
    st.markdown(words.coverage_sentence(found), anchors=False)
    chart(
        figures.coverage_bars(found, dark=is_dark()),
        alt=words.coverage_sentence(found),
        table=lambda: pd.DataFrame({"solved by": range(len(found.tasks_by_solvers)), "tasks": found.tasks_by_solvers}),
        key="coverage_chart",
    )


def member(bank: Bank, rows: figures.ScoreRows, picks: dict[str, int]) -> None:
    """One checkpoint: where it comes from, its files' dtype and size, and its place in the recipe."""
    st.header("One checkpoint", anchor=False)
    every = {one.id: one for one in (*bank.checkpoints, bank.base)}
    if st.session_state.get(MEMBER) not in every:
        st.session_state[MEMBER] = next(iter(picks), bank.checkpoints[0].id)
    name = st.selectbox("Checkpoint", list(every), key=MEMBER, label_visibility="collapsed", persist_state="session")
    about = _about(every[name], bank, rows, picks)
    st.markdown("  \n".join(f"{label}: **{plain(value)}**" for label, value in about), anchors=False)


def _about(one: Checkpoint, bank: Bank, rows: figures.ScoreRows, picks: dict[str, int]) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    if one.id in rows.names:
        at = rows.names.index(one.id)
        interval = f"95 % interval {rows.low[at]:.3f} to {rows.high[at]:.3f}, n = {rows.scored[at]} tasks"
        said.append(("Mean score", f"{rows.means[at]:.4f} ({interval})"))
    if one.id == bank.base.id:
        said.append(("Role", "the base: what every checkpoint was trained from"))
    else:
        said.append(("In the recipe", f"pick {picks[one.id]}" if one.id in picks else "not picked"))
    if one.step is not None:
        said.append(("Training step", f"{one.step:,}"))
    if one.path is None:
        said.append(("Files", "none; this bank holds its scores only"))
    else:
        said += [("Files", _short(one.path, bank.root)), *_header_of(one.path)]
    return said


def _short(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _header_of(path: Path) -> list[tuple[str, str]]:
    try:
        dtype, parameters = _checkpoint_summary(str(path), path.stat().st_mtime_ns)
    except (MergescopeError, OSError) as problem:
        return [("Cannot be read", str(problem))]
    return [("Dtype", dtype), ("Parameters", f"{parameters:,}")]


@st.cache_data(max_entries=512, show_spinner=False)
def _checkpoint_summary(folder: str, stamp: int) -> tuple[str, int]:
    from core.merge import checkpoint_summary

    return checkpoint_summary(Path(folder))


def size_of(one: Checkpoint) -> str | None:
    """Parameters of a checkpoint's files, such as `0.41M parameters`; None where they cannot be read."""
    if one.path is None:
        return None
    try:
        _, parameters = _checkpoint_summary(str(one.path), one.path.stat().st_mtime_ns)
    except (MergescopeError, OSError):
        return None
    return f"{words.short_number(parameters)} parameters"


@st.cache_resource(max_entries=64, show_spinner="Reading answers")
def _answers(path: str, stamp: FileStamp, task: str) -> list[SampleRow]:
    return scores_of_task(path, task)


@st.cache_resource(max_entries=8, show_spinner=False)
def _tasks(path: str, stamp: FileStamp) -> dict[str, dict[str, Any]]:
    return {str(row.get("id")): row for _, row in read_jsonl(Path(path))}


def tasks_of(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a task file by id; raises an InputError or OSError."""
    return _tasks(str(path), file_stamp(path))


def task(bank: Bank, split: Split, at: int) -> None:
    """One task: its prompt, what was wanted, and every checkpoint's answer."""
    st.header("One task", anchor=False, help="Choose here, or click a cell of the heatmap.")
    order = [split.tasks[i] for i in figures.task_order(split.scores)]
    if st.session_state.get(TASK) not in order:
        st.session_state[TASK] = order[len(order) // 2]
    chosen = st.selectbox("Task", order, key=TASK, label_visibility="collapsed", persist_state="session")
    path = split.scores_path if at == 0 else split.more_scores[at - 1][1]
    if path.stat().st_size > LARGE:
        st.caption(f"The answers are in {plain(_short(path, bank.root))}, which is too large to show here.")
        return
    rows = _answers(str(path), file_stamp(path), chosen)
    about = tasks_of(split.tasks_path).get(chosen, {}) if split.tasks_path else {}
    prompt = about.get("prompt") or next((row.prompt for row in rows if row.prompt), None)
    if prompt:
        st.caption("Prompt")
        st.code(str(prompt), language=None, wrap_lines=True)
    if "target" in about:
        st.caption("Wanted")
        st.code(str(about["target"]), language=None, wrap_lines=True)
    if not prompt:
        st.caption("This bank holds no prompts and answers, only whether each task was solved.")
    st.dataframe(
        _answer_table(bank, rows),
        hide_index=True,
        alt=f"Every answer to {chosen}",
        key="answers",
        height="content" if len(rows) <= MANY else 420,
    )


def _answer_table(bank: Bank, rows: list[SampleRow]) -> pd.DataFrame:
    place = {one.id: at for at, one in enumerate((*bank.checkpoints, bank.base))}
    rows = sorted(rows, key=lambda row: (place.get(row.checkpoint or "", len(place)), row.sample))
    columns: dict[str, list[Any]] = {"checkpoint": [row.checkpoint for row in rows]}
    if any(row.sample for row in rows):
        columns["sample"] = [row.sample for row in rows]
    columns["score"] = [row.score for row in rows]
    if any(row.completion is not None for row in rows):
        columns["answer"] = [row.completion for row in rows]
    if any(row.finish is not None for row in rows):
        columns["ended by"] = [row.finish for row in rows]
    return pd.DataFrame(columns)


def card(bank: Bank) -> None:
    """Facts beside the scores, what to know before trusting them, and the data card."""
    if bank.facts:
        st.header("Facts", anchor=False)
        st.table(
            pd.DataFrame(
                [[plain(f["label"]), plain(f["value"]), plain(f.get("source") or "")] for f in bank.facts],
                columns=["what", "value", "from"],
            ),
            border="horizontal",
            hide_index=True,
            alt="Facts about this bank with their sources",
        )
    if bank.warnings:
        st.header("Worth knowing", anchor=False)
        st.markdown("\n".join(f"- {plain(one)}" for one in bank.warnings), anchors=False)
    text = bank.notes or _readme(bank.root)
    if text:
        with st.expander("Data card", key="data_card"):
            st.markdown(text, anchors=False)


def _readme(root: Path) -> str:
    file = root / "README.md"
    return file.read_text(encoding="utf-8", errors="replace")[:100_000] if file.is_file() else ""

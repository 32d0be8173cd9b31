"""The Results page: whether a merge is better than the best single checkpoint, and on which tasks.

Shows what one finished run measured, the verdict first. Evaluates nothing.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.bank.model import Bank
from core.charts import result_words as words
from core.charts import results as figures
from core.charts.outcome import Flip, Panel, flips
from core.errors import MergescopeError
from core.evals.protocol import Protocol
from pages import launch
from pages.shared import chart, current_bank, current_recipe, is_dark, ladder, ledger, stop_with
from pages.shared import result_data as data
from pages.shared.runs import choose_run, clicked_name, has_scores, note, of_bank, page_link

TASK, SPLIT, RIVAL = "results_task", "results_split", "results_rival"


def main() -> None:
    """Choose a run; verdict, chart, comparisons, flips, one task, downloads."""
    bank = current_bank()
    jobs = [one for one in ledger().jobs(200) if has_scores(one)]
    if not jobs:
        nothing_yet(bank)
        if launch.evaluable_splits(bank) and bank.has_weights:
            ladder.panel(bank, current_recipe())
        return
    job = choose_run(jobs, "Run", first=next((one.id for one in jobs if of_bank(one, bank.root)), None))
    try:
        panels = data.panels(job)
    except (MergescopeError, OSError) as problem:
        stop_with(problem)
    verdict(job, bank)
    where_all_stand(panels)
    pairwise(job)
    if launch.evaluable_splits(bank) and bank.has_weights:
        ladder.panel(bank, current_recipe())
    with st.container(key="by_task"):
        by_task(job, panels)
    downloads(job, panels)


def nothing_yet(bank: Bank) -> None:
    """What to do while nothing has been scored."""
    st.title("No scored merge yet", anchor=False)
    st.markdown(
        "After a run this page says whether the merge is better than the best single checkpoint, worse, or cannot be "
        "told from it, with the interval, the paired test and the tasks that were gained and lost.",
        anchors=False,
    )
    if bank.has_weights:
        st.markdown("Press **Merge and evaluate** in the sidebar; the result appears here.", anchors=False)
    else:
        st.markdown("This bank has scores only. Choose one with weights above, then merge.", anchors=False)
    if bank.facts and bank.kind == "illustrative":
        st.header("What was published", anchor=False)
        note("An illustrative reconstruction; the facts below are as their sources state them, not measured here.")
        facts = [[one["label"], str(one["value"]), one.get("source") or ""] for one in bank.facts]
        st.dataframe(
            pd.DataFrame(facts, columns=["what", "value", "source"]),
            hide_index=True,
            alt="Published facts",
            key="facts",
        )
    page_link("runs", "Runs")


def verdict(job: Any, bank: Bank) -> None:
    """One sentence, the numbers behind it, and why to distrust the split that chose."""
    comparisons = job.result["comparisons"]
    chosen_on = job.spec["recipe"].get("split", "dev")
    split = words.main_split(list(comparisons), chosen_on)
    found = comparisons[split]["best_single"]
    protocol = Protocol(**job.result["protocol"])
    st.title(words.headline(split, found, held_out=split != chosen_on), anchor=False)
    st.markdown(words.evidence(found, protocol.samples), anchors=False)
    st.warning(words.distrust(chosen_on, comparisons), icon=":material/balance:")
    recipe = job.spec["recipe"]
    about = (
        f"Recipe λ {recipe.get('lam')}, K {recipe.get('k')}, τ {recipe.get('tau')} on {chosen_on}; protocol "
        f"{protocol.label}, seed {protocol.seed}; best single on {chosen_on}: {job.result['best_single']}."
    )
    if not of_bank(job, bank.root):
        about += f" This run is of the bank {Path(job.spec['bank']).name}, not of the bank above."
    source = data.bank_of(job)
    if source is not None and source.kind == "illustrative":
        about += " The scores of this bank are an illustrative reconstruction; those of the merge were measured."
    note(about)


def where_all_stand(panels: list[Panel]) -> None:
    """Base, singles, uniform mean and merge under one protocol, split beside split."""
    st.header("Where every model stands", anchor=False)
    note(words.reading_note(panels))
    chart(
        figures.standings_chart(panels, dark=is_dark()),
        alt=words.standings_alt(panels),
        table=lambda: figures.standings_table(panels),
        key="standings",
    )


def pairwise(job: Any) -> None:
    """The merge against each rival on each split."""
    st.header(
        "Paired comparisons",
        anchor=False,
        help="Difference, interval and what is detectable are in tasks. p is of the paired test, not corrected for the "
        "number of rows: with several comparisons expect some small p by chance. The interval draws whole scenarios; "
        "where no task differs, it is what so few scenarios cannot rule out.",
    )
    st.table(words.comparison_table(job.result["comparisons"], data.NAMES), border="horizontal", hide_index=True,
             alt="The merge against each rival on each split, measured")  # fmt: skip


def by_task(job: Any, panels: list[Panel]) -> None:
    """Tasks gained and lost against one rival, and the answers to one of them."""
    st.header("Task by task", anchor=False)
    splits = [one.split for one in panels]
    chosen_on = job.spec["recipe"].get("split", "dev")
    with st.container(horizontal=True, gap="medium"):
        split = choose("Tasks of", splits, words.main_split(splits, chosen_on), SPLIT)
        own = data.samples_of(job, split)
        rivals: list[str] = [one for one in ("best single", "uniform mean", "base") if one in own]
        rival = choose("Merge against", rivals, rivals[0], RIVAL)
    moved = flips(own[rival], own["merge"], data.scenarios_of(job, split))
    st.markdown(words.flip_sentence(moved, len(own["merge"]), rival, split), anchors=False)
    task = chosen_task(own["merge"], moved)
    if moved:
        points = chart(
            figures.flip_bars(moved, names=(rival, "merge"), chosen=task, dark=is_dark()),
            alt=words.flip_sentence(moved, len(own["merge"]), rival, split),
            table=lambda: figures.flip_table(moved, (rival, "merge")),
            key="flips",
            clickable=True,
        )
        clicked = clicked_name(points)
        if clicked and clicked != task:
            st.session_state[TASK] = clicked
            st.rerun()
    one_task(job, split, list(own["merge"]), moved)


def choose(label: str, options: list[str], default: str, key: str) -> str:
    """A row of choices of which one always holds."""
    if st.session_state.get(key) not in (None, *options):
        del st.session_state[key]
    chosen = st.segmented_control(label, options, default=default, required=True, key=key, persist_state="session")
    return str(chosen or default)


def chosen_task(tasks: Any, moved: list[Flip]) -> str:
    """The task that is open: the one chosen, or the first that moved."""
    chosen = st.session_state.get(TASK)
    if chosen not in tasks:
        chosen = moved[0].task if moved else next(iter(tasks))
        st.session_state[TASK] = chosen
    return str(chosen)


def one_task(job: Any, split: str, tasks: list[str], moved: list[Flip]) -> None:
    """One task: prompt, target, and what each model answered."""
    change = {one.task: "gained" if one.change > 0 else "lost" for one in moved}
    order = [*(one.task for one in moved), *(one for one in tasks if one not in change)]
    task = st.selectbox(
        "Task",
        order,
        key=TASK,
        format_func=lambda one: f"{one}, {change[one]}" if one in change else one,
        persist_state="session",
        filter_mode="contains",
    )
    about = data.task_of(job, split, task)
    rows = data.answers(job, split, task)
    prompt = about.get("prompt") or next((row.prompt for _, row in rows if row.prompt), None)
    left, right = st.columns(2, gap="medium")
    with left:
        for name, value in (("Prompt", prompt), ("Wanted", about.get("target"))):
            if value is not None:
                note(name)
                st.code(str(value), language=None, wrap_lines=True)
    with right:
        note("Answers")
        st.dataframe(
            answer_table(rows),
            hide_index=True,
            key="results_answers",
            height="content" if len(rows) <= 12 else 420,
            alt=f"What each model answered to {task}",
        )


def answer_table(rows: list[Any]) -> pd.DataFrame:
    """Model, sample, score and answer; samples only where there are several."""
    columns: dict[str, list[Any]] = {"model": [name for name, _ in rows]}
    if any(row.sample for _, row in rows):
        columns["sample"] = [row.sample for _, row in rows]
    columns["score"] = [row.score for _, row in rows]
    columns["answer"] = [row.completion for _, row in rows]
    return pd.DataFrame(columns)


def downloads(job: Any, panels: list[Panel]) -> None:
    """The run's numbers and answers as files."""
    st.header("Take it elsewhere", anchor=False)
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "Comparisons, JSON", lambda: comparison_json(job), f"{job.id}.comparisons.json", "application/json",
            icon=":material/download:", on_click="ignore", key="get_json",
        )  # fmt: skip
        st.download_button(
            "Standings, CSV", lambda: figures.standings_table(panels).to_csv(index=False), f"{job.id}.standings.csv",
            "text/csv", icon=":material/download:", on_click="ignore", key="get_csv",
        )  # fmt: skip
        st.download_button(
            "Report, HTML", lambda: report_html(job), f"{job.id}.report.html",
            "text/html", icon=":material/article:", on_click="ignore", key="get_report",
        )  # fmt: skip
        with st.popover("Samples, JSONL", icon=":material/download:", key="get_samples"):
            for split, files in job.result["scores"].items():
                for key, path in files.items():
                    st.download_button(
                        f"{split}, {data.NAMES.get(key, key)}", Path(path).read_bytes, Path(path).name,
                        "application/x-ndjson", on_click="ignore", key=f"get_{split}_{key}", type="tertiary",
                    )  # fmt: skip


def report_html(job: Any) -> str:
    """The report of a run, with the ladder of the same recipe where one was run."""
    from core.report import build

    return build.report_html(job, build.ladder_of(job, ledger().jobs(200)))


def comparison_json(job: Any) -> str:
    """What the run compared, with what is needed to read it."""
    kept = ("protocol", "best_single", "means", "comparisons", "sources")
    record = {"run": job.id, "title": job.title, "recipe": job.spec["recipe"]}
    record |= {name: job.result[name] for name in kept if name in job.result}
    return json.dumps(record, indent=2, ensure_ascii=False)


main()

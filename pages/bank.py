"""The Bank page: who solves what, how far apart the checkpoints are, and what lies behind a score.

Shows measured scores; a bank that was constructed says so before anything else.
"""

from typing import Any

import numpy as np
import streamlit as st

from core.bank import Bank, Split, load_more_scores
from core.charts import bank as figures
from core.charts import words
from core.charts.outcome import Band
from core.errors import RecipeError
from core.stats import mean_interval
from pages.shared import chart, current_bank, current_recipe, details, is_dark, plain, say, wizard
from pages.shared.banks import mark_of
from pages.shared.noise import noise_of
from pages.shared.recipes import selection_of


@st.cache_resource(max_entries=32, show_spinner=False)
def _rows(_bank: Bank, mark: int, split: str, at: int) -> tuple[figures.ScoreRows, int]:
    """Scores under one protocol (0 is the bank's own), each mean with its 95 % interval over scenarios."""
    one = _bank.splits[split]
    scores, base, samples = one.scores, one.base_scores, one.samples
    if at:
        scores, base, samples = load_more_scores(_bank, one, one.more_scores[at - 1][0])
    every = [*scores, *([base] if base is not None else [])]
    has = [np.isfinite(row) for row in every]
    scenarios = np.array(one.scenarios, dtype=object)
    intervals = [mean_interval(row[mine], scenarios[mine].tolist()) for row, mine in zip(every, has, strict=True)]
    names = [c.id for c in _bank.checkpoints]
    return figures.score_rows(names, scores, (_bank.base.id, base), intervals), samples


@st.cache_resource(max_entries=16, show_spinner=False)
def _noise(_bank: Bank, mark: int, split: str) -> tuple[Band, float] | None:
    """As `noise_of`, once a bank."""
    return noise_of(_bank, split)


def protocols_of(split: Split) -> list[str]:
    """Labels of the protocols a split has scores under, the one recipes use first."""
    own = split.protocol.label if split.protocol else f"n={split.samples}"
    return [own, *(protocol.label for protocol, _ in split.more_scores)]


def switches(bank: Bank, default: str) -> tuple[str, int]:
    """Which split and which protocol to look at; neither changes what the recipe picks from."""
    names = list(bank.splits)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        split = names[0]
        if len(names) > 1:
            if st.session_state.get("view") not in (None, *names):
                del st.session_state["view"]
            split = (
                st.segmented_control(
                    "Tasks",
                    names,
                    default=default,
                    required=True,
                    key="view",
                    bind="query-params",
                    help=f"Which task set to look at. Recipes choose by the {default} scores whatever is shown here.",
                )
                or default
            )
        labels = protocols_of(bank.splits[split])
        at = 0
        if len(labels) > 1:
            chosen = st.segmented_control(
                "Scored with",
                labels,
                default=labels[0],
                required=True,
                key=f"protocol_{split}",
                persist_state="session",
                help="T is the sampling temperature, n the samples a task. Results compare only under one protocol; "
                f"recipes use {labels[0]}.",
            )
            at = labels.index(chosen) if chosen in labels else 0
    return split, at


def picks_of(bank: Bank) -> dict[str, int]:
    """Place in pick order of each pick of the live recipe; nothing where the recipe does not fit."""
    try:
        return {one.checkpoint: one.order for one in selection_of(bank, current_recipe()).picks}
    except RecipeError as problem:
        say(problem)
        return {}


def headline(bank: Bank, rows: figures.ScoreRows, split: str, samples: int, noise: tuple[Band, float] | None) -> None:
    """The bank's name and, in one sentence, what its scores come to."""
    if bank.kind == "illustrative":
        st.warning(
            "**Illustrative reconstruction.** These scores were constructed to agree with published figures; they "
            "were not measured. Which tasks are solved, and every similarity, are inventions.",
            icon=":material/draw:",
        )
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(plain(bank.title), anchor=False, width="stretch")
        wizard.load_button()
    known = (noise[1], noise[0].runs) if noise else None
    sentence = words.bank_sentence(rows, split, samples, known, sampled=bool(noise and noise[0].sampled))
    st.markdown(f"{plain(bank.description)} {plain(sentence)}", anchors=False)


def heatmap(rows: figures.ScoreRows, split: Split, samples: int, band: Band | None, picks: dict[str, int]) -> None:
    """The scores; a click on a cell chooses its task and checkpoint for the details below."""
    st.header(
        "Who solves what",
        anchor=False,
        help="A row is a checkpoint, a column a task. Outlined rows are the recipe's picks, numbered in pick order. "
        "Click a cell for its prompt and answers, or a mean for the checkpoint. The line through a mean is its 95 % "
        f"interval over {len(set(split.scenarios))} scenarios.",
    )

    def choose(points: list[dict[str, Any]]) -> None:
        name, task = figures.clicked(points)
        if name in rows.names:
            st.session_state[details.MEMBER] = name
        if task in split.tasks:
            st.session_state[details.TASK] = task

    chart(
        figures.score_heatmap(
            rows,
            split.tasks,
            picks,
            dark=is_dark(),
            samples=samples,
            band=band,
            marked_task=st.session_state.get(details.TASK),
        ),
        alt=words.heatmap_alt(rows, split.name, samples, picks),
        table=lambda: figures.score_table(rows, picks, samples),
        key="scores_chart",
        on_click=choose,
    )


def main() -> None:
    """Draw the page: the sentence, the heatmap, coverage, and what the user asks about."""
    if wizard.is_open():
        wizard.draw()
        return
    bank, recipe = current_bank(), current_recipe()
    top = st.container()
    default = recipe.split if recipe.split in bank.splits else next(iter(bank.splits))
    name, at = switches(bank, default)
    split, mark = bank.splits[name], mark_of(bank)
    rows, samples = _rows(bank, mark, name, at)
    noise = _noise(bank, mark, name) if at == 0 else None
    picks = picks_of(bank)
    with top:
        headline(bank, rows, name, samples, noise)
    heatmap(rows, split, samples, noise[0] if noise else None, picks)
    if noise:
        st.caption(words.band_sentence(noise[0], len(split.tasks)))
    elif at == 0:
        st.caption(plain(words.unknown_noise_sentence(rows, samples)))
    if split.alignment is not None:
        st.caption(plain(f"How these scores were made comparable: {split.alignment.sentence}."))
    left, right = st.columns([0.46, 0.54], gap="medium")
    with left:
        details.coverage(rows)
        details.member(bank, rows, picks)
    with right:
        details.task(bank, split, at)
    details.card(bank)


main()

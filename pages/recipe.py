"""The Recipe page: which checkpoints the recipe picks, why these, with what weights, and the plan.

Everything here is previewed from the bank's scores; nothing is merged.
"""

from dataclasses import replace

import streamlit as st

from core.bank.model import Bank
from core.charts import mmr, words
from core.charts import recipe as figures
from core.charts.pictures import weights_picture
from core.charts.theme import ink
from core.recipe import Selection, compile_plan, what_changed
from core.recipe.model import Recipe
from core.recipe.presets import PRESETS
from core.recipe.switch import lambda_switch_points
from pages.shared import chart, current_bank, current_recipe, current_selection, is_dark, on_primary, plain
from pages.shared.banks import mark_of
from pages.shared.recipes import previous_recipe, selection_or_none
from pages.shared.topline import apply_preset, recipe_name

STEP = "step"
MAX_POOL_FOR_STRIP, MAX_PICKS_FOR_STRIP = 200, 40


@st.cache_resource(max_entries=128, show_spinner=False)
def _intervals(_bank: Bank, mark: int, _recipe: Recipe, key: str) -> list[mmr.Interval]:
    found = lambda_switch_points(_bank, _recipe)
    ends = [*(one.lam for one in found[1:]), 1.0]
    return [(one.lam, end, one.picks) for one, end in zip(found, ends, strict=True)]


def intervals_of(bank: Bank, recipe: Recipe) -> list[mmr.Interval]:
    """The picks for every λ; computed once for all settings that do not move them."""
    still = replace(recipe, lam=0.5, tau=1.0, weighting="softmax", density=1.0, scale=1.0, normalize=True)
    still = replace(still, out_dtype="float32")
    return _intervals(bank, mark_of(bank), still, repr(still))


def headline(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """The picks as chips, first of all, so that they are on screen before any chart is drawn."""
    st.title(words.picks_headline(chosen), anchor=False)
    chips = " ".join(f":blue-badge[**{one.order}** · {plain(one.checkpoint)}]" for one in chosen.picks[:40])
    with st.container(key="picks", gap=None):
        st.markdown(chips, anchors=False)
    st.markdown(plain(words.picks_sentence(chosen)), anchors=False)
    before = previous_recipe()
    if before is not None:
        old = selection_or_none(bank, before)
        moved = f" Picks: {words.pick_changes(list(old.weights), list(chosen.weights))}." if old else ""
        st.caption(f"Changed last: {what_changed(before, recipe)}.{moved}")
    else:
        st.caption("Move a knob on the left; what changed against the last recipe is said here.")


def presets(bank: Bank, recipe: Recipe) -> None:
    """Recipes worth trying, each with a small picture of the weights it would give."""
    live = recipe_name(bank, recipe)
    colours = ink(is_dark())
    with st.container(horizontal=True, gap="xsmall", key="presets"):
        for one in PRESETS:
            chosen = one.title == live
            gives = selection_or_none(bank, one.apply(bank, recipe))
            # On the accent the bars take the colour of the label.
            picture = weights_picture(
                list(gives.weights.values()) if gives else [],
                ("#10151C" if is_dark() else "#FFFFFF") if chosen else colours.gain,
            )
            label = f"![]({picture})&nbsp; {on_primary(one.title) if chosen else one.title}"
            st.button(
                label,
                key=f"preset_{one.name}",
                type="primary" if chosen else "secondary",
                on_click=apply_preset,
                args=(bank, recipe, one.name),
                help=f"{plain(one.description)} Bars are the weights in pick order.",
            )


def _move(by: int, last: int) -> None:
    st.session_state[STEP] = min(max(st.session_state.get(STEP, 1) + by, 1), last)


@st.fragment
def steps(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """MMR pick by pick, with Back and Next; only this part is drawn again by them."""
    last = len(chosen.trace.steps)
    now = min(st.session_state.get(STEP, min(2, last)), last)
    st.session_state[STEP] = now
    step = chosen.trace.steps[now - 1]
    names = [one.id for one in bank.checkpoints]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Back", icon=":material/chevron_left:", key="step_back", on_click=_move, args=(-1, last), disabled=now == 1
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            key="step_next",
            on_click=_move,
            args=(1, last),
            disabled=now == last,
        )
        st.markdown(f"Step **{now}** of {last}: **{plain(names[step.index])}**", anchors=False)
    said = f"{words.step_formula(step, names, recipe.lam)}. {words.step_sentence(step, names)}"
    st.markdown(plain(said), anchors=False)
    chart(
        mmr.step_bars(step, names, dark=is_dark()),
        alt=f"Step {now} of {last}: {said}",
        table=lambda: mmr.step_table(step, names),
        key="step_chart",
    )


def weights(recipe: Recipe, chosen: Selection) -> None:
    """The weights now, then for every τ."""
    relevance = {one.checkpoint: one.relevance for one in chosen.picks}
    chart(
        figures.weight_bars(chosen.weights, dark=is_dark()),
        alt=words.weights_alt(chosen),
        table=lambda: figures.weight_table(chosen.weights, relevance),
        key="weights_chart",
    )


def against_tau(recipe: Recipe, chosen: Selection) -> None:
    """How the weights would move with τ."""
    if recipe.weighting == "uniform":
        st.caption("The weights are uniform, so τ has no effect. The chart shows what softmax would give.")
    relevance = {one.checkpoint: one.relevance for one in chosen.picks}
    chart(
        figures.weights_against_tau(relevance, recipe.tau, dark=is_dark()),
        alt=words.tau_alt(chosen, recipe.tau),
        table=lambda: figures.tau_table(relevance),
        key="tau_chart",
    )


def against_lambda(bank: Bank, recipe: Recipe) -> None:
    """The picks for every λ, with the exact points where they change."""
    if len(bank.checkpoints) > MAX_POOL_FOR_STRIP:
        st.caption(f"Drawn for pools of up to {MAX_POOL_FOR_STRIP} checkpoints; this one has {len(bank.checkpoints)}.")
        return
    if recipe.k > MAX_PICKS_FOR_STRIP:
        st.caption(f"Drawn for up to {MAX_PICKS_FOR_STRIP} picks; K is {recipe.k}.")
        return
    intervals = intervals_of(bank, recipe)
    names = [one.id for one in bank.checkpoints]
    chart(
        mmr.picks_against_lambda(intervals, names, recipe.lam, dark=is_dark()),
        alt=words.strip_alt(intervals, recipe.lam),
        table=lambda: mmr.strip_table(intervals),
        key="lambda_chart",
    )


def plan(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """The merge as a mergekit config, to read and to take elsewhere."""
    text = compile_plan(bank, recipe, chosen)
    st.download_button(
        "Download config.yml", text, "config.yml", "application/yaml", icon=":material/download:", on_click="ignore"
    )
    with st.expander("The mergekit config", expanded=False, key="plan_text"):
        st.code(text, language=None)


def main() -> None:
    """Draw the page, the picks first."""
    bank, recipe, chosen = current_bank(), current_recipe(), current_selection()
    headline(bank, recipe, chosen)
    presets(bank, recipe)
    if chosen.warnings:
        st.markdown("  \n".join(f":material/info: {plain(one)}" for one in chosen.warnings), anchors=False)
    left, right = st.columns([0.54, 0.46], gap="medium")
    with left:
        st.header(
            "Why these", anchor=False, help="Each step takes the open candidate with the largest sum of the bars."
        )
        steps(bank, recipe, chosen)
    with right:
        st.header(
            "Weights",
            anchor=False,
            help=f"Effective members: exp of the weights' entropy, {chosen.effective_members:.2f} of "
            f"{len(chosen.picks)} now; the number of picks when all weigh the same, 1 when one has everything.",
        )
        weights(recipe, chosen)
        st.header("Weights against τ", anchor=False)
        against_tau(recipe, chosen)
    st.header(
        "Picks for every λ",
        anchor=False,
        help="A row is a checkpoint, coloured where it is picked; the number is its place in pick order. The "
        f"dotted line is the present λ, {recipe.lam:g}.",
    )
    against_lambda(bank, recipe)
    st.header("The plan", anchor=False)
    plan(bank, recipe, chosen)


main()

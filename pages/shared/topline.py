"""The line on top of every page: the bank and what is in it, the recipe, undo, a link, what runs now.

Takes the live bank and recipe; changes them only through callbacks. Knows nothing about pages.
"""

from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.bank.model import Bank
from core.jobs import Job
from core.recipe import recipe_to_dict, what_changed
from core.recipe.model import Recipe
from core.recipe.presets import PRESETS, preset
from core.words import duration
from pages.shared import banks, details, recipes
from pages.shared.show import ledger, plain

LAST_PRESET = "last_preset"


def bank_row() -> tuple[DeltaGenerator, DeltaGenerator]:
    """The bank selector, and two places to fill once the bank is read: its description and the recipe."""
    known = list(banks.known_banks())
    left, middle, right = st.columns([0.22, 0.4, 0.38], vertical_alignment="center", gap="small")
    if known:
        left.selectbox(
            "Bank",
            known,
            key=banks.KEY,
            bind="query-params",
            label_visibility="collapsed",
            format_func=str,
            help=None,
        )
    return middle.container(), right.container(horizontal=True, horizontal_alignment="right", gap="xsmall")


def describe_bank(bank: Bank, slot: DeltaGenerator) -> None:
    """How many checkpoints and tasks, and what they started from."""
    split = bank.splits.get(st.session_state.get("split", ""), next(iter(bank.splits.values())))
    parts = [
        f"**{len(bank.checkpoints)}** checkpoints",
        f"**{len(split.tasks)}** {split.name} tasks",
    ]
    base = [plain(bank.base.id)] if bank.base.id != "base" else []
    base += [size] if (size := details.size_of(bank.base)) else []
    if base:
        parts.append(f"base {', '.join(base)}")
    if not bank.has_weights:
        parts.append("scores only")
    if bank.kind == "illustrative":
        parts.append("**illustrative reconstruction**")
    live = len(_live())
    running = "nothing is running" if not live else f"{live} {'run is' if live == 1 else 'runs are'} live"
    slot.markdown(" · ".join(parts) + f"  \n:small[{running}]", anchors=False)


def recipe_name(bank: Bank, recipe: Recipe) -> str:
    """The preset the recipe equals, or the last one it equalled and that it was changed since."""
    for one in PRESETS:
        if one.apply(bank, recipe) == recipe:
            st.session_state[LAST_PRESET] = one.name
            return one.title
    return f"{preset(st.session_state.get(LAST_PRESET, 's3')).title}, changed"


def apply_preset(bank: Bank, recipe: Recipe, name: str) -> None:
    """Move the knobs to a preset; a callback."""
    recipes.set_recipe(preset(name).apply(bank, recipe))


def _apply_chosen(bank: Bank, recipe: Recipe) -> None:
    chosen = st.session_state.get("preset_menu")
    if chosen:
        apply_preset(bank, recipe, chosen)


def recipe_controls(bank: Bank, recipe: Recipe, slot: DeltaGenerator) -> None:
    """Which recipe is live, with the presets behind it; undo; a link to exactly this screen."""
    with slot:
        st.menu_button(
            f"Recipe: {recipe_name(bank, recipe)}",
            [one.name for one in PRESETS],
            format_func=lambda name: preset(name).title,
            key="preset_menu",
            on_click=_apply_chosen,
            args=(bank, recipe),
            help="Recipes worth trying. Each sets the knobs on the left; Recipe shows what they pick.",
        )
        before = recipes.previous_recipe()
        st.button(
            "Undo",
            key="undo",
            on_click=recipes.undo,
            disabled=before is None,
            help=f"Take back: {what_changed(before, recipe)}." if before else "Nothing has been changed yet.",
        )
        with st.popover("Link", key="link"):
            st.markdown("A link to this screen: the bank and every knob, whatever the defaults become.")
            st.code(link_to(bank, recipe), language=None, wrap_lines=True)


def link_to(bank: Bank, recipe: Recipe) -> str:
    """The address of this page with the bank and every knob written out."""
    values: list[tuple[str, Any]] = [(banks.KEY, st.session_state.get(banks.KEY, bank.name))]
    for name, value in recipe_to_dict(recipe).items():
        if isinstance(value, list):
            values.extend((name, one) for one in value)
        else:
            values.append((name, str(value).lower() if isinstance(value, bool) else value))
    return f"{(st.context.url or '').partition('?')[0]}?{urlencode(values)}"


def running_line() -> None:
    """One line a live run, refreshed every second; nothing moves when none is."""
    if _live():
        _live_runs()


def _live() -> list[Job]:
    """Queued and running runs, the newest first."""
    return ledger().live_jobs()[::-1]


@st.fragment(run_every=1.0)
def _live_runs() -> None:
    live = _live()
    if not live:
        st.rerun()
    for one in live[:3]:
        st.progress(min(max(one.fraction, 0.0), 1.0), text=progress_text(one))
    if len(live) > 3:
        st.caption(f"and {len(live) - 3} more: see Runs")


def progress_text(job: Job) -> str:
    """Such as `rl_only: S3 · merge: writing · 62 % · about 8 s left`; the share is of the whole run."""
    parts = [job.title, job.stage or job.state, f"{100 * job.fraction:.0f} %"]
    if job.eta_seconds is not None:
        parts.append(f"about {duration(job.eta_seconds)} left")
    return plain(" · ".join(parts))

"""The ladder on the Results page: the button that runs every baseline as one family, and what came out.

Takes the live bank and recipe; the work is a job of its own. Evaluates nothing here.
"""

from typing import Any

import streamlit as st

from core.bank.model import Bank
from core.charts import ladder as figures
from core.errors import MergescopeError
from core.recipe import recipe_from_dict, recipe_to_dict, what_changed
from core.recipe.model import Recipe
from core.words import duration, file_size
from pages import launch
from pages.shared.runs import OPEN, note, page_link, when
from pages.shared.show import chart, is_dark, ledger, plain

SPLIT, REFUSED = "ladder_split", "ladder_refused"
HELP = (
    "A gain over the best single checkpoint alone shows little. Here the merge is set against what needs no recipe "
    "(the last checkpoint, a plain mean, random picks, a random push of the same length, a greedy soup) and against "
    "itself with one thing taken away. All are one family: p is adjusted by Holm for their number."
)


def panel(bank: Bank, recipe: Recipe) -> None:
    """Heading, the newest ladder of this bank, and the button for another."""
    st.header("What it has to beat", anchor=False, help=HELP)
    jobs = [one for one in ledger().jobs(200) if one.kind == "ladder" and one.spec.get("bank") == str(bank.root)]
    mine = [one for one in jobs if one.spec["recipe"] == recipe_to_dict(recipe)]
    done = next((one for one in (*mine, *jobs) if one.state == "succeeded"), None)
    if done is None:
        st.markdown(
            "Nothing yet. The ladder merges and evaluates every null baseline and ablation of the recipe, and says "
            "which of them the merge is better than.",
            anchors=False,
        )
    else:
        outcome(done, recipe)
    live = next((one for one in mine if one.live), None)
    if live is not None:
        note(f"The ladder of this recipe is {live.state} as run {live.id}. It goes on when this page is closed.")
        page_link("runs", "Watch it in Runs")
    elif done is None or done not in mine:
        button(bank, recipe)


def outcome(job: Any, recipe: Recipe) -> None:
    """One finished ladder: the sentence, the chart, the warning about the split that chose."""
    result, chosen_on = job.result, job.spec["recipe"].get("split", "dev")
    splits = list(result["families"])
    changed = what_changed(recipe_from_dict(job.spec["recipe"]), recipe)
    other = "" if job.spec["recipe"] == recipe_to_dict(recipe) else f" Of another recipe: {changed} since."
    split = splits[0]
    if len(splits) > 1:
        held_out = [one for one in splits if one != chosen_on]
        split = st.segmented_control(
            "Ladder on", splits, default=held_out[0], required=True, key=SPLIT, persist_state="session"
        ) or held_out[0]  # fmt: skip
    st.markdown(f"**{plain(figures.headline(result, split))}**", anchors=False)
    found, noise = figures.rivals(result, split), figures.noise_of(result, split)
    chart(
        figures.ladder_chart(found, noise, dark=is_dark()),
        alt=figures.alt(result, split, found),
        table=lambda: figures.ladder_table(found),
        key="ladder_chart",
    )
    st.markdown(plain(f"Strongest rival: {figures.sentence(found[0])}"), anchors=False)
    if noise:
        note(f"The grey band is what two runs of one model differ by (95 %): ± {noise:.1f} tasks.")
    note(f"Measured in run {job.id}, {when(job.finished)}.{other} {_repeats(result)}")
    if split == chosen_on:
        rest = {one: figures.headline(result, one) for one in splits if one != chosen_on}
        from core.stats.optimism import choice_warning

        st.warning(plain(choice_warning(chosen_on, split, held_out=rest)), icon=":material/balance:")


def _repeats(result: dict[str, Any]) -> str:
    """Which rungs are the same model as another and were not run again."""
    titles = {one["name"]: figures.title_of(one) for one in result["rungs"]}
    same = [f"{titles[one['name']]} is {titles[one['same_as']]}" for one in result["rungs"] if one["same_as"]]
    return f"The same model, run once: {'; '.join(same)}." if same else ""


def button(bank: Bank, recipe: Recipe) -> None:
    """Queue the ladder of the live recipe, after saying what it takes."""
    spec = spec_of(bank, recipe)
    try:
        needs = _amount(bank, spec)
    except (MergescopeError, OSError) as problem:
        note(str(problem))
        return
    st.button(
        "Run the ladder", icon=":material/stairs:", key="ladder_go", on_click=_submit,
        args=(spec, f"{bank.name}: ladder"),
    )  # fmt: skip
    note(
        f"{needs.made} models to make, {needs.evaluations} evaluations, about {duration(needs.seconds)} (rough). Each "
        f"model is removed once it is scored: at most {file_size(needs.bytes)} of disk at a time."
    )
    if st.session_state.get(REFUSED):
        st.error(st.session_state[REFUSED], icon=":material/error:")


def spec_of(bank: Bank, recipe: Recipe) -> dict[str, Any]:
    """What the job is asked to do: every split that has tasks, under the protocol chosen in the sidebar."""
    protocols, chosen = launch.protocols_of(bank), st.session_state.get(launch.PROTOCOL, 0)
    protocol = protocols[chosen if chosen < len(protocols) else 0]
    return {
        "bank": str(bank.root),
        "recipe": recipe_to_dict(recipe),
        "splits": launch.evaluable_splits(bank),
        "protocol": protocol.as_dict(),
    }


def _amount(bank: Bank, spec: dict[str, Any]) -> Any:
    from core.jobs.ladder import amount_of

    return amount_of(spec)


def _submit(spec: dict[str, Any], title: str) -> None:
    st.session_state.pop(REFUSED, None)
    try:
        st.session_state[OPEN] = ledger().submit("ladder", spec, title)
    except (MergescopeError, OSError) as problem:
        st.session_state[REFUSED] = str(problem)

"""The What-if page: what the merge would do to the weights, who decides, which knobs matter, what else it could pick.

Everything here is previewed: from a sample of the weights that is read once, and from the scores. Merges nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from core.bank.model import Bank
from core.charts import recipe_map, recipe_map_words, whatif
from core.charts import whatif_words as words
from core.charts.election import election_bars, election_shares, election_table
from core.errors import MergescopeError
from core.recipe import Selection
from core.recipe.coverage import pick_coverage
from core.recipe.model import Recipe
from core.recipe.nudges import lambda_room
from pages.shared import chart, current_bank, current_recipe, current_selection, is_dark, plain, say, xray
from pages.shared import whatif_data as data
from pages.shared.runs import note, page_link
from pages.shared.whatif_help import HELP

if TYPE_CHECKING:
    import pandas as pd

    from core.preview.compare import Comparison
    from core.preview.result import Preview

FIGURE, MEMBER, MEMBER_FIGURE = "whatif_figure", "whatif_member", "whatif_member_figure"
OF_TENSORS = {
    "Changed": "changed", "One member alone": "solo", "Agreed": "unanimous", "Contested": "contested",
    "Lost in bf16": "rounding_loss",
}  # fmt: skip
FIRST = "Moves by (of its length)"
OF_MEMBER = {
    FIRST: "relative", "Other direction": "turned", "Back to the base": "gone", "Another number in bf16": "visible",
    "Its part of the change": "share", "Of that, alone": "solo_share",
}  # fmt: skip
MAX_POOL, MAX_K = 200, 40


def header(text: str) -> None:
    """One of the questions, with its explanation."""
    st.header(text, anchor=False, help=HELP[text])


def subheader(text: str) -> None:
    """A heading with its explanation."""
    st.subheader(text, anchor=False, help=HELP[text])


def main() -> None:
    """The three questions about the weights, where there are any, then the one about the scores."""
    bank, recipe, chosen = current_bank(), current_recipe(), current_selection()
    study = None
    if bank.has_weights:
        study = study_or_none(bank, recipe, chosen)
    else:
        st.title("What else could this recipe pick?", anchor=False)
        note(
            "This bank has scores only. What a merge would do to the weights, who decides it and which knobs matter "
            "are seen by reading a sample of the checkpoints: choose a bank with weights above, such as rl_only."
        )
    if study is not None:
        about_weights(bank, recipe, chosen, study)
        st.header("What else could this recipe pick?", anchor=False)
    about_picks(bank, recipe, chosen)


def study_or_none(bank: Bank, recipe: Recipe, chosen: Selection) -> data.Study | None:
    """The preview with everything that follows from it, or None after saying why there is none."""
    try:
        with st.spinner("Reading a sample of the checkpoints, once…"):
            sample, key = data.sample_of(bank, recipe, chosen)
        with st.spinner("Estimating… The first time after an installation this compiles for up to half a minute."):
            return data.study_of(bank, recipe, sample, key)
    except (MergescopeError, OSError) as problem:
        st.title("These weights cannot be previewed", anchor=False)
        say(problem)
        note("A merge would be refused for the same reason. Below is what follows from the scores alone.")
        return None


def about_weights(bank: Bank, recipe: Recipe, chosen: Selection, study: data.Study) -> None:
    """The first three questions."""
    found, names = study.preview, list(chosen.weights)
    st.title(words.headline(found), anchor=False)
    note(words.basis(found, len(data.models_of(bank, chosen))))
    header("What would the merge do to the weights?")
    totals(study)
    tensors(study)
    alike(study, names)
    header("Who decides?")
    influence(recipe, chosen, study)
    leave_out(study, names)
    ablations(recipe, chosen, study)
    header("Which knobs matter here?")
    knobs(bank, recipe, chosen, study)
    header("One parameter, step by step")
    one_parameter(bank, recipe, chosen)


def totals(study: data.Study) -> None:
    """The figures of all parameters, each with its interval, and the election as one bar."""
    total = study.preview.total
    with st.container(horizontal=True, gap="large", key="whatif_figures"):
        for name, label, said in words.METRICS:
            percent = name != "merged_norm"
            st.metric(
                label, whatif.value_text(total[name], percent), help=said, width="content",
                delta=words.interval_of(total[name], percent), delta_color="off", delta_arrow="off",
            )  # fmt: skip
    shares = votes(study.preview)
    said = ", ".join(f"{vote} {value:.1f} %" for vote, value in shares.iloc[0].items())
    chart(
        election_bars(shares, dark=is_dark()),
        alt=f"Parameters by how the members voted: {said}.",
        table=lambda: election_table(shares),
        key="whatif_votes",
    )


def votes(found: "Preview") -> "pd.DataFrame":
    """Per cent of parameters by how members voted, as `election_bars` takes it."""
    tensors = [found.tensor(at) for at in range(len(found.names))]
    return election_shares(whatif.votes_report(data.places_of(found), found.design.elements.tolist(), tensors))


@st.fragment
def tensors(study: data.Study) -> None:
    """One figure for every tensor: layers down, modules across."""
    subheader("Tensor by tensor")
    label = st.segmented_control(
        "Figure", list(OF_TENSORS), default="Contested", required=True, key=FIGURE, label_visibility="collapsed"
    )
    label = label or "Contested"
    found = study.preview
    places = range(len(found.names))
    values = [found.tensor(at)[OF_TENSORS[label]] for at in places]
    heatmap(found, values, label.lower(), "whatif_tensors")
    with st.expander("Every tensor, every figure", key="whatif_every", on_change="rerun") as every:
        if every.open:
            st.dataframe(
                whatif.tensor_table(found.names, found.design.elements.tolist(), [found.tensor(at) for at in places]),
                hide_index=True, key="whatif_every_table", height=390 if len(places) > 10 else "content",
                alt="Every tensor with every previewed figure and its 95 % interval",
            )  # fmt: skip


def heatmap(found: "Preview", values: Sequence[whatif.Estimate], what: str, key: str) -> None:
    """A share of every tensor."""
    names = found.names
    rows = whatif.place_rows(names, data.places_of(found), values)
    most = max(range(len(names)), key=lambda at: np.nan_to_num(values[at].estimate))
    chart(
        whatif.place_heatmap(rows, what=what, dark=is_dark()),
        alt=f"Of {len(names)} tensors, {what}: most in {names[most]}, {whatif.range_text(values[most])}.",
        table=lambda: whatif.place_table(rows, what),
        key=key,
    )


def alike(study: data.Study, names: list[str]) -> None:
    """Cosines of the task vectors of every pair of picks."""
    found = study.preview
    if len(names) < 2:
        return
    subheader("How alike the changes are")
    pairs = {pair: found.pair(at) for at, pair in enumerate(found.pairs)}
    said = words.pairs_sentence(names, pairs)
    st.markdown(plain(said), anchors=False)
    matrix = whatif.cosine_matrix(len(names), {pair: one.estimate for pair, one in pairs.items()})
    chart(
        whatif.cosine_heatmap(names, matrix, dark=is_dark()),
        alt=said,
        table=lambda: whatif.pair_table(names, pairs),
        key="whatif_cosines",
    )


def influence(recipe: Recipe, chosen: Selection, study: data.Study) -> None:
    """Each member's weight against its share of the merged change."""
    names, weights = list(chosen.weights), list(chosen.weights.values())
    members = [study.preview.member(at) for at in range(len(names))]
    st.markdown(plain(words.outweighed(names, weights, members, recipe.normalize)), anchors=False)
    shares = [one["share"] for one in members]
    chart(
        whatif.influence(names, weights, shares, dark=is_dark()),
        alt=words.members_alt(names, weights, shares),
        table=lambda: whatif.member_table(names, weights, members),
        key="whatif_influence",
    )


def panels_of(found: "list[Comparison]") -> list[whatif.Panel]:
    """The columns that say how far another merge is from this one."""
    total = [one.total for one in found]
    return [
        whatif.Panel("moves by<br>(of its length)", [one["relative"] for one in total]),
        whatif.Panel("other<br>direction", [one["turned"] for one in total]),
        whatif.Panel("back to<br>the base", [one["gone"] for one in total]),
        whatif.Panel("another number<br>in bf16", [one["visible"] for one in total], top=1.0),
    ]


@st.fragment
def leave_out(study: data.Study, names: list[str]) -> None:
    """What leaves with each member; tensor by tensor for one of them."""
    subheader("If one of them left")
    with st.spinner("Merging the sample without each of them…"):
        left_out = study.left_out
    if not left_out:
        st.markdown("There is one member; without it nothing would be merged.", anchors=False)
        return
    shown = [names[at] for at, _ in left_out]
    found = [one for _, one in left_out]
    columns = panels_of(found)
    chart(
        whatif.panels([f"without {one}" for one in shown], columns, dark=is_dark()),
        alt=words.leave_out_alt(shown, found),
        table=lambda: whatif.panel_table("without", shown, columns),
        key="whatif_left_out",
    )
    if st.session_state.get(MEMBER) not in shown:
        st.session_state[MEMBER] = max(shown, key=lambda one: found[shown.index(one)].total["relative"].estimate)
    name = st.selectbox("Without", shown, key=MEMBER, persist_state="session", width=220)
    at = shown.index(name)
    member = study.preview.member(left_out[at][0])
    st.markdown(plain(words.leave_out_sentence(name, found[at], member)), anchors=False)
    label = st.segmented_control(
        "Figure of each tensor",
        list(OF_MEMBER),
        default=FIRST,
        required=True,
        key=MEMBER_FIGURE,
        label_visibility="collapsed",
    )
    label = label or FIRST
    values = member_values(study, left_out[at], OF_MEMBER[label])
    link = "without" if OF_MEMBER[label] in found[at].figures else "of"
    heatmap(study.preview, values, f"{label.lower()}, {link} {name}", "whatif_without")


def member_values(study: data.Study, left: "tuple[int, Comparison]", figure: str) -> Sequence[whatif.Estimate]:
    """One figure of every tensor: of the merge without a member, or of the member in the merge."""
    place, found = left
    tensors = range(len(found.names))
    if figure in found.figures:
        return [found.tensor(one)[figure] for one in tensors]
    return [study.preview.member(place, one)[figure] for one in tensors]


def ablations(recipe: Recipe, chosen: Selection, study: data.Study) -> None:
    """The published ablation and its relatives against the live recipe."""
    if not study.ablations:
        return
    subheader("Against simpler recipes")
    titles, found = [one.title for one in study.ablations], [one.found for one in study.ablations]
    members = {name: study.preview.member(at) for at, name in enumerate(chosen.weights)}
    said = [
        words.ablation_sentence(
            one.kind, one.found, kept=one.kept, weights=chosen.weights, members=members, reach=study.reach,
            normalize=recipe.normalize,
        )
        for one in study.ablations
    ]  # fmt: skip
    chart(
        whatif.panels(titles, panels_of(found), dark=is_dark()),
        alt="This recipe against simpler ones. " + said[0],
        table=lambda: whatif.panel_table("recipe", titles, panels_of(found)),
        key="whatif_ablations",
    )
    st.markdown("\n".join(f"- {plain(one)}" for one in said), anchors=False)


def knobs(bank: Bank, recipe: Recipe, chosen: Selection, study: data.Study) -> None:
    """How many parameters each knob reaches, and how far one step of it would move the merge."""
    alike_scores = len({one.relevance for one in chosen.picks}) == 1
    with st.spinner("Counting what each knob reaches…"):
        reach = study.reach
    lines = words.knob_lines(reach, study.preview.total, recipe, alike_scores)
    values = [one or whatif.ZERO for _, one, _ in lines]
    labels = [name if one is not None else f"{name} (inert)" for name, one, _ in lines]
    panel = [whatif.Panel("share of all parameters that it can affect at all", values, top=1.0)]
    chart(
        whatif.panels(labels, panel, dark=is_dark()),
        alt=words.reach_alt(lines),
        table=lambda: whatif.panel_table("knob", labels, panel),
        key="whatif_reach",
    )
    low, high = lambda_room(bank, recipe)
    said = [f"- **{name}**: {plain(why)}" for name, _, why in lines]
    said.append(f"- **λ**: {plain(words.lambda_sentence(recipe.lam, low, high, len(bank.checkpoints), recipe.k))}")
    st.markdown("\n".join(said), anchors=False)
    subheader("One step of each knob")
    names, columns = [one.said for one, _ in study.steps], panels_of([one for _, one in study.steps])
    chart(
        whatif.panels(names, columns, dark=is_dark()),
        alt=words.steps_alt(names, [one for _, one in study.steps]),
        table=lambda: whatif.panel_table("step", names, columns),
        key="whatif_steps",
    )


@st.fragment
def one_parameter(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """The X-ray of the merge; only this part is drawn again by it."""
    xray.draw(bank, recipe, chosen)


def about_picks(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """The recipe map, how stable the picks are, and what they cover; all from the scores."""
    split = bank.splits[recipe.split]
    names, picked = [one.id for one in bank.checkpoints], list(chosen.weights)
    if len(names) <= MAX_POOL and recipe.k <= MAX_K:
        subheader("The recipe map")
        regions = data.map_of(bank, recipe)
        said = recipe_map_words.map_sentence(regions, recipe.lam, recipe.k)
        st.markdown(plain(said), anchors=False)
        chart(
            recipe_map.map_figure(regions, recipe.lam, recipe.k, dark=is_dark()),
            alt=said,
            table=lambda: recipe_map.map_table(regions),
            key="whatif_map",
        )
    else:
        note(f"The recipe map is drawn for pools of up to {MAX_POOL} checkpoints and K up to {MAX_K}.")
    left, right = st.columns(2, gap="medium")
    with left:
        stability(bank, recipe, names, picked)
    with right:
        covered(split.scores, split.tasks, bank, picked)
    page_link("recipe", "Recipe")


def stability(bank: Bank, recipe: Recipe, names: list[str], picked: list[str]) -> None:
    """How often each checkpoint is picked when the tasks or the runs had been others."""
    subheader("How certain the picks are")
    with st.spinner("Drawing the tasks again…"):
        by_tasks, by_runs = data.stability_of(bank, recipe)
    grouped = by_tasks.groups < len(bank.splits[recipe.split].tasks)
    said = recipe_map_words.stability_sentence(
        names, picked, by_tasks, by_runs, "scenarios of tasks" if grouped else "tasks"
    )
    st.markdown(plain(said), anchors=False)
    shown = names if len(names) <= MAX_K else [one for one in names if by_tasks.frequency[names.index(one)] >= 0.02]
    chart(
        recipe_map.stability_bars(names, picked, by_tasks, by_runs, shown=shown, dark=is_dark()),
        alt=said,
        table=lambda: recipe_map.stability_table(names, picked, by_tasks, by_runs),
        key="whatif_stability",
    )


def covered(scores: np.ndarray, tasks: tuple[str, ...], bank: Bank, picked: list[str]) -> None:
    """Which tasks the picks solve together, and which pick adds which."""
    subheader("What the picks solve together")
    found = pick_coverage(scores, tuple(bank.index_of(one) for one in picked))
    said = recipe_map_words.coverage_sentence(picked, found)
    st.markdown(plain(said), anchors=False)
    chart(
        recipe_map.coverage_steps(picked, found, dark=is_dark()),
        alt=said,
        table=lambda: recipe_map.coverage_table(picked, tasks, found),
        key="whatif_coverage",
    )


main()

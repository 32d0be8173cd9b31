"""The wizard's last steps: what does not fit and what is done about it, and saving the bank.

Nothing is chosen for the visitor; the choices are written into the bank and from there into every plan.
"""

import re
from pathlib import Path

import streamlit as st

from core.bank.align import Problem, find_problems
from core.bank.choices import SETTINGS, Choices, Setting, group_problems, open_settings, settle
from core.bank.draft import Draft, pool_of, write_bank
from core.bank.scores import read_task_index
from core.charts.words import counted
from core.errors import BankError, MergescopeError
from pages.shared import banks
from pages.shared.show import plain
from pages.shared.wizard_state import KEY, close, forward, refuse, typed, wizard
from pages.shared.wizard_steps import GoOn

SHOWN = 6
"""Problems of one kind that are spelt out."""
NO_TASKS = "None: without prompts"


def problems() -> GoOn:
    """Every kind of problem with its choices; nothing is chosen."""
    state = wizard()
    assert state.matched is not None
    found = find_problems(state.matched.scores)
    groups = group_problems(found)
    for note in state.matched.notes:
        st.info(plain(note), icon=":material/replay:")
    if not groups:
        st.markdown(
            "Everything fits: each checkpoint has the same tasks, asked alike, scored as often, within 0 and 1.",
            anchors=False,
        )
    for one in SETTINGS:
        if one.name in groups or one in open_settings(found, chosen()):
            _ask(one, groups.get(one.name, []))
    unsettled = open_settings(found, chosen())
    why = f"Still to choose: {', '.join(one.title.lower() for one in unsettled)}." if unsettled else ""
    if why:
        st.caption(why)
    return GoOn("Next", forward, disabled=bool(unsettled), why=why)


def _ask(setting: Setting, found: list[Problem]) -> None:
    st.header(setting.title, anchor=False)
    said = [f"- {plain(one.sentence)}" for one in found[:SHOWN]]
    if len(found) > SHOWN:
        said.append(f"- and {len(found) - SHOWN} more like these")
    st.markdown("\n".join(said) or "Leaving something out, as chosen above, makes gaps.", anchors=False)
    if not setting.options:
        st.markdown("Tasks are matched by their name, so that their order does not matter.", anchors=False)
        return
    labels = {one.value: one.label for one in setting.options}
    picked = st.radio(
        "What to do",
        list(labels),
        index=None,
        key=f"{KEY}_choice_{setting.name}",
        format_func=lambda value: labels[value],
        persist_state="session",
    )
    if picked == "impute":
        st.number_input(
            "Score to fill in",
            min_value=0.0,
            max_value=1.0,
            value=None,
            key=f"{KEY}_impute",
            width=240,
            persist_state="session",
            help="A number that was not measured. Every plan made from this bank will say so.",
        )


def chosen() -> Choices:
    """What the visitor has chosen so far."""
    picked = {one.name: typed(f"choice_{one.name}", None) for one in SETTINGS if one.options}
    if picked["tasks"] == "impute":
        value = typed("impute", None)
        picked["tasks"] = None if value is None else f"impute:{value:g}"
    return Choices(**picked)


def save() -> GoOn:
    """Name and place of the new bank, and everything that was decided, once more."""
    state = wizard()
    assert state.matched is not None
    _defaults()
    left, right = st.columns(2)
    left.text_input("Name", key=f"{KEY}_name", persist_state="session", help="A short name: letters, digits, - and _.")
    right.text_input("Title (optional)", key=f"{KEY}_title", persist_state="session", placeholder="as the name")
    left.text_input(
        "What the task set is called",
        key=f"{KEY}_split",
        persist_state="session",
        help="Such as dev, by whose scores recipes choose, or test.",
    )
    right.text_input(
        "New folder",
        key=f"{KEY}_out",
        persist_state="session",
        help="bank.yaml and the scores are written there; checkpoints stay where they are.",
    )
    options = [None, *fitting_tasks(state.matched.scores.tasks)]
    if len(options) > 1:
        st.selectbox(
            "Task file, for prompts",
            options,
            index=1,
            key=f"{KEY}_tasks",
            persist_state="session",
            format_func=lambda path: NO_TASKS if path is None else str(path),
        )
    try:
        lines = summary()
    except MergescopeError as problem:
        st.error(plain(problem), icon=":material/error:")
        return GoOn("Save and open", _ask_save, disabled=True, why="Go back and choose otherwise.")
    st.markdown("\n".join(f"- {plain(one)}" for one in lines), anchors=False)
    return GoOn("Save and open", _ask_save)


def _defaults() -> None:
    """Suggest a name after the folder that was searched, once."""
    if f"{KEY}_name" in st.session_state:
        return
    state = wizard()
    folder = state.discovery.root.resolve().name if state.discovery else "uploaded"
    name = re.sub(r"[^\w-]+", "_", folder).strip("_") or "bank"
    place, count = Path("banks") / name, 2
    while place.exists():
        place, count = Path("banks") / f"{name}_{count}", count + 1
    st.session_state.update({f"{KEY}_name": place.name, f"{KEY}_split": "dev", f"{KEY}_out": str(place)})


def fitting_tasks(scored: tuple[str, ...]) -> list[Path]:
    """Task files that were found and have every scored task."""
    state = wizard()
    fitting = []
    for path in state.discovery.tasks if state.discovery else ():
        try:
            if set(scored) <= set(read_task_index(path)[0]):
                fitting.append(path)
        except MergescopeError:
            continue
    return fitting


def summary() -> list[str]:
    """Everything that was decided, a sentence each; raises BankError where the choices leave nothing."""
    state = wizard()
    assert state.matched is not None
    found = find_problems(state.matched.scores)
    aligned = settle(state.matched.scores, found, chosen())
    members, base = pool_of(state.matched, state.members, state.base or "")
    with_weights = sum(one.path is not None for one in members)
    weights = "all with weights" if with_weights == len(members) else f"{with_weights} of them with weights"
    lines = [
        f"{counted(len(members), 'checkpoint').capitalize()}, {weights}; "
        f"base: {base.id}{'' if base.path else ', without weights'}.",
        f"{len(aligned.tasks):,} of {len(state.matched.scores.tasks):,} tasks are kept.",
    ]
    groups, picked = group_problems(found), chosen().__dict__
    for one in SETTINGS:
        value = picked.get(one.name)
        if one.options and value is not None and (one.name in groups or one.name == "tasks"):
            label = next(each.label for each in one.options if each.value == value.partition(":")[0])
            filled = f" ({value.partition(':')[2]})" if ":" in value else ""
            lines.append(f"{one.title}: {label[0].lower()}{label[1:]}{filled}.")
    if state.matched.left_out:
        lines.append(f"Scores left out: {', '.join(state.matched.left_out[:8])}.")
    return lines


def _ask_save() -> None:
    """Write the bank and open it; a callback, so that the bank is chosen before its selector is drawn."""
    state = wizard()
    assert state.matched is not None
    try:
        name, out = typed("name").strip(), Path(typed("out").strip() or "?").expanduser()
        if not re.fullmatch(r"[\w][\w. -]{0,79}", name):
            raise BankError("The name may hold letters, digits, spaces, dots, - and _, 80 of them at most.")
        if typed("out").strip() == "" or not banks.is_allowed(out):
            places = ", ".join(map(str, banks.allowed_roots()))
            raise BankError(f"The new folder must lie below one that this explorer may read: {places}.")
        members, base = pool_of(state.matched, state.members, state.base or "")
        draft = Draft(
            name,
            base,
            members,
            state.matched,
            chosen(),
            split=typed("split").strip() or "dev",
            title=typed("title").strip(),
            tasks_file=typed("tasks", None),
        )
        write_bank(draft, out)
    except (MergescopeError, OSError, ValueError) as problem:
        refuse(problem)
        return
    close()
    banks.open_bank(out)

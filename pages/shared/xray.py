"""The Merge X-ray: one parameter of the recipe's merge in a row of boxes that can be checked with a pencil.

Takes the live bank, recipe and selection; the steps come from `core.preview.xray`. `aim` lets a chart choose the
tensor. Merges nothing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.bank.model import Bank
from core.errors import InputError, MergescopeError
from core.recipe import Selection, compile_plan
from core.recipe.model import Recipe
from pages.shared.show import plain, say

if TYPE_CHECKING:
    from core.merge import Plan
    from core.preview.xray import Xray

TENSOR, INDEX, ASKED, SAID = "xray_tensor", "xray_index", "xray_asked", "xray_said"
BUTTONS = {"contested": "a contested one", "lost": "one lost to bf16", "weak": "one a weak member decided"}
NO_BREAK = "\u00a0"
MEMBERS_WIDTH, TRIM_WIDTH = 490, 80
"""Pixels that a row of the members' table needs, and its column on the trim.

The other boxes share the rest of the line, or go under it.
"""
Stamps = tuple[tuple[str, int, int], ...]


def aim(tensor: str, index: int = 0) -> None:
    """Choose what the X-ray shows; from a callback, or before it is drawn."""
    st.session_state[TENSOR], st.session_state[INDEX] = tensor, str(index)
    st.session_state.pop(SAID, None)


def draw(bank: Bank, recipe: Recipe, chosen: Selection) -> None:
    """The whole panel: what to look at, the boxes, and the same in text."""
    if not bank.has_weights:
        st.markdown("This bank has scores only; the X-ray needs the weights. Choose a bank with weights above.")
        return
    try:
        text = compile_plan(bank, recipe, chosen)
        stamps = _stamps(text, str(bank.root))
        names = _names(text, str(bank.root), stamps)
        _first_look(text, str(bank.root), stamps, names)
        _choose(text, str(bank.root), stamps, names)
        found = _look(text, str(bank.root), stamps, st.session_state[TENSOR], _place(st.session_state[INDEX]))
    except MergescopeError as problem:
        say(problem)
        return
    _boxes(found, [one.checkpoint for one in chosen.picks])
    _in_text(found)


def _first_look(text: str, root: str, stamps: Stamps, names: list[str]) -> None:
    """Start at a contested parameter, where there is one."""
    if st.session_state.get(TENSOR) in names and st.session_state.get(INDEX):
        return
    example = _find(text, root, stamps, "contested", 0)
    aim(example.tensor or names[0], example.index)


def _choose(text: str, root: str, stamps: Stamps, names: list[str]) -> None:
    left, right = st.columns([0.72, 0.28], gap="small")
    with left:
        st.selectbox("Tensor", names, key=TENSOR, filter_mode="contains", persist_state="session")
    with right:
        st.text_input(
            "Index",
            key=INDEX,
            persist_state="session",
            help="Of the parameter, counted from 0: one number, or one for each dimension, such as 3, 17.",
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("Show me")
        for kind, label in BUTTONS.items():
            st.button(label, key=f"xray_{kind}", on_click=_show_me, args=(kind, text, root, stamps))
    if st.session_state.get(SAID):
        st.caption(st.session_state[SAID])


def _show_me(kind: str, text: str, root: str, stamps: Stamps) -> None:
    """Aim at another parameter of a kind with each press."""
    asked: dict[str, int] = st.session_state.setdefault(ASKED, {})
    seed = asked[kind] = asked.get(kind, 0) + 1
    try:
        example = _find(text, root, stamps, kind, seed)
    except MergescopeError as problem:
        st.session_state[SAID] = str(problem)
        return
    if example.tensor:
        aim(example.tensor, example.index)
    st.session_state[SAID] = example.said


def _place(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in text.replace(" ", "").split(","))
    except ValueError:
        raise InputError(f"index: expected a number such as 1234, or 3, 17; found {text!r:.40}.") from None


def _boxes(found: "Xray", names: list[str]) -> None:
    from core.preview.sentences import place_of

    st.markdown(f"**{plain(place_of(found))}**", anchors=False)
    boxes = _contents(found, names)
    with st.container(horizontal=True, gap="small", key="xray_boxes"):
        for title, text in boxes:
            first = title == boxes[0][0]
            width: Any = MEMBERS_WIDTH + TRIM_WIDTH * ("| trim |" in text) if first else "stretch"
            with st.container(
                border=True, height="stretch", width=width, gap="small", key=f"xray_box_{title.split()[0]}"
            ):
                st.markdown(f"**{title}**", anchors=False)
                st.markdown(text, anchors=False)


def _contents(found: "Xray", names: list[str]) -> list[tuple[str, str]]:
    """Title and text of each box, in the order of the work."""
    from core.preview.sentences import number, short_trim_of, steps_of, vote_of

    steps = {name: plain(formula) for name, formula in steps_of(found)}
    ties, trims = found.method == "ties", any(one.threshold is not None for one in found.members)
    heads = ["member", "δ", *(["rank, trim"] if trims else []), "weight", "weight·δ", "vote" if ties else "sign"]
    rows = [heads, ["---", "---:", *(["---"] if trims else []), "---:", "---:", "---"]]
    for name, one in zip(names, found.members, strict=True):
        trim = [short_trim_of(one)] if trims else []
        rows.append([plain(name), number(one.delta), *trim, f"{one.weight:.4g}", number(one.weighted)])
        rows[-1].append(vote_of(one, found))
    table = "\n".join(f"| {' | '.join(cell.replace(' ', NO_BREAK) for cell in row)} |" for row in rows)
    keeps = {one.keeps for one in found.members} - {None}
    kept = f"; the trim keeps ranks up to {keeps.pop():,}" if trims and len(keeps) == 1 else ""
    boxes = [("Members: δ = value − base", f"{table}\n\nbase {steps['base']}{kept}")]
    if ties:
        boxes.append(("Vote", steps["vote"]))
    middle = "mean" if found.divisor is not None else "sum"
    scale = f"  \nscale: {steps['scale']}" if "scale" in steps else ""
    boxes.append((middle.capitalize(), steps[middle] + scale))
    boxes.append(("Add, round", f"{steps['add']}\n\n{steps['round']}"))
    return boxes


def _in_text(found: "Xray") -> None:
    """The members as a table, and everything in one line to copy."""
    import pandas as pd

    from core.preview.sentences import member_rows, one_line

    with st.expander("Table, and one line to copy", key="xray_text"):
        heads, rows = member_rows(found)
        st.dataframe(
            pd.DataFrame(rows, columns=list(heads)),
            hide_index=True,
            key="xray_table",
            alt=f"What each member does to {found.tensor} at flat index {found.index}",
        )
        st.code(one_line(found), language=None, wrap_lines=True)


def _stamps(text: str, root: str) -> Stamps:
    """Names, times and sizes of the weight files of a plan's models: when these change they are read again."""
    files = [one for folder in _plan(text, root).folders for one in sorted(folder.glob("*.safetensors"))]
    return tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in files)


def _plan(text: str, root: str) -> "Plan":
    from core.merge import parse_plan

    return parse_plan(text, Path(root) / "config.yml")


@st.cache_data(max_entries=16, show_spinner=False)
def _names(text: str, root: str, stamps: Stamps) -> list[str]:
    from core.preview.xray import open_reader

    with open_reader(_plan(text, root)) as reader:
        return [one.name for one in reader.jobs]


@st.cache_resource(max_entries=64, show_spinner="Looking…")
def _look(text: str, root: str, stamps: Stamps, tensor: str, place: tuple[int, ...]) -> "Xray":
    from core.preview.xray import xray

    return xray(_plan(text, root), tensor, place[0] if len(place) == 1 else place)


@st.cache_resource(max_entries=64, show_spinner="Looking for one…")
def _find(text: str, root: str, stamps: Stamps, kind: str, seed: int) -> Any:
    from core.preview.examples import find_example

    return find_example(_plan(text, root), kind, seed)

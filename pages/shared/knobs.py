"""The sidebar's knobs, made from the one table of knobs, each bound to the address under its name.

Every value that comes from an address is checked here before a widget sees it. Knows nothing about
what the knobs do.
"""

import math
from collections.abc import Callable
from typing import Any

import streamlit as st

from core.bank.model import Bank
from core.errors import RecipeError
from core.recipe import KNOBS, Knob, Selection, knob, recipe_from_dict
from core.recipe.model import Recipe
from pages.shared.explain import help_of

TAUS = (
    0.001,
    0.0015,
    0.002,
    0.003,
    0.005,
    0.007,
    0.01,
    0.015,
    0.02,
    0.03,
    0.05,
    0.07,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.7,
    1,
)
Message = Callable[[], str | None]
"""A sentence for the visitor, made once the knobs are drawn; None where there is nothing to say."""
SEEN, K_UNBOUND = "knobs_drawn", "k_not_in_address"
MAX_SHOWN = 40


def read_address(bank: Bank) -> list[Message]:
    """Take knob values from the address on a session's first run; messages for those that are not valid.

    A value that is no recipe's is replaced by the knob's default. The widget has the last word on
    what an address means, so a message is made after the knobs are drawn and says what they show.
    """
    if st.session_state.get(SEEN):
        return []
    st.session_state[SEEN] = True
    problems: list[Message] = []
    for one in KNOBS:
        raw = st.query_params.get_all(one.name)
        if not raw:
            continue
        try:
            value = recipe_from_dict({one.name: parse(one, raw)})
            st.session_state[one.name] = _plain(getattr(value, one.name))
            if one.type == "float":
                problems.append(_out_of_reach(one, raw, st.session_state[one.name]))
        except RecipeError as problem:
            st.session_state[one.name] = default_of(one, bank)
            problems.append(_not_valid(one, raw, problem))
            if one.name == "k" and parse(one, raw) in {math.inf, -math.inf}:
                # streamlit's widget would read it too, and ends in an OverflowError.
                st.session_state[K_UNBOUND] = True
    return problems


def _not_valid(one: Knob, raw: list[str], problem: RecipeError) -> Message:
    shown, wanted = ", ".join(raw)[:MAX_SHOWN], _accepted(problem)
    return lambda: (
        f"The link's {one.symbol} = “{shown}” is not used: expected {wanted}. "
        f"{one.symbol} is {_said(st.session_state[one.name])}."
    )


def _out_of_reach(one: Knob, raw: list[str], asked: float) -> Message:
    """For a value that a recipe may have but the knob's widget does not offer."""

    def said() -> str | None:
        now = st.session_state[one.name]
        if now == asked:
            return None
        return f"The link's {one.symbol} = “{raw[-1][:MAX_SHOWN]}” is beyond this knob; {one.symbol} is {_said(now)}."

    return said


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accepted(problem: RecipeError) -> str:
    return str(problem).partition("expected ")[2].partition("; found")[0] or "a valid value"


def parse(one: Knob, raw: list[str]) -> Any:
    """The value an address means for a knob, in the knob's type; raises RecipeError when it is no such value."""
    if one.type == "ids":
        return raw
    text = raw[-1]
    try:
        if one.type == "float":
            return float(text)
        if one.type == "int":
            number = float(text)
            return int(number) if number.is_integer() else number
        if one.type == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except (ValueError, KeyError, OverflowError):
        pass
    return text


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def default_of(one: Knob, bank: Bank) -> Any:
    """A knob's default, as far as the bank allows it."""
    if one.name == "k":
        return min(Recipe().k, len(bank.checkpoints))
    if one.name == "split" and one.default not in bank.splits:
        return next(iter(bank.splits))
    return _plain(one.default)


def fit_to_bank(bank: Bank) -> list[Message]:
    """Bring what depends on the bank within it (K, ids, split), before the knobs are drawn; says what was changed."""
    said: list[Message] = []
    ids = {one.id for one in bank.checkpoints}
    for name in ("pin", "ban"):
        chosen = st.session_state.get(name) or []
        kept = [one for one in chosen if one in ids and not (name == "ban" and one in st.session_state.get("pin", []))]
        if kept != list(chosen):
            gone = ", ".join(str(one)[:MAX_SHOWN] for one in chosen if one not in kept)
            text = f"{knob(name).label}: {gone} was dropped; it is not in this bank, or it is pinned."
            said.append(lambda text=text: text)  # type: ignore[misc]
            st.session_state[name] = kept
    for name in ("k", "split"):
        st.session_state.setdefault(name, default_of(knob(name), bank))
    low, high = bounds_of_k(bank)
    k = st.session_state["k"]
    if isinstance(k, int) and not low <= k <= high:
        said.append(lambda: f"K = {k} does not fit this bank and its pins and bans; K is {st.session_state['k']}.")
        st.session_state["k"] = min(max(k, low), high)
    asked = st.session_state["split"]
    if asked not in bank.splits:
        st.session_state["split"] = default_of(knob("split"), bank)
        used = st.session_state["split"]
        said.append(lambda: f"This bank has no scores named “{str(asked)[:MAX_SHOWN]}”; {used} is used.")
    return said


def bounds_of_k(bank: Bank) -> tuple[int, int]:
    """Smallest and largest K for the present pins and bans."""
    pins, bans = (len(st.session_state.get(name) or []) for name in ("pin", "ban"))
    high = max(1, len(bank.checkpoints) - bans)
    return min(max(1, pins), high), high


def draw_knobs(bank: Bank, recipe: Recipe, selection: Selection | None) -> None:
    """All knobs, the daily ones first; the rest folded away but always alive, so that their address holds."""

    def said(name: str) -> str:
        return help_of(knob(name), bank, recipe, selection)

    _slider(knob("lam"), said("lam"))
    _tau(said("tau"), disabled=recipe.weighting == "uniform")
    low, high = bounds_of_k(bank)
    st.number_input(
        "K: picks",
        min_value=low,
        max_value=high,
        value=min(max(int(default_of(knob("k"), bank)), low), high),
        step=1,
        key="k",
        bind=None if st.session_state.get(K_UNBOUND) else "query-params",
        help=said("k"),
    )
    left, right = st.columns(2, gap="small")
    with left:
        _number(knob("density"), "Density", said("density"))
    with right:
        _number(knob("scale"), "Scale", said("scale"))
    with st.expander("More knobs", key="more_knobs"):
        _more(bank, said)


def _more(bank: Bank, said: Any) -> None:
    _choice(knob("weighting"), list(knob("weighting").choices), said("weighting"), bank)
    _choice(knob("similarity"), list(knob("similarity").choices), said("similarity"), bank)
    _choice(knob("split"), list(bank.splits), said("split"), bank)
    ids = [one.id for one in bank.checkpoints]
    for name in ("pin", "ban"):
        other = st.session_state.get("ban" if name == "pin" else "pin") or []
        st.multiselect(
            knob(name).label,
            [one for one in ids if one not in other],
            key=name,
            bind="query-params",
            help=said(name),
            placeholder="none",
        )
    st.toggle(
        knob("normalize").label,
        value=bool(knob("normalize").default),
        key="normalize",
        bind="query-params",
        help=said("normalize"),
        wrap=True,
    )
    _choice(knob("out_dtype"), list(knob("out_dtype").choices), said("out_dtype"), bank)


def _number_of(one: Knob) -> float:
    return float(getattr(Recipe(), one.name))


def _slider(one: Knob, said: str) -> None:
    st.slider(
        f"{one.symbol}: {one.label.lower()}",
        min_value=float(one.low or 0.0),
        max_value=float(one.high or 1.0),
        value=_number_of(one),
        step=float(one.step or 0.01),
        format="%.4g",
        key=one.name,
        bind="query-params",
        help=said,
    )


def _tau(said: str, *, disabled: bool) -> None:
    one = knob("tau")
    now = st.session_state.get("tau", one.default)
    options = sorted({*map(float, TAUS), float(now)})
    st.select_slider(
        f"{one.symbol}: {one.label.lower()}",
        options=options,
        value=_number_of(one),
        format_func=lambda value: f"{value:g}",
        key="tau",
        bind="query-params",
        help=said,
        disabled=disabled,
    )


def _number(one: Knob, label: str, said: str) -> None:
    """A knob that is typed more often than moved; its bounds are what is valid, wider than a slider's."""
    low = one.at_least if one.at_least is not None else 0.001 if one.above == 0 else -10.0
    st.number_input(
        label,
        min_value=low,
        max_value=one.at_most if one.at_most is not None else 10.0,
        value=_number_of(one),
        step=one.step,
        format="%g",
        key=one.name,
        bind="query-params",
        help=said,
    )


def _choice(one: Knob, options: list[str], said: str, bank: Bank) -> None:
    st.selectbox(
        one.label,
        options,
        index=options.index(str(default_of(one, bank))),
        key=one.name,
        bind="query-params",
        help=said,
    )

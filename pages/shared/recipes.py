"""The live recipe and what it picks; presets and undo write it back through the knobs.

The knobs' widgets (see `knobs.py`) keep each value in the session under the knob's own name and
in the address. Knows nothing about how a chart looks.
"""

import dataclasses
from functools import lru_cache
from typing import Any

import streamlit as st

from core.bank.model import Bank
from core.errors import RecipeError
from core.recipe import Selection, select
from core.recipe.model import Recipe
from pages.shared.banks import current_bank

HISTORY = "recipe_history"
MAX_HISTORY = 50
FIELDS = tuple(field.name for field in dataclasses.fields(Recipe))


def current_recipe() -> Recipe:
    """The recipe that the sidebar shows; a knob that was never drawn has its default."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        value = st.session_state.get(name)
        if value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return Recipe(**values)


def set_recipe(recipe: Recipe) -> None:
    """Move every knob to `recipe`; only from a callback, before the knobs are drawn."""
    for name in FIELDS:
        value = getattr(recipe, name)
        st.session_state[name] = list(value) if isinstance(value, tuple) else value


def note_recipe(recipe: Recipe) -> None:
    """Remember the recipe when it differs from the last one, for undo and *what changed*."""
    history = st.session_state.setdefault(HISTORY, [recipe])
    if history[-1] != recipe:
        history.append(recipe)
        del history[:-MAX_HISTORY]


def previous_recipe() -> Recipe | None:
    """The recipe before the present one, or None."""
    history = st.session_state.get(HISTORY, [])
    return history[-2] if len(history) > 1 else None


def undo() -> None:
    """Go back to the recipe before this one; a callback."""
    history = st.session_state.get(HISTORY, [])
    if len(history) > 1:
        history.pop()
        set_recipe(history[-1])


@lru_cache(maxsize=128)
def _select(bank: Bank, recipe: Recipe) -> Selection:
    return select(bank, recipe)


def selection_of(bank: Bank, recipe: Recipe) -> Selection:
    """What `recipe` picks from `bank`, computed once; raises RecipeError."""
    return _select(bank, recipe)


def selection_or_none(bank: Bank, recipe: Recipe) -> Selection | None:
    """What `recipe` picks from `bank`, or None where it does not fit the bank."""
    try:
        return selection_of(bank, recipe)
    except RecipeError:
        return None


def current_selection() -> Selection:
    """What the live recipe picks from the live bank; says why and stops the page where it cannot."""
    try:
        return selection_of(current_bank(), current_recipe())
    except RecipeError as problem:
        st.error(str(problem))
        st.stop()

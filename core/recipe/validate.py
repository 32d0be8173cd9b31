"""Turns untrusted values into a recipe, checks a recipe against its bank, and names what changed.

Takes plain dicts (from a URL, a file or a form) and banks; raises RecipeError. Computes nothing.
"""

import difflib
import math
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from core.bank.model import Bank
from core.errors import RecipeError
from core.recipe.knobs import KNOBS, Knob
from core.recipe.model import Recipe


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """All knobs as JSON values, in the order of the table; `recipe_from_dict` gives the recipe back."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(recipe).items()}


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe:
    """A recipe from untrusted values; knobs that are absent take their defaults.

    Raises RecipeError naming the knob for an unknown name, a wrong type, or a value out of range.
    What depends on a bank (K against the pool, ids, splits) is checked by `validate`.
    """
    if not isinstance(values, Mapping):
        raise RecipeError(f"a recipe must be a mapping of knobs to values, found {reprlib.repr(values)}.")
    names = [one.name for one in KNOBS]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise RecipeError(f"unknown knob {reprlib.repr(name)}.{hint} Knobs: {', '.join(names)}.")
    return Recipe(**{one.name: _checked(one, values[one.name]) for one in KNOBS if one.name in values})


def validate(recipe: Recipe, bank: Bank) -> None:
    """Check every knob's range, and that the recipe fits the bank.

    Raises RecipeError for a value out of range, an unknown split, an unknown, repeated or both
    pinned and banned checkpoint, or K outside the pins and the pool.
    """
    for one in KNOBS:
        _checked(one, getattr(recipe, one.name))
    if recipe.split not in bank.splits:
        raise RecipeError(f"unknown split '{recipe.split}'. The bank '{bank.name}' has: {', '.join(bank.splits)}.")
    ids = [one.id for one in bank.checkpoints]
    for kind, chosen in (("pinned", recipe.pin), ("banned", recipe.ban)):
        for name in chosen:
            if name not in ids:
                near = difflib.get_close_matches(name, ids, n=1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise RecipeError(f"{kind} checkpoint {reprlib.repr(name)} is not in the bank '{bank.name}'.{hint}")
        repeated = [name for name in chosen if chosen.count(name) > 1]
        if repeated:
            raise RecipeError(f"checkpoint '{repeated[0]}' is {kind} twice. Name it once.")
    both = [name for name in recipe.pin if name in recipe.ban]
    if both:
        raise RecipeError(f"checkpoint '{both[0]}' is both pinned and banned. Remove it from one of them.")
    _check_k(recipe, len(ids))


def _check_k(recipe: Recipe, pool: int) -> None:
    left = pool - len(recipe.ban)
    if recipe.k > left:
        less = f" less {len(recipe.ban)} banned" if recipe.ban else ""
        raise RecipeError(
            f"K is {recipe.k}, but the pool has {pool} checkpoints{less}. Expected K of at most {left}: "
            f"lower K{' or ban fewer' if recipe.ban else ''}."
        )
    if recipe.k < len(recipe.pin):
        raise RecipeError(f"K is {recipe.k}, but {len(recipe.pin)} are pinned. Raise K or pin fewer.")


def _checked(one: Knob, value: Any) -> Any:
    """`value` in the knob's own type; RecipeError when it is not that, or out of range."""
    if one.type == "ids":
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) and part for part in value):
            raise _wrong(one, value, "a list of checkpoint ids")
        return tuple(value)
    if one.type == "bool":
        if not isinstance(value, bool):
            raise _wrong(one, value, one.valid)
        return value
    if one.type == "choice":
        if not isinstance(value, str) or not value or (one.choices and value not in one.choices):
            raise _wrong(one, value, one.valid)
        return value
    return _number(one, value)


def _number(one: Knob, value: Any) -> float | int:
    whole = one.type == "int"
    wanted = f"a {'whole ' if whole else ''}number, {one.valid}"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise _wrong(one, value, wanted)
    try:
        number: float | int = value if whole else float(value)
    except OverflowError:
        raise _wrong(one, value, wanted) from None
    too_low = (one.at_least is not None and number < one.at_least) or (one.above is not None and number <= one.above)
    too_high = one.at_most is not None and number > one.at_most
    if (not whole and not math.isfinite(number)) or too_low or too_high:
        raise _wrong(one, value, wanted)
    return number


def _wrong(one: Knob, value: Any, wanted: str) -> RecipeError:
    sign = "" if one.symbol == one.name else f" ({one.symbol})"
    return RecipeError(f"{one.name}{sign}: expected {wanted}; found {reprlib.repr(value)}.")


def what_changed(old: Recipe, new: Recipe) -> str:
    """One line with every knob that differs, such as `λ 0.7 → 0.5, K 5 → 4`."""
    symbols = {one.name: one.symbol for one in KNOBS}
    parts = [
        f"{symbols[field.name]} {_shown(getattr(old, field.name))} → {_shown(getattr(new, field.name))}"
        for field in fields(Recipe)
        if getattr(old, field.name) != getattr(new, field.name)
    ]
    return ", ".join(parts) or "nothing changed"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)

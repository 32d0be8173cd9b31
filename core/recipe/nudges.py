"""One plausible step of each knob: what to try when asking which knobs matter here.

Takes a bank and a recipe; gives other recipes that fit the bank. Computes no merge.
"""

from dataclasses import dataclass, replace

from core.bank.model import Bank
from core.errors import RecipeError
from core.recipe.model import Recipe
from core.recipe.switch import lambda_switch_points
from core.recipe.validate import validate

NEXT = 1e-6
"""How far beyond a switch point of λ a step goes."""


@dataclass(frozen=True)
class Nudge:
    """The recipe with one knob moved."""

    knob: str
    """Name in `KNOBS`."""
    said: str
    """What was done, such as `τ 0.02 → 0.04`."""
    recipe: Recipe


def nudges(bank: Bank, recipe: Recipe) -> tuple[Nudge, ...]:
    """λ past its switch points, K by one, τ doubled and halved, density and scale halved, the rest the other way.

    Steps that do not fit the bank are left out. Raises RecipeError when the recipe itself does not.
    """
    tried = [
        *_lambda_steps(bank, recipe),
        *(Nudge("k", f"K {recipe.k} → {k}", replace(recipe, k=k)) for k in (recipe.k - 1, recipe.k + 1)),
        *(
            Nudge("tau", f"τ {recipe.tau:g} → {tau:g}", replace(recipe, tau=tau, weighting="softmax"))
            for tau in ((recipe.tau / 2, recipe.tau * 2) if recipe.weighting == "softmax" else ())
        ),
        _weighting(recipe),
        Nudge("density", _halved("density", recipe.density), replace(recipe, density=recipe.density / 2)),
        Nudge("scale", _halved("scale", recipe.scale), replace(recipe, scale=recipe.scale / 2)),
        Nudge(
            "normalize",
            f"divide by agreeing weights: {'on → off' if recipe.normalize else 'off → on'}",
            replace(recipe, normalize=not recipe.normalize),
        ),
    ]
    return tuple(one for one in tried if _fits(bank, one.recipe))


def _halved(name: str, now: float) -> str:
    return f"{name} {now:g} → {now / 2:g}"


def _weighting(recipe: Recipe) -> Nudge:
    other = "uniform" if recipe.weighting == "softmax" else "softmax"
    return Nudge("weighting", f"weights {recipe.weighting} → {other}", replace(recipe, weighting=other))  # type: ignore[arg-type]


def lambda_room(bank: Bank, recipe: Recipe) -> tuple[float, float]:
    """From which λ to which the picked set stays what it is; (0, 1) where λ changes nothing."""
    path = lambda_switch_points(bank, recipe)
    ends = [*(one.lam for one in path[1:]), 1.0]
    at = max(place for place, one in enumerate(path) if one.lam <= recipe.lam)
    first = last = at
    while first > 0 and set(path[first - 1].picks) == set(path[at].picks):
        first -= 1
    while last + 1 < len(path) and set(path[last + 1].picks) == set(path[at].picks):
        last += 1
    return path[first].lam, ends[last]


def _lambda_steps(bank: Bank, recipe: Recipe) -> list[Nudge]:
    low, high = lambda_room(bank, recipe)
    beyond = ([low - NEXT] if low > 0 else []) + ([high + NEXT] if high < 1 else [])
    return [Nudge("lam", f"λ {recipe.lam:g} → {one:.4f}", replace(recipe, lam=one)) for one in beyond]


def _fits(bank: Bank, recipe: Recipe) -> bool:
    try:
        validate(recipe, bank)
    except RecipeError:
        return False
    return True

"""The `?` beside a knob: what it means, then what it does now, in the numbers on screen.

Takes the live bank, recipe and selection; gives Markdown. Computes nothing itself.
"""

from core.bank.model import Bank
from core.recipe import Knob, Selection
from core.recipe.model import Recipe
from pages.shared.show import plain


def help_of(one: Knob, bank: Bank, recipe: Recipe, selection: Selection | None) -> str:
    """The knob's own help with its default and, where a selection exists, the present numbers."""
    now = _now(one.name, bank, recipe, selection) if selection else ""
    return plain(" ".join(part for part in (one.help, now, f"Accepts: {one.valid}.") if part))


def _now(name: str, bank: Bank, recipe: Recipe, chosen: Selection) -> str:
    picks = chosen.picks
    if name == "lam" and len(picks) > 1:
        second = picks[1]
        return (
            f"Now: pick 2 is {second.checkpoint} with {recipe.lam:g} · {second.relevance:.4f} − "
            f"{1 - recipe.lam:.4g} · {second.max_similarity:.4f} = {second.score:.4f}."
        )
    if name == "tau" and recipe.weighting == "softmax":
        first = max(chosen.weights, key=lambda key: chosen.weights[key])
        return f"Now: {first} has the largest weight, {chosen.weights[first]:.3f}; the weights amount to " + (
            f"{chosen.effective_members:.2f} effective members of {len(picks)}."
        )
    if name == "k":
        return f"Now: {len(picks)} of {len(bank.checkpoints)}."
    if name == "similarity" and len(picks) > 1:
        return f"Now: pick 2 is {picks[1].max_similarity:.3f} similar to pick 1."
    return ""

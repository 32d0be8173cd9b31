"""The recipe map: which set of checkpoints is picked at every λ and K, with exact switch points.

Takes a bank and a recipe (whose own λ and K are ignored). Knows nothing about drawing.
"""

from dataclasses import dataclass, replace

from core.bank.model import Bank
from core.recipe.model import Recipe
from core.recipe.select import relevances
from core.recipe.switch import lambda_switch_points


@dataclass(frozen=True)
class Region:
    """A stretch of λ over which one K picks one set."""

    k: int
    low: float
    high: float
    picks: tuple[str, ...]
    """The set in bank order, since the order of picking does not change the merge."""
    mean_q: float
    """Mean relevance of the set, in [0, 1]."""


def recipe_map(bank: Bank, recipe: Recipe, most: int) -> tuple[Region, ...]:
    """Regions for K from the number of pins (at least 1) to `most`, K by K and from λ = 0 to 1.

    The picks of K are the first K picks of any larger one, so that one path gives all. Raises RecipeError when the
    recipe with K = `most` does not fit the bank.
    """
    path = lambda_switch_points(bank, replace(recipe, k=most))
    ends = [*(one.lam for one in path[1:]), 1.0]
    place = {one.id: at for at, one in enumerate(bank.checkpoints)}
    q = relevances(bank.splits[recipe.split])
    found: list[Region] = []
    for k in range(max(1, len(recipe.pin)), most + 1):
        row: list[Region] = []
        for one, end in zip(path, ends, strict=True):
            picks = tuple(sorted(one.picks[:k], key=place.__getitem__))
            if row and row[-1].picks == picks:
                row[-1] = replace(row[-1], high=end)
            else:
                mean = float(q[[place[name] for name in picks]].mean())
                row.append(Region(k, one.lam, end, picks, mean))
        found.extend(row)
    return tuple(found)


def region_at(regions: tuple[Region, ...], lam: float, k: int) -> Region | None:
    """The region that holds λ and K; at a switch point the one to its right, as far as the map goes."""
    here = [one for one in regions if one.k == k and one.low <= lam <= one.high]
    return here[-1] if here else None

"""Recipes worth trying, by name: each a few knobs changed from the recipe at hand.

Takes a bank where a preset's K depends on its size; knows nothing about screens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.bank.model import Bank
from core.recipe.model import Recipe


@dataclass(frozen=True)
class Preset:
    """A named change of knobs. `apply` gives the recipe; `changes` leaves K out where it means everyone."""

    name: str
    title: str
    description: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    everyone: bool = False
    """True where K is the whole pool less its bans."""

    def apply(self, bank: Bank, recipe: Recipe | None = None) -> Recipe:
        """This preset's knobs on a recipe (default: the defaults); split, bans and TIES knobs are kept.

        Pins are dropped, because a preset says what is picked; K is lowered to what the pool can give.
        """
        start = recipe or Recipe()
        ban = tuple(one for one in start.ban if any(one == known.id for known in bank.checkpoints))
        pool = len(bank.checkpoints) - len(ban)
        changed = replace(start, pin=(), ban=ban, **self.changes)
        return replace(changed, k=pool if self.everyone else max(1, min(changed.k, pool)))


_S3 = Recipe()
_CHOICE = {"lam": _S3.lam, "k": _S3.k, "tau": _S3.tau, "weighting": _S3.weighting, "similarity": _S3.similarity}

PRESETS: tuple[Preset, ...] = (
    Preset("s3", "S3", "The published recipe: λ 0.7, K 5, τ 0.02, cosine.", _CHOICE),
    Preset("greedy", "Greedy", "λ 1: the five strongest, however alike they are.", {**_CHOICE, "lam": 1.0}),
    Preset("diverse", "Diverse", "λ 0.3: being unlike the picks counts most.", {**_CHOICE, "lam": 0.3}),
    Preset(
        "winner",
        "Winner takes all",
        "τ 0.001: nearly all the weight goes to the strongest pick, or is shared where picks tie.",
        {**_CHOICE, "tau": 0.001},
    ),
    Preset(
        "soup",
        "Uniform soup",
        "Every checkpoint at the same weight. TIES still elects signs: the plain mean is a different merge.",
        {**_CHOICE, "weighting": "uniform"},
        everyone=True,
    ),
    Preset(
        "two_strongest",
        "Two strongest",
        "The published ablation: the two highest scores at equal weight.",
        {**_CHOICE, "lam": 1.0, "k": 2, "weighting": "uniform"},
    ),
    Preset(
        "best_single",
        "Best single",
        "K 1: the checkpoint with the highest score, with nothing merged into it.",
        {**_CHOICE, "lam": 1.0, "k": 1},
    ),
)


def preset(name: str) -> Preset:
    """The preset of that name; raises KeyError."""
    for one in PRESETS:
        if one.name == name:
            return one
    raise KeyError(name)

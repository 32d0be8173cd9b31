"""What the What-if page computes: one sample of a bank's weights, and everything that a recipe does to it.

Takes the live bank and recipe; gives plain results of `core`, kept so that nothing is read or computed twice.
`core.preview` is imported when first needed. Draws nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from core.bank import split_noise
from core.bank.model import Bank, Checkpoint
from core.errors import RecipeError
from core.recipe import Selection, compile_plan
from core.recipe.map import Region, recipe_map
from core.recipe.model import Recipe, Weighting
from core.recipe.nudges import Nudge, nudges
from core.recipe.presets import preset
from core.recipe.stability import Stability, over_runs, over_tasks
from pages.shared.banks import FileStamp, file_stamp, mark_of
from pages.shared.recipes import selection_of

if TYPE_CHECKING:
    from core.merge.plan import Plan
    from core.preview.compare import Comparison
    from core.preview.knobs_matter import Reach
    from core.preview.result import Preview
    from core.preview.sample import Sample

MOST_MODELS = 40
"""Pools up to this size are sampled whole; of larger ones only the picks, so that another pick is another read."""
MOST_MEMBERS = 24
"""Members that are left out one by one: the heaviest."""
MOST_K = 12
"""Rows of the recipe map, unless K is larger."""

Key = tuple[tuple[str, tuple[FileStamp, ...]], ...]


class Ablation(NamedTuple):
    """Another recipe against the live one."""

    kind: str
    title: str
    kept: tuple[str, ...]
    found: "Comparison"


@dataclass(eq=False)
class Study:
    """What a recipe would do to the weights, each part computed when it is first drawn. Members are in pick order."""

    bank: Bank
    recipe: Recipe
    plan: "Plan"
    sample: "Sample"
    preview: "Preview"

    @cached_property
    def reach(self) -> "Reach":
        """What the knobs can affect."""
        from core.preview.knobs_matter import reach

        picks = selection_of(self.bank, self.recipe).picks
        return reach(self.sample, self.plan, alike=[one.relevance for one in picks])

    @cached_property
    def left_out(self) -> tuple[tuple[int, "Comparison"], ...]:
        """Place of each member that was left out, the heaviest of many, and what leaves with it."""
        from core.preview.leave_out import without

        members = self.plan.members
        heavy = sorted(range(len(members)), key=lambda at: -members[at].weight)[:MOST_MEMBERS]
        leavers = sorted(heavy) if len(members) > 1 else []
        return tuple(zip(leavers, self._against([without(self.plan, at) for at in leavers]), strict=True))

    @cached_property
    def ablations(self) -> tuple[Ablation, ...]:
        """The published ablation and its relatives."""
        others = [one for one in ablation_recipes(self.bank, self.recipe) if self._is_sampled(one[2])]
        found = self._against([plan_of(self.bank, one) for _, _, one in others])
        return tuple(
            Ablation(kind, title, tuple(selection_of(self.bank, one).weights), result)
            for (kind, title, one), result in zip(others, found, strict=True)
        )

    @cached_property
    def steps(self) -> tuple[tuple[Nudge, "Comparison"], ...]:
        """One step of each knob."""
        steps = [one for one in nudges(self.bank, self.recipe) if self._is_sampled(one.recipe)]
        return tuple(zip(steps, self._against([plan_of(self.bank, one.recipe) for one in steps]), strict=True))

    def _against(self, plans: Sequence["Plan"]) -> list["Comparison"]:
        from core.preview.compare import compare

        return compare(self.sample, self.plan, plans)

    def _is_sampled(self, recipe: Recipe) -> bool:
        picks = selection_of(self.bank, recipe).picks
        return all(
            self.bank.checkpoints[self.bank.index_of(one.checkpoint)].path in self.sample.members for one in picks
        )


def models_of(bank: Bank, chosen: Selection) -> list[Checkpoint]:
    """The base and the checkpoints whose weights are sampled."""
    picked = {one.checkpoint for one in chosen.picks}
    few = len(bank.checkpoints) <= MOST_MODELS
    return [bank.base, *(one for one in bank.checkpoints if few or one.id in picked)]


def key_of(models: Sequence[Checkpoint]) -> Key:
    """Paths with sizes and times of all their weight files. Raises OSError for a folder that is not there."""
    found = []
    for one in models:
        if one.path is None:
            continue
        files = sorted(path for path in one.path.iterdir() if path.suffix == ".safetensors")
        found.append((str(one.path), tuple(file_stamp(path) for path in files)))
    return tuple(found)


def plan_of(bank: Bank, recipe: Recipe) -> "Plan":
    """The merge of a recipe. Raises RecipeError or PlanError."""
    from core.merge import parse_plan

    return parse_plan(compile_plan(bank, recipe, selection_of(bank, recipe)), bank.root / "config.yml")


def sample_of(bank: Bank, recipe: Recipe, chosen: Selection) -> tuple["Sample", Key]:
    """The bank's sample, read once for as long as no weight file changes, and the key that it is kept under.

    Raises MergescopeError for weights that cannot be merged, OSError where a folder is gone.
    """
    models = models_of(bank, chosen)
    key = key_of(models)
    also = [one.path for one in models[1:] if one.path is not None]
    return _sample(key, plan_of(bank, recipe), also), key


@st.cache_resource(max_entries=2, show_spinner=False)
def _sample(key: Key, _plan: "Plan", _also: list[Path]) -> "Sample":
    from core.preview.sample import read_sample

    return read_sample(_plan, also=_also)


def study_of(bank: Bank, recipe: Recipe, sample: "Sample", key: Key) -> Study:
    """What the page says about the weights; raises as `sample_of`, and CheckpointError for NaN in them."""
    return _study(key, mark_of(bank), repr(recipe), bank, recipe, sample)


@st.cache_resource(max_entries=6, show_spinner=False)
def _study(key: Key, mark: int, named: str, _bank: Bank, _recipe: Recipe, _sample: "Sample") -> Study:
    from core.preview.estimate import estimate_plan

    plan = plan_of(_bank, _recipe)
    return Study(_bank, _recipe, plan, _sample, estimate_plan(_sample, plan))


def ablation_recipes(bank: Bank, recipe: Recipe) -> list[tuple[str, str, Recipe]]:
    """The published ablation and its relatives, without those that are the live recipe itself."""
    other: Weighting = "softmax" if recipe.weighting == "uniform" else "uniform"
    found = [
        ("two_strongest", "Two strongest, equal weight", preset("two_strongest").apply(bank, recipe)),
        (other, "Same picks, equal weight" if other == "uniform" else "Same picks, weights by score",
         replace(recipe, weighting=other)),
        ("best_single", "Best single checkpoint", preset("best_single").apply(bank, recipe)),
        ("soup", "Every checkpoint, equal weight", preset("soup").apply(bank, recipe)),
    ]  # fmt: skip
    here = selection_of(bank, recipe).weights
    return [one for one in found if _fits(bank, one[2]) and dict(selection_of(bank, one[2]).weights) != dict(here)]


def _fits(bank: Bank, recipe: Recipe) -> bool:
    try:
        selection_of(bank, recipe)
    except RecipeError:
        return False
    return True


def places_of(found: "Preview") -> list[tuple[int, str]]:
    """Layer and module of every tensor."""
    from core.merge.report import place_of

    return [place_of(one) for one in found.names]


def map_of(bank: Bank, recipe: Recipe) -> tuple[Region, ...]:
    """The recipe map, computed once for all settings that do not move it."""
    most = min(len(bank.checkpoints) - len(recipe.ban), max(MOST_K, recipe.k))
    still = Recipe(similarity=recipe.similarity, split=recipe.split, pin=recipe.pin, ban=recipe.ban, k=most)
    return _map(bank, mark_of(bank), repr(still), still)


@st.cache_resource(max_entries=32, show_spinner=False)
def _map(_bank: Bank, mark: int, named: str, _recipe: Recipe) -> tuple[Region, ...]:
    return recipe_map(_bank, _recipe, _recipe.k)


def stability_of(bank: Bank, recipe: Recipe) -> tuple[Stability, Stability | None]:
    """How stable the picks are over tasks, and over runs where the bank knows its noise."""
    still = replace(recipe, tau=1.0, weighting="softmax", density=1.0, scale=1.0, normalize=True, out_dtype="float32")
    return _stability(bank, mark_of(bank), repr(still), still)


@st.cache_resource(max_entries=64, show_spinner=False)
def _stability(_bank: Bank, mark: int, named: str, _recipe: Recipe) -> tuple[Stability, Stability | None]:
    split = _bank.splits[_recipe.split]
    noise = split_noise(split)
    rate = noise.flip_rate if noise is not None else 0.0
    by_runs = over_runs(_bank, _recipe, rate) if noise is not None or split.samples > 1 else None
    return over_tasks(_bank, _recipe), by_runs

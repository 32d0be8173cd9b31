"""The ladder of null baselines and ablations: what a recipe's merge has to beat before its gain means anything.

Takes a bank and a recipe; gives rungs as data, the same for the same seeds. Runs nothing: a rung is a model
that exists, a mergekit config, or what no config can say and `core.merge` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any, Literal

import numpy as np

from core.bank.model import Bank, Checkpoint
from core.recipe.compile import compile_plan, line_plan, uniform_mean_plan
from core.recipe.model import Recipe
from core.recipe.select import Selection, relevances, select

Kind = Literal["model", "merge", "random_delta", "greedy_soup"]
Group = Literal["recipe", "null", "ablation"]
SEEDS = (0, 1, 2, 3, 4)
"""Of the random choices of K."""
DELTA_SEEDS = (0,)
"""Of the random deltas: each is a whole model to write and evaluate."""


@dataclass(frozen=True)
class Rung:
    """One model to evaluate beside the recipe's merge."""

    name: str
    """Unique in its ladder, and a plain file name."""
    title: str
    why: str
    """One sentence: what it would mean if the merge were no better than this."""
    group: Group
    kind: Kind
    members: tuple[str, ...] = ()
    """Ids of the checkpoints in it. Of a greedy soup: the order in which they are tried."""
    model: str | None = None
    """Of kind `model`: the id of the checkpoint, or of the base."""
    config: str | None = None
    """Of kind `merge`: mergekit YAML. Of a greedy soup: its first trial, the two strongest."""
    formula: str = ""
    seed: int | None = None
    same_as: str | None = None
    """An earlier rung that is the same model, so that this one need not be run."""

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "members": list(self.members)}


@dataclass(frozen=True)
class Trial:
    """One step of a greedy soup."""

    members: tuple[str, ...]
    score: float
    kept: bool


def ladder(
    bank: Bank, recipe: Recipe, *, seeds: Sequence[int] = SEEDS, delta_seeds: Sequence[int] = DELTA_SEEDS
) -> list[Rung]:
    """Every rung for a recipe: the recipe's own merge first, then the null baselines, then the ablations.

    What is strongest is decided on the recipe's split. A rung that cannot differ from the recipe is left out
    (leave one out of one), one that happens not to says so in `same_as`. Raises RecipeError when the recipe does
    not fit the bank.
    """
    chosen = select(bank, recipe)
    own = _merge(bank, recipe, ("recipe", "The recipe", "The merge that is to be judged."), "recipe")
    nulls = [
        *_singles(bank, recipe),
        _uniform_mean(bank, recipe),
        *_random_choices(bank, recipe, chosen, seeds),
        *_random_deltas(bank, delta_seeds),
        _further_along(bank, recipe),
        *_soup(bank, recipe),
    ]
    return _marked([own, *nulls, *_ablations(bank, recipe, chosen)])


def greedy_soup(order: Sequence[str], score: Callable[[tuple[str, ...]], float]) -> list[Trial]:
    """Add models one by one to a plain mean, and keep each that does not lower its score.

    `order` is the strongest first; `score` gives a mean's score on the tasks that may choose (Wortsman et al.
    2022, "Model soups", algorithm 1). It is called once a model. The soup is `members` of the last trial that was
    kept; its score there is the best of many, so judge it on other tasks.
    """
    trials: list[Trial] = []
    kept: tuple[str, ...] = ()
    best = -np.inf
    for one in order:
        found = score((*kept, one))
        trials.append(Trial((*kept, one), found, found >= best))
        if found >= best:
            kept, best = (*kept, one), found
    return trials


def strongest_first(bank: Bank, recipe: Recipe) -> list[str]:
    """The pool's ids less the bans, by their mean on the recipe's split; equals in bank order."""
    q = relevances(bank.splits[recipe.split])
    order = np.argsort(-q, kind="stable").tolist()
    return [bank.checkpoints[at].id for at in order if bank.checkpoints[at].id not in recipe.ban]


def last_checkpoint(bank: Bank) -> Checkpoint:
    """The checkpoint of the highest step; the last in bank order where steps are equal or not known."""
    return max(enumerate(bank.checkpoints), key=lambda one: (one[1].step or 0, one[0]))[1]


def step_factor(bank: Bank) -> float:
    """How far one more of the run's own steps is from the base, in distances from the base to the last checkpoint.

    (t + Δ)/t, with t the last step, counted from the base's (0 unless the bank says otherwise), and Δ its distance
    to the step before; where steps are not known, as if the checkpoints were evenly spaced from the base on:
    (C + 1)/C.
    """
    start = bank.base.step or 0
    steps = sorted({one.step - start for one in bank.checkpoints if one.step is not None})
    if len(steps) < 2 or steps[-1] <= 0:
        return 1 + 1 / len(bank.checkpoints)
    return (2 * steps[-1] - steps[-2]) / steps[-1]


def _merge(bank: Bank, recipe: Recipe, about: tuple[str, str, str], group: Group, *, seed: int | None = None) -> Rung:
    """The rung of a recipe's own merge; `about` is its name, title and why."""
    chosen = select(bank, recipe)
    members = tuple(one.checkpoint for one in chosen.picks)
    return Rung(*about, group, "merge", members, config=compile_plan(bank, recipe, chosen), seed=seed)


def _singles(bank: Bank, recipe: Recipe) -> list[Rung]:
    # Bans say what not to merge; the strongest checkpoint is what one would use instead, banned or not.
    best, last = strongest_first(bank, replace(recipe, ban=()))[0], last_checkpoint(bank).id
    told = [
        ("best_single", "Best single", best, "The checkpoint one would use instead. It is the best of "
         f"{len(bank.checkpoints)} on {recipe.split}, so its score there is too high by chance."),
        ("last", "Last checkpoint", last, "The end of the run, chosen by no score: what training alone gives."),
        ("base", "Base", bank.base.id, "What the run started from: how much of the score was there before."),
    ]  # fmt: skip
    return [Rung(name, title, why, "null", "model", (one,), model=one) for name, title, one, why in told]


def _uniform_mean(bank: Bank, recipe: Recipe) -> Rung:
    return Rung(
        "uniform_mean", "Uniform mean",
        "The plain mean of every checkpoint, with nothing chosen, weighted or elected: what averaging alone gives.",
        "null", "merge", tuple(one.id for one in bank.checkpoints),
        config=uniform_mean_plan(bank, recipe.out_dtype), formula="Σ θᵢ / C",
    )  # fmt: skip


def _random_choices(bank: Bank, recipe: Recipe, chosen: Selection, seeds: Sequence[int]) -> list[Rung]:
    """K checkpoints drawn without looking at scores, other than the recipe's own K."""
    pool = [one.id for one in bank.checkpoints if one.id not in recipe.ban]
    own = {one.checkpoint for one in chosen.picks}
    if comb(len(pool), recipe.k) < 2:
        return []
    rungs = []
    for seed in seeds:
        rng = np.random.Generator(np.random.Philox(seed))
        drawn = own
        while drawn == own:
            drawn = {pool[at] for at in rng.choice(len(pool), recipe.k, replace=False)}
        why = f"{recipe.k} of the pool drawn by chance, weighted and merged as the recipe does: whether it matters "
        about = (f"random_{seed}", f"Random {recipe.k}", f"{why}which are chosen.")
        exactly = _exactly(recipe, [one for one in pool if one in drawn])
        rungs.append(_merge(bank, exactly, about, "null", seed=seed))
    return rungs


def _random_deltas(bank: Bank, seeds: Sequence[int]) -> list[Rung]:
    return [
        Rung(
            f"random_delta_{seed}", "Random delta of the same norm",
            "The base moved as far as the merge moves it, tensor by tensor, in a direction drawn by chance: whether "
            "the direction of the merge matters, or any small push would do.",
            "null", "random_delta", (bank.base.id,), seed=seed,
            formula="base + ‖merge − base‖ · z / ‖z‖ for each tensor, z standard normal",
        )
        for seed in seeds
    ]  # fmt: skip


def _further_along(bank: Bank, recipe: Recipe) -> Rung:
    last, factor = last_checkpoint(bank), step_factor(bank)
    return Rung(
        "further_along", "One step along the run's line",
        "The straight line from the base through the last checkpoint, one step of the run further: training moves "
        "nearly along a line, so this is what a little more of it would give.",
        "null", "merge", (last.id,), config=line_plan(bank, last.id, factor, recipe.out_dtype),
        formula=f"base + {factor:.4g} · ({last.id} − base) = {factor:.4g} · {last.id} − {factor - 1:.4g} · base",
    )  # fmt: skip


def _soup(bank: Bank, recipe: Recipe) -> list[Rung]:
    order = strongest_first(bank, recipe)
    if len(order) < 2:
        return []
    return [
        Rung(
            "greedy_soup", "Greedy soup",
            "The plain mean of the strongest, to which each next one is added if the score does not fall: the usual "
            f"way to choose what to average. Every step looks at {recipe.split}, so judge it on other tasks.",
            "null", "greedy_soup", tuple(order), config=uniform_mean_plan(bank, recipe.out_dtype, order[:2]),
        )
    ]  # fmt: skip


def _ablations(bank: Bank, recipe: Recipe, chosen: Selection) -> list[Rung]:
    """The recipe with one thing taken away."""
    picks = [one.checkpoint for one in chosen.picks]
    pool = len(bank.checkpoints) - len(recipe.ban)
    told: list[tuple[tuple[str, str, str], Recipe]] = []
    for number, left_out in enumerate(picks if len(picks) > 1 else (), start=1):
        rest = _exactly(recipe, [one for one in picks if one != left_out])
        told.append(((f"without_{number}", f"Without {left_out}", f"Whether {left_out} is needed."), rest))
    if pool > 1:
        two = replace(recipe, lam=1.0, k=2, weighting="uniform", pin=())
        told.append((("two_strongest", "Two strongest", "Whether the other picks are needed at all."), two))
    even = replace(_exactly(recipe, picks), weighting="uniform")
    told.append((("no_steep_weights", "No steep weights", "The same picks at equal weight: whether τ matters."), even))
    top = replace(recipe, lam=1.0, pin=())
    told.append((("no_mmr", "No MMR", f"The {recipe.k} strongest, however alike: whether diversity matters."), top))
    other: Literal["bfloat16", "float32"] = "bfloat16" if recipe.out_dtype == "float32" else "float32"
    short = "bf16" if other == "bfloat16" else "fp32"
    cast = replace(recipe, out_dtype=other)
    told.append(((short, f"Stored in {short}", f"The same merge in {other}: whether rounding the file matters."), cast))
    return [_merge(bank, changed, about, "ablation") for about, changed in told]


def _exactly(recipe: Recipe, picks: Sequence[str]) -> Recipe:
    """The recipe with these picks and no others, weighted as it weights."""
    return replace(recipe, pin=tuple(picks), k=len(picks), ban=())


def _marked(rungs: list[Rung]) -> list[Rung]:
    """The rungs, each that repeats an earlier one marked."""
    seen: dict[Any, str] = {}
    found = []
    for one in rungs:
        first = seen.setdefault(_content(one), one.name)
        found.append(one if first == one.name else replace(one, same_as=first))
    return found


def _content(one: Rung) -> Any:
    """What makes two rungs the same model: the id, or the config without its comments."""
    if one.kind == "model":
        return ("model", one.model)
    if one.kind == "merge" and one.config is not None:
        return tuple(line for line in one.config.splitlines() if not line.startswith("#"))
    return one.name

"""Sentences about the recipe map, the stability of picks and what they cover.

Takes what `core.recipe` computes; gives plain text.
"""

from collections.abc import Sequence

from core.charts.words import counted, listed
from core.recipe.coverage import Coverage
from core.recipe.map import Region, region_at
from core.recipe.stability import Stability
from core.words import percent


def map_sentence(regions: Sequence[Region], lam: float, k: int) -> str:
    """How many sets there are, and how far the present one reaches."""
    sets = len({one.picks for one in regions if one.k == k})
    here = region_at(tuple(regions), lam, k)
    if here is None:
        return f"The map has {len({one.picks for one in regions})} different sets of picks."
    if sets == 1:
        return f"At K {k} the same checkpoints are picked whatever λ is: {listed(here.picks)}."
    return (
        f"At K {k} there are {counted(sets, 'different set')} of picks over all λ. The present one, "
        f"{listed(here.picks)}, holds from λ {here.low:.4f} to {here.high:.4f}; its mean score is {here.mean_q:.4f}."
    )


def stability_sentence(
    names: Sequence[str], picked: Sequence[str], by_tasks: Stability, by_runs: Stability | None, drawn: str
) -> str:
    """How often the same set is picked, and the least certain pick."""
    places = [names.index(one) for one in picked]
    weakest = min(places, key=lambda at: by_tasks.frequency[at])
    said = (
        f"If the {by_tasks.groups} {drawn} were drawn again from tasks like these ({by_tasks.resamples} draws), the "
        f"same {counted(len(picked), 'checkpoint')} would be picked in {percent(by_tasks.same, 0)} of the draws; the "
        f"least certain pick, {names[weakest]}, in {percent(float(by_tasks.frequency[weakest]), 0)}."
    )
    if by_runs is None:
        return said
    weakest = min(places, key=lambda at: by_runs.frequency[at])
    return said + (
        f" If every checkpoint were run once more on the same tasks, with the measured run-to-run noise, the same "
        f"set would come out in {percent(by_runs.same, 0)}, and {names[weakest]} in "
        f"{percent(float(by_runs.frequency[weakest]), 0)}."
    )


def coverage_sentence(names: Sequence[str], found: Coverage) -> str:
    """What any and all picks solve, and who adds nothing."""
    said = (
        f"Of {found.tasks} tasks, all {counted(len(names), 'pick')} solve {found.by_all} and at least one solves "
        f"{found.by_any}; the whole pool could reach {found.by_pool}."
        if len(names) > 1
        else f"Of {found.tasks} tasks the pick solves {found.by_any}; the whole pool could reach {found.by_pool}."
    )
    nothing = [name for name, one in zip(names, found.picks, strict=True) if not one.adds]
    if nothing:
        said += (
            f" {listed(nothing)} {'adds' if len(nothing) == 1 else 'add'} no task that an earlier pick does not solve."
        )
    return said

"""Which knobs matter here: the share of parameters that weights, τ, density or the division can affect at all.

Takes a `Sample` and a plan; gives a `Reach` with 95 % intervals. Reads nothing.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError
from core.merge.plan import Plan
from core.preview.compare import load
from core.preview.intervals import Bounds, Column, Strata, shares
from core.preview.result import Figure, Preview
from core.preview.sample import Sample, in_threads
from core.preview.trimming import adjusted

if TYPE_CHECKING:
    from core.preview.tally import Limits, Raw


@dataclass(frozen=True, eq=False)
class Reach:
    """What each knob can affect, as shares of all elements."""

    figures: dict[str, Figure]
    """`changed`: a member still changes it after the trim. `weights`, `tau`: its merged value depends on them.
    `normalize`: on the division by the agreeing weights. `trimmed`: the density drops a change of some member."""
    trims_below: Figure
    """The largest share of one tensor that one member changes: densities from there on trim nothing."""


def reach(sample: Sample, plan: Plan, *, alike: Sequence[Hashable]) -> Reach:
    """Count over the sampled elements what the knobs of a `ties` plan reach.

    `alike` has one value a member; members with the same value have the same weight at every τ (the same score).
    Raises InputError for another method or number of values, else as `core.preview.compare.compare`.
    """
    from core.preview.values import REACH, REACH_COUNT, count_reach

    if plan.method != "ties":
        raise InputError(f"knobs are looked at for ties, found {plan.method}.")
    if len(alike) != len(plan.members):
        raise InputError(f"expected a value for each of {len(plan.members)} members, found {len(alike)}.")
    kinds = list(dict.fromkeys(alike))
    groups = np.array([kinds.index(one) for one in alike], np.int64)
    loaded = load(sample, plan)

    def sums(raw: "Raw", limits: "Limits", _: slice) -> np.ndarray:
        counts = np.empty((limits.at.size, REACH_COUNT + groups.size))

        def work(part: np.ndarray) -> None:
            count_reach(raw, limits, int(part[0]), int(part[-1]) + 1, plan.normalize, groups, counts)

        in_threads(work, len(counts))
        return counts

    counts = sums(loaded.raw, loaded.trimmed.limits, slice(None))
    corrected = adjusted(counts, counts[:, REACH_COUNT:], loaded.trimmed, sample, sums)

    def column(at: slice) -> Column:
        values = counts[:, at]
        return Column(values, values if corrected is counts else corrected[:, at])

    found = shares(Strata(sample.design), column(slice(1, REACH_COUNT)), column(slice(0, 1))).total
    exact = bool(sample.design.exact.all())
    figures = {name: _figure(found, at, exact) for at, name in enumerate(REACH[1:])}
    if all(one.density >= 1 for one in plan.members):
        figures["trimmed"] = Figure(0.0, 0.0, 0.0, "exact")
    return Reach(figures, trims_below(sample, plan))


def trims_below(sample: Sample, plan: Plan) -> Figure:
    """The largest share of a tensor's elements that one member changes, over tensors and members."""
    from core.preview.estimate import estimate_plan

    found: Preview = estimate_plan(sample, plan)
    changed = found.of_members["changed"].tensors
    at = np.unravel_index(int(np.argmax(changed.estimate)), changed.estimate.shape)
    exact = bool(sample.design.exact.all())
    high = float(changed.high.max())
    return Figure(float(changed.estimate[at]), float(changed.low[at]), high, "exact" if exact else "sampled")


def _figure(bounds: Bounds, at: int, exact: bool) -> Figure:
    estimate, low, high = (float(one[at]) for one in bounds)
    return Figure(estimate, low, high, "exact" if exact else "sampled")

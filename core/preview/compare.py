"""How two merges of one sample differ: in norm, in direction, in bf16-visible bits; a tensor each and in total.

Takes a `Sample` and two plans; gives a `Comparison` with 95 % intervals, which count the error of estimated trim
thresholds too (that of the cosine does not). Reads nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from core.errors import InputError, PlanError
from core.merge.plan import Member, Plan
from core.preview.intervals import Both, Bounds, Column, Strata, cosines, norms, shares, t_of
from core.preview.result import Figure
from core.preview.sample import Sample, in_threads, picked
from core.preview.trimming import Trimming, adjusted, limits_near, some_limits, trimming

if TYPE_CHECKING:
    from core.merge.kernels import Rule
    from core.preview.tally import Limits, Raw

FIGURES = ("visible", "turned", "gone", "distance", "relative", "cosine")
"""Shares of all elements whose bf16 value is another, whose change points the other way, that only the first merge
changes; ‖one − other‖; that over ‖one − base‖; the cosine of both changes."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The second merge against the first. Arrays of FIGURES, (tensors,) and ()."""

    names: tuple[str, ...]
    figures: dict[str, Both]
    exact: np.ndarray
    """bool (tensors,): read whole."""

    @property
    def total(self) -> dict[str, Figure]:
        """All tensors together, by FIGURES."""
        return {name: _figure(both.total, (), bool(self.exact.all())) for name, both in self.figures.items()}

    def tensor(self, at: int) -> dict[str, Figure]:
        """One tensor, by FIGURES."""
        return {name: _figure(both.tensors, at, bool(self.exact[at])) for name, both in self.figures.items()}


class Loaded(NamedTuple):
    """The blocks of some members, and what a plan trims of them."""

    raw: "Raw"
    trimmed: Trimming
    plan: Plan
    """Its members are those of `raw`; those that the plan does not name have weight 0."""


def compare(sample: Sample, one: Plan, others: Sequence[Plan]) -> list[Comparison]:
    """Compare each of `others` with `one`; all must be streaming plans of the same method whose models the sample has.

    Raises InputError for a model that the sample lacks, PlanError for dialects that trim over whole models.
    """
    return [_compare_two(sample, one, other) for other in others]


def _compare_two(sample: Sample, one: Plan, other: Plan) -> Comparison:
    _places(sample, other)
    trims = any(member.density < 1 for member in (*one.members, *other.members))
    if trims and one.method == other.method == "ties" and not sample.design.exact.all():
        return _compare_trimmed(sample, _over(one, other), _over(other, one, like=one))
    first: np.ndarray = sample.remember("merged", one, lambda: merged_values(sample, one))
    sums = _differences(sample.raw, first, merged_values(sample, _padded(one, other)))
    return _comparison(sample, sums, sums)


def _over(plan: Plan, more: Plan, like: Plan | None = None) -> Plan:
    """The plan over the members of both, in the order of `like` (or itself) first; those it lacks weigh nothing."""
    own = {member.path: member for member in plan.members}
    order = dict.fromkeys(member.path for each in ((like or plan), plan, more) for member in each.members)
    return replace(plan, members=tuple(own.get(path) or Member(path, 0.0, 1.0) for path in order))


def _compare_trimmed(sample: Sample, one: Plan, other: Plan) -> Comparison:
    """Two merges of the same members where thresholds are estimated: the error of each goes into the intervals."""
    from core.merge.dialect import rule_of

    sides = [load(sample, plan) for plan in (one, other)]
    rules = [rule_of(side.plan, figures=False) for side in sides]
    raw, block = sides[0].raw, sample.design.block
    merged = [_merge(raw, side.trimmed.limits, rule, block) for side, rule in zip(sides, rules, strict=True)]
    sums = _differences(raw, merged[0][0], merged[1][0])
    corrected = sums
    for at, side in enumerate(sides):
        near = side.trimmed.near
        if near is None:
            continue
        still = limits_near(sides[1 - at].trimmed.limits, sample.design, near.tensor, near.positions)
        width = near.positions.shape[1]

        def moved(
            part: "Raw", limits: "Limits", groups: slice, *, at: int = at, still: "Limits" = still, width: int = width
        ) -> np.ndarray:
            mine = _merge(part, limits, rules[at], width)[0]
            fixed = _merge(part, some_limits(still, groups), rules[1 - at], width)[0]
            return _differences(part, *((mine, fixed) if at == 0 else (fixed, mine)))

        corrected = corrected + (adjusted(sums, merged[at][1], side.trimmed, sample, moved) - sums)
    return _comparison(sample, sums, corrected)


def _padded(one: Plan, other: Plan) -> Plan:
    """The same merge over all members of `one`, those that it lacks at weight 0: no new blocks and thresholds.

    A member of weight 0 votes for nothing, so the values are the same to the bit. Plans whose members are not some of
    those of `one`, in its order and at its densities, are given back as they are.
    """
    own = {member.path: member for member in other.members}
    padded = tuple(own.get(member.path) or replace(member, weight=0.0) for member in one.members)
    kept = tuple(member for member in padded if member.path in own)
    densities = all(here.density == there.density for here, there in zip(padded, one.members, strict=True))
    fits = one.method == other.method == "ties" and kept == other.members and densities
    return replace(other, members=padded) if fits else other


def _places(sample: Sample, plan: Plan) -> tuple[int, ...]:
    """Where the plan's members are in the sample. Raises as `compare`."""
    if plan.method == "ties" and plan.dialect != "mergekit":
        raise PlanError(f"dialect {plan.dialect} trims over whole models, which a preview does not. Expected mergekit.")
    missing = [member.path for member in plan.members if member.path not in sample.members]
    if missing:
        raise InputError(f"{missing[0]}: is not among the models of this sample. Read a new one.")
    return tuple(sample.members.index(member.path) for member in plan.members)


def load(sample: Sample, plan: Plan) -> Loaded:
    """The blocks of a plan's members and its trim limits. Raises as `compare`."""
    places = _places(sample, plan)
    ties = plan.method == "ties"
    members = tuple(Member(one.path, one.weight, one.density if ties else 1.0) for one in plan.members)
    raw = picked(sample, places)
    trimmed = trimming(sample, raw, places, tuple(one.density for one in members))
    return Loaded(raw, trimmed, replace(plan, members=members))


def merged_values(sample: Sample, plan: Plan) -> np.ndarray:
    """The merge of every sampled element: uint32 (n, block) of fp32 bit patterns."""
    from core.merge.dialect import rule_of

    loaded = load(sample, plan)
    return _merge(loaded.raw, loaded.trimmed.limits, rule_of(loaded.plan, figures=False), sample.design.block)[0]


def _merge(raw: "Raw", limits: "Limits", rule: "Rule", width: int) -> tuple[np.ndarray, np.ndarray]:
    """Merged blocks of `width` elements, uint32 (n, width), and the changes that are left, float64 (n, members)."""
    from core.merge.kernels import Figures
    from core.preview.values import merge_into

    n = limits.at.size
    out, kept = np.zeros((n, width), np.uint32), np.empty((n, rule.weights.size))

    def work(part: np.ndarray) -> None:
        scratch = Figures.zeros(rule.weights.size, width)
        merge_into(raw, limits, int(part[0]), int(part[-1]) + 1, rule, scratch, out, kept)

    in_threads(work, n)
    return out, kept


def _differences(raw: "Raw", one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sums over each block, float64 (n, DIFFERENCE)."""
    from core.preview.values import DIFFERENCE_COUNT, difference

    sums = np.empty((len(one), DIFFERENCE_COUNT))
    in_threads(lambda part: difference(raw, one, other, int(part[0]), int(part[-1]) + 1, sums), len(one))
    return sums


def _comparison(sample: Sample, sums: np.ndarray, corrected: np.ndarray) -> Comparison:
    from core.preview.values import DIFFERENCE

    strata = Strata(sample.design)

    def column(*names: str) -> Column:
        at = [DIFFERENCE.index(name) for name in names]
        values = sums[:, at]
        return Column(values, values if corrected is sums else corrected[:, at])

    of_elements = shares(strata, column("visible", "turned", "gone"), column("elements"))
    counted = {name: _one(of_elements, at) for at, name in enumerate(("visible", "turned", "gone"))}
    squares = column("distance")
    everywhere = Both(*(Bounds(*(np.ones_like(part) for part in _one(of_elements, slice(0, 1))[at])) for at in (0, 1)))
    products = np.empty((len(sums), 2, 2))
    products[:, 0, 0], products[:, 1, 1] = column("one", "other").values.T
    products[:, 0, 1] = products[:, 1, 0] = column("cross").values[:, 0]
    return Comparison(
        sample.names,
        counted
        | {
            "distance": _one(norms(strata, squares, (squares.values > 0).astype(np.float64), everywhere), 0),
            "relative": _one(_relative(strata, squares, column("one")), 0),
            "cosine": _one(cosines(strata, products), 0),
        },
        sample.design.exact,
    )


def _relative(strata: Strata, top: Column, bottom: Column) -> Both:
    """√(Σ top / Σ bottom), (n, 1) each: Student's t on the logarithm of the ratio; NaN where the bottom is zero."""
    sums, below = strata.sum(top.values), strata.sum(bottom.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sums / below
        spread = strata.spread(top.adjusted - np.nan_to_num(ratio)[strata.tensor] * bottom.adjusted)
        tensors = _root(ratio, spread.variance / below**2, t_of(spread.freedom), strata.unread)
        weight = strata.expand
        whole = (below * weight).sum(axis=0)
        ratio = (sums * weight).sum(axis=0) / whole
        spread = strata.combine(strata.spread(top.adjusted - np.nan_to_num(ratio) * bottom.adjusted))
        total = _root(ratio, spread.variance / whole**2, t_of(spread.freedom), strata.unread.max(axis=0))
    return Both(tensors, total)


def _root(ratio: np.ndarray, variance: np.ndarray, t: np.ndarray, unread: np.ndarray) -> Bounds:
    factor = np.where((unread > 0) & (ratio > 0), np.exp(t * np.sqrt(variance) / np.where(ratio > 0, ratio, 1) / 2), 1)
    root = np.sqrt(ratio)
    return Bounds(root, root / factor, root * factor)


def _one(both: Both, at: int | slice) -> Both:
    tensors, total = both
    return Both(Bounds(*(one[:, at] for one in tensors)), Bounds(*(one[at] for one in total)))


def _figure(bounds: Bounds, at: int | tuple[int, ...], exact: bool) -> Figure:
    estimate, low, high = (float(one[at]) for one in bounds)
    return Figure(estimate, low, high, "exact" if exact else "sampled")

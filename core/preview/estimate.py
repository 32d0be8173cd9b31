"""What a merge would do, estimated from a sample for any setting of the knobs, without a new read.

Takes a `Sample` and weights, densities, scale and method; gives a `Preview`: shares, norms, influence and cosines with
95 % intervals, a tensor each and in total. The arithmetic is the merge's own kernel. Reads and writes nothing.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from core.errors import CheckpointError, InputError, PlanError
from core.merge.config import STREAMING
from core.merge.plan import AUTO, Member, Plan
from core.preview.intervals import Both, Bounds, Column, Strata, cosines, norms, shares
from core.preview.result import EACH_MEMBER, SHARES, Preview
from core.preview.sample import Sample, in_threads, inner_products, picked
from core.preview.trimming import Trimming, adjusted, trimming

if TYPE_CHECKING:
    from core.merge.kernels import Rule
    from core.preview.tally import Limits, Raw


class _Columns(NamedTuple):
    """Sums over each block."""

    shared: np.ndarray
    """float64 (n, SHARED)."""
    each: np.ndarray
    """float64 (n, members, EACH)."""

    @property
    def flat(self) -> np.ndarray:
        """float64 (n, all)."""
        return np.concatenate([self.shared, self.each.reshape(len(self.each), -1)], axis=1)

    @classmethod
    def of(cls, flat: np.ndarray, members: int) -> "_Columns":
        """The columns that `flat` puts side by side."""
        at = flat.shape[1]
        from core.preview.tally import EACH_COUNT

        return cls(
            flat[:, : at - members * EACH_COUNT], flat[:, at - members * EACH_COUNT :].reshape(-1, members, EACH_COUNT)
        )


def estimate(
    sample: Sample, *, weights: Sequence[float], densities: Sequence[float] | None = None, scale: float = 1.0,
    normalize: bool = True, method: str = "ties", members: Sequence[int] | None = None,
) -> Preview:  # fmt: skip
    """Estimate a merge of `members` (places in `sample.members`, in the merge's order; all by default).

    `weights` and `densities` (1 by default; only `ties` trims) are one a member. Raises InputError for numbers that do
    not fit, CheckpointError where a value that was read is NaN or infinite.
    """
    from core.merge.dialect import rule_of

    started = time.perf_counter()
    places = tuple(range(len(sample.members))) if members is None else tuple(int(one) for one in members)
    kept = [1.0] * len(places) if densities is None else list(densities)
    _check(sample, places, list(weights), kept, method)
    if not np.isfinite(scale):
        raise InputError(f"scale must be a finite number, found {scale}.")
    chosen = tuple(
        Member(sample.members[at], float(weight), float(density) if method == "ties" else 1.0)
        for at, weight, density in zip(places, weights, kept, strict=True)
    )
    plan = Plan(method, None, chosen, normalize, float(scale), "float32", AUTO, "streaming", "")
    raw = picked(sample, places)
    trimmed = trimming(sample, raw, places, tuple(one.density for one in plan.members))
    rule = rule_of(plan)
    columns, bad = _merge(raw, trimmed.limits, rule, sample.design.block)
    _refuse_bad(sample, places, bad)
    corrected = columns if trimmed.near is None else _adjust(columns, trimmed, rule, sample)
    strata = Strata(sample.design)
    return Preview(
        method, sample.seed, sample.names, tuple(sample.members[one] for one in places), sample.design,
        sample.bytes_read, _shared(strata, columns, corrected), _each(strata, columns, corrected),
        _pairs(sample, strata, places), sample.warnings, time.perf_counter() - started,
    )  # fmt: skip


def estimate_plan(sample: Sample, plan: Plan) -> Preview:
    """Estimate a plan whose models the sample has. Raises InputError where it does not, else as `estimate`.

    Raises PlanError for the dialects that trim and vote over whole models.
    """
    if plan.dialect != "mergekit" and plan.method == "ties":
        raise PlanError(f"dialect {plan.dialect} trims over whole models, which a preview does not. Expected mergekit.")
    missing = [one.path for one in plan.members if one.path not in sample.members]
    if missing:
        raise InputError(f"{missing[0]}: is not among the models of this sample. Read a new one.")
    return estimate(
        sample,
        weights=[one.weight for one in plan.members],
        densities=[one.density for one in plan.members],
        scale=plan.scale,
        normalize=plan.normalize,
        method=plan.method,
        members=[sample.members.index(one.path) for one in plan.members],
    )


def _check(sample: Sample, places: tuple[int, ...], weights: list[float], densities: list[float], method: str) -> None:
    if method not in STREAMING:
        raise InputError(f"method {method!r} cannot be previewed. Expected one of {', '.join(STREAMING)}.")
    if not places or len(set(places)) < len(places) or not set(places) <= set(range(len(sample.members))):
        raise InputError(f"expected different members from 0 to {len(sample.members) - 1}, found {list(places)}.")
    if not len(weights) == len(densities) == len(places):
        raise InputError(
            f"expected a weight and a density for each of {len(places)} members, found {len(weights)} and "
            f"{len(densities)}."
        )
    if not np.isfinite([*weights, *densities]).all() or min(densities) < 0 or max(densities) > 1:
        raise InputError("weights must be finite numbers, densities from 0 to 1.")


def _merge(raw: "Raw", limits: "Limits", rule: "Rule", block: int) -> tuple[_Columns, np.ndarray]:
    """Block sums, and int64 (n, rows) values that are not finite."""
    from core.merge.kernels import Figures
    from core.preview.tally import EACH_COUNT, SHARED_COUNT, merge_each

    n, members = limits.at.size, rule.weights.size
    columns = _Columns(np.empty((n, SHARED_COUNT)), np.empty((n, members, EACH_COUNT)))
    bad = np.zeros((n, members + 1), np.int64)

    def work(part: np.ndarray) -> None:
        figures, out = Figures.zeros(members, block), np.empty(block, np.uint32)
        first, last = int(part[0]), int(part[-1]) + 1
        merge_each(raw, limits, first, last, rule, figures, out, columns.shared, columns.each, bad)

    in_threads(work, n)
    return columns, bad


def _refuse_bad(sample: Sample, places: tuple[int, ...], bad: np.ndarray) -> None:
    if not bad.any():
        return
    block, row = (int(one[0]) for one in np.nonzero(bad))
    folder = sample.members[places[row - 1]] if row else sample.reference
    raise CheckpointError(
        f"{folder}: tensor {sample.names[int(sample.design.tensor[block])]} has values that are NaN or infinite, "
        f"{bad[:, row].sum():,} of those that were read. Expected finite weights: this checkpoint cannot be merged."
    )


def _adjust(columns: _Columns, trimmed: Trimming, rule: "Rule", sample: Sample) -> _Columns:
    """Block sums less what the error of the thresholds, as far as each block makes it, adds to them."""
    from core.preview.tally import EACH

    def sums(raw: "Raw", limits: "Limits", _: slice) -> np.ndarray:
        return _merge(raw, limits, rule, raw.raw32.shape[2])[0].flat

    kept = columns.each[:, :, EACH.index("kept")]
    return _Columns.of(adjusted(columns.flat, kept, trimmed, sample, sums), rule.weights.size)


def _shared(strata: Strata, columns: _Columns, adjusted: _Columns) -> dict[str, Both]:
    from core.preview.tally import SHARED

    def column(*names: str) -> Column:
        at = [SHARED.index(name) for name in names]
        values = columns.shared[:, at]
        return Column(values, values if adjusted is columns else adjusted.shared[:, at])

    of_elements = shares(strata, column(*SHARES), column("elements"))
    found = {name: _one(of_elements, at) for at, name in enumerate(SHARES)}
    changed = _one(of_elements, slice(0, 1))
    return {
        "rounding_loss": _one(shares(strata, column("lost"), column("changed")), 0),
        **found,
        "merged_norm": _one(norms(strata, column("squares"), column("changed").values, changed), 0),
    }


def _each(strata: Strata, columns: _Columns, adjusted: _Columns) -> dict[str, Both]:
    from core.preview.tally import EACH

    def column(name: str) -> Column:
        values = columns.each[:, :, EACH.index(name)]
        return Column(values, values if adjusted is columns else adjusted.each[:, :, EACH.index(name)])

    elements = Column(columns.shared[:, :1], columns.shared[:, :1])
    part = column("part")
    whole = Column(*(one.sum(axis=1, keepdims=True) for one in part))
    return dict(
        zip(
            EACH_MEMBER,
            (
                shares(strata, column("changed"), elements),
                shares(strata, part, whole, counted=False),
                shares(strata, column("alone"), part, counted=False),
                shares(strata, column("flips"), elements),
            ),
            strict=True,
        )
    )


def _pairs(sample: Sample, strata: Strata, places: tuple[int, ...]) -> Both:
    """Cosines of the picked members' task vectors; the last choice is kept."""

    def make() -> Both:
        return cosines(strata, np.ascontiguousarray(inner_products(sample)[:, places][:, :, places]))

    found: Both = sample.remember("cosines", places, make)
    return found


def _one(both: Both, at: int | slice) -> Both:
    tensors, total = both
    return Both(Bounds(*(one[:, at] for one in tensors)), Bounds(*(one[at] for one in total)))

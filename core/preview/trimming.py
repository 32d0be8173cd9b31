"""Trim thresholds estimated from a sample, and how much every figure would move if one of them moved.

A tensor's sampled elements are trimmed as the merge trims a tensor: the largest by magnitude stay, ties to the first.
The threshold found is off by the error of a sampled quantile; to first order a figure is then off by that error times
its slope, the mean change of the figure when an element near the threshold is kept or trimmed. Takes a sample; gives
thresholds and corrections of block sums.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from core.merge.trim import KEEP_NOTHING, kept_count
from core.preview.design import Design
from core.preview.sample import Sample, in_threads

if TYPE_CHECKING:
    from core.preview.tally import Limits, Raw

NEAR = 0.03
"""Share of a tensor's elements on either side of the threshold, by rank, that count as near."""
AT_LEAST, AT_MOST = 16, 128
"""Elements on either side that count as near at least; elements of a group at most."""
MOST_AT_ONCE = 4_000_000
"""Numbers that the slopes of some tensors may take at a time."""


@dataclass(frozen=True, eq=False)
class Near:
    """Elements near the threshold of one member in one tensor; a group each."""

    raw: "Raw"
    tensor: np.ndarray
    """int64 (groups,)."""
    member: np.ndarray
    """int64 (groups,)."""
    kept: "Limits"
    """Where the member's elements of the group are all kept."""
    gone: "Limits"
    """Where they are all trimmed."""
    positions: np.ndarray
    """int64 (groups, AT_MOST): the place of each element among its tensor's sampled ones."""


@dataclass(frozen=True, eq=False)
class Trimming:
    """What is trimmed at some densities."""

    limits: "Limits"
    shares: np.ndarray
    """float64 (tensors, members): share of elements that stay, as the merge counts it."""
    near: Near | None
    """None where no threshold is estimated."""


def trimming(sample: Sample, raw: "Raw", members: tuple[int, ...], densities: tuple[float, ...]) -> Trimming:
    """Thresholds of `members` (the rows of `raw`) at their densities; the last choice is kept."""
    found: Trimming = sample.remember("trim", (members, densities), lambda: _trimming(sample, raw, members, densities))
    return found


def _trimming(sample: Sample, raw: "Raw", members: tuple[int, ...], densities: tuple[float, ...]) -> Trimming:
    from core.preview.tally import Limits, find_limits

    design = sample.design
    stay = np.array([[kept_count(one, int(n)) for one in densities] for n in design.elements], np.int64)
    shares = stay / design.elements[:, None]
    edges = _edges(design)
    places = np.diff(edges)
    tensors = design.elements.size
    thresholds, around = np.zeros((len(members), tensors), np.uint32), np.zeros((len(members), 2, tensors), np.uint32)
    cutoffs, counts = np.zeros((2, len(members), tensors), np.int64)

    def work(part: np.ndarray) -> None:
        for i in part.tolist():
            if (stay[:, i] == design.elements).all():
                continue
            wanted = np.where(stay[:, i] > 0, np.maximum(1, np.rint(shares[:, i] * places)), 0).astype(np.int64)
            find_limits(
                in_file_order(sample, members[i]), in_size_order(sample, members[i]), edges, wanted, AT_LEAST, NEAR,
                thresholds[i], cutoffs[i], around[i], counts[i],
            )  # fmt: skip

    in_threads(work, len(members))
    blocks = np.arange(design.numbers.size)
    limits = Limits(blocks, np.ascontiguousarray(thresholds.T[raw.tensor]), cutoffs.T[raw.tensor] - raw.starts[:, None])
    counts[:, design.exact] = 0

    def magnitudes(t: int, i: int) -> np.ndarray:
        return in_file_order(sample, members[i])[edges[t] : edges[t + 1]]

    return Trimming(limits, shares, _near(raw, design, limits, around=around, counts=counts, magnitudes=magnitudes))


def adjusted(
    flat: np.ndarray,
    kept: np.ndarray,
    trimmed: Trimming,
    sample: Sample,
    sums: Callable[["Raw", "Limits", slice], np.ndarray],
) -> np.ndarray:
    """Block sums less what the error of the thresholds, as far as each block makes it, adds to them.

    `flat` float64 (n, all); `kept` float64 (n, members), non-zero deltas that the trim leaves; `sums` gives what `flat`
    holds for other blocks under other limits, a row each; these are the groups of `near` that the slice names.
    """
    near, design = trimmed.near, sample.design
    if near is None:
        return flat
    found = flat.copy()
    over = kept - trimmed.shares[design.tensor] * design.sizes[:, None]
    step = max(1, MOST_AT_ONCE // (flat.shape[1] * kept.shape[1]))
    tensors = np.unique(near.tensor)
    for some in np.array_split(tensors, -(-tensors.size // step)):
        groups = slice(*np.searchsorted(near.tensor, [some[0], some[-1] + 1]).tolist())
        part = near.raw._replace(
            raw16=near.raw.raw16[groups], raw32=near.raw.raw32[groups], tensor=near.raw.tensor[groups],
            sizes=near.raw.sizes[groups], starts=near.raw.starts[groups],
        )  # fmt: skip
        whole, none = (some_limits(one, groups) for one in (near.kept, near.gone))
        slopes = (sums(part, whole, groups) - sums(part, none, groups)) / np.maximum(part.sizes, 1)[:, None]
        edges = np.searchsorted(near.tensor[groups], [*some.tolist(), some[-1] + 1]).tolist()
        for tensor, first, last in zip(some.tolist(), edges, edges[1:], strict=False):
            blocks = slice(int(design.first[tensor]), int(design.first[tensor] + design.taken[tensor]))
            found[blocks] -= over[blocks][:, near.member[groups][first:last]] @ slopes[first:last]
    return found


def some_limits(limits: "Limits", groups: slice) -> "Limits":
    """The limits of some groups, counted from the first of them."""
    size = len(limits.at[groups])
    return type(limits)(np.arange(size), limits.thresholds[groups], limits.cutoffs[groups])


def _edges(design: Design) -> np.ndarray:
    """int64 (tensors + 1,): where each tensor's sampled elements begin, one tensor after the other."""
    return np.concatenate([[0], np.cumsum(np.add.reduceat(design.sizes, design.first))])


def in_file_order(sample: Sample, member: int) -> np.ndarray:
    """Bits of |δ| of every sampled element of a member: uint32, tensor by tensor; made once."""
    from core.preview.tally import all_magnitudes

    def make() -> np.ndarray:
        out = np.empty(int(sample.design.sizes.sum()), np.uint32)
        all_magnitudes(sample.raw, member, out)
        return out

    found: np.ndarray = sample.remember("magnitudes", member, make, all_keys=True)
    return found


def in_size_order(sample: Sample, member: int) -> np.ndarray:
    """The same, ascending within each tensor; made once."""

    def make() -> np.ndarray:
        out = in_file_order(sample, member).copy()
        edges = _edges(sample.design).tolist()
        for start, end in pairwise(edges):
            out[start:end].sort()
        return out

    found: np.ndarray = sample.remember("ordered", member, make, all_keys=True)
    return found


def _near(
    raw: "Raw", design: Design, limits: "Limits", *, around: np.ndarray, counts: np.ndarray,
    magnitudes: Callable[[int, int], np.ndarray],
) -> Near | None:  # fmt: skip
    """Gather the groups. `around` (members, 2, tensors) and `counts` (members, tensors) as `find_limits` fills them."""
    from core.preview.tally import gather_near

    tensor, member = np.nonzero(counts.T)
    if not tensor.size:
        return None
    raw32 = np.zeros((tensor.size, raw.codes.shape[1], AT_MOST), np.uint32)
    raw16 = raw32.view(np.uint16)
    positions = np.full((tensor.size, AT_MOST), np.iinfo(np.int64).max)
    sizes = np.zeros(tensor.size, np.int64)

    def work(part: np.ndarray) -> None:
        for group in part.tolist():
            t, i = int(tensor[group]), int(member[group])
            stride = -(-int(counts[i, t]) // AT_MOST)
            first, last = int(design.first[t]), int(design.first[t] + design.taken[t])
            low, high = around[i, :, t]
            sizes[group] = gather_near(
                raw, magnitudes(t, i), first, last, low, high, stride, group, raw16, raw32, positions
            )

    in_threads(work, tensor.size)
    groups = np.arange(tensor.size)
    near = raw._replace(raw16=raw16, raw32=raw32, tensor=tensor, sizes=sizes, starts=np.zeros_like(sizes))
    here = limits_near(limits, design, tensor, positions)
    kept, gone = here.thresholds.copy(), here.thresholds.copy()
    kept[groups, member], gone[groups, member] = 0, KEEP_NOTHING
    whole, none = here._replace(thresholds=kept), here._replace(thresholds=gone)
    return Near(near, tensor, member, whole, none, positions)


def limits_near(limits: "Limits", design: Design, tensor: np.ndarray, positions: np.ndarray) -> "Limits":
    """The limits of whole tensors for groups of their elements; `tensor` (groups,), `positions` as in `Near`."""
    cutoffs = limits.cutoffs[design.first][tensor]
    cuts = (positions[:, None, :] < cutoffs[:, :, None]).sum(axis=2)
    return type(limits)(np.arange(tensor.size), limits.thresholds[design.first][tensor], cuts)

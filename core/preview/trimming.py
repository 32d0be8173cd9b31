"""Trim thresholds estimated from a sample, and how much every figure would move if one of them moved.

A tensor's sampled elements are trimmed as the merge trims a tensor: the largest by magnitude stay, ties to the first.
The threshold found is off by the error of a sampled quantile; to first order a figure is then off by that error times
its slope, the mean change of the figure when an element near the threshold is kept or trimmed. Takes a sample; gives
thresholds and corrections of block sums.
"""

from dataclasses import dataclass
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
    from core.preview.tally import Limits

    design = sample.design
    stay = np.array([[kept_count(one, int(n)) for one in densities] for n in design.elements], np.int64)
    shares = stay / design.elements[:, None]
    ends = np.cumsum(np.add.reduceat(design.sizes, design.first))
    edges = np.concatenate([[0], ends])
    thresholds = np.zeros((design.elements.size, len(members)), np.uint32)
    cutoffs = np.zeros(thresholds.shape, np.int64)
    around = np.zeros((2, *thresholds.shape), np.uint32)
    counts = np.zeros(thresholds.shape, np.int64)

    def work(part: np.ndarray) -> None:
        for i in part.tolist():
            if (stay[:, i] == design.elements).all():
                continue
            places = np.diff(edges)
            wanted = np.where(stay[:, i] > 0, np.maximum(1, np.rint(shares[:, i] * places)), 0).astype(np.int64)
            magnitudes = in_file_order(sample, members[i])
            ordered = in_size_order(sample, members[i])
            for t in np.nonzero(wanted < places)[0].tolist():
                here = slice(int(edges[t]), int(edges[t + 1]))
                found = _select(magnitudes[here], ordered[here], int(wanted[t]))
                thresholds[t, i], cutoffs[t, i], around[0, t, i], around[1, t, i], counts[t, i] = found

    in_threads(work, len(members))
    blocks = np.arange(design.numbers.size)
    limits = Limits(blocks, thresholds[raw.tensor], cutoffs[raw.tensor] - raw.starts[:, None])
    counts[design.exact] = 0
    near = _near(raw, design, thresholds, cutoffs, around=around, counts=counts)
    return Trimming(limits, shares, near)


def _select(magnitudes: np.ndarray, ordered: np.ndarray, wanted: int) -> tuple[int, int, int, int, int]:
    """(threshold, cutoff, lowest and highest magnitude near it, how many lie between) of one member and tensor.

    `magnitudes` uint32 in file order, `ordered` ascending; `wanted` below their number. The last is 0 where the
    threshold matters to nothing.
    """
    n = ordered.size
    if wanted == 0:
        return int(KEEP_NOTHING), 0, 0, 0, 0
    threshold = ordered[n - wanted]
    if threshold == 0:
        return 0, 0, 0, 0, 0
    left, right = (int(np.searchsorted(ordered, threshold, side)) for side in ("left", "right"))
    ties = wanted - (n - right)
    cutoff = n if ties == right - left else int(np.flatnonzero(magnitudes == threshold)[ties - 1]) + 1
    half = max(AT_LEAST, round(NEAR * n))
    low, high = max(1, int(ordered[max(0, n - wanted - half)])), int(ordered[min(n - 1, n - wanted + half - 1)])
    count = int(np.searchsorted(ordered, np.uint32(high), "right") - np.searchsorted(ordered, np.uint32(low), "left"))
    return int(threshold), cutoff, low, high, count


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
        ends = np.cumsum(np.add.reduceat(sample.design.sizes, sample.design.first)).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            out[start:end].sort()
        return out

    found: np.ndarray = sample.remember("ordered", member, make, all_keys=True)
    return found


def _near(
    raw: "Raw", design: Design, thresholds: np.ndarray, cutoffs: np.ndarray, *, around: np.ndarray, counts: np.ndarray
) -> Near | None:  # fmt: skip
    """Gather the groups. `around` uint32 (2, tensors, members) and `counts` as `_select` gives them."""
    from core.preview.tally import Limits, gather_near

    tensor, member = np.nonzero(counts)
    if not tensor.size:
        return None
    raw32 = np.zeros((tensor.size, raw.codes.shape[1], AT_MOST), np.uint32)
    raw16 = raw32.view(np.uint16)
    positions = np.full((tensor.size, AT_MOST), np.iinfo(np.int64).max)
    sizes = np.zeros(tensor.size, np.int64)

    def work(part: np.ndarray) -> None:
        for group in part.tolist():
            t, i = int(tensor[group]), int(member[group])
            stride = -(-int(counts[t, i]) // AT_MOST)
            first, last = int(design.first[t]), int(design.first[t] + design.taken[t])
            low, high = around[:, t, i]
            sizes[group] = gather_near(raw, i, first, last, low, high, stride, group, raw16, raw32, positions)

    in_threads(work, tensor.size)
    groups = np.arange(tensor.size)
    near = raw._replace(raw16=raw16, raw32=raw32, tensor=tensor, sizes=sizes, starts=np.zeros_like(sizes))
    cuts = (positions[:, None, :] < cutoffs[tensor][:, :, None]).sum(axis=2)
    kept, gone = thresholds[tensor], thresholds[tensor]
    kept[groups, member], gone[groups, member] = 0, KEEP_NOTHING
    return Near(near, tensor, member, Limits(groups, kept, cuts), Limits(groups, gone, cuts))

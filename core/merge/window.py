"""Finds trim thresholds from a guess: a sample says where the k-th largest |δ| must lie, one count proves it.

Takes blocks of raw bytes; gives exact thresholds, or none for a member whose guess was wrong: the histograms of
`trim.py` then find it. The sample decides how long it takes, never what comes out.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from core.merge.blocks import Buffer
from core.merge.on_torch import Kernels

SAMPLED, LEAST = 1 << 14, 1 << 10
"""Elements looked at first, of a tensor that lies in one buffer: a part of them within these bounds."""
PIECES, PIECE = 96, 4096
"""Of a larger one: so many pieces of so many elements."""
DEVIATIONS, PIECE_DEVIATIONS = 4.0, 12.0
"""Half the window, in standard deviations of the sampled rank; neighbours in a piece are alike."""
LARGEST = 0x7F7FFFFF
CANDIDATE_BYTES = 64 << 20
"""Room for all members' magnitudes inside the window."""
OnBlock = Callable[[Buffer, int, int], Any]
"""Called with a filled buffer, the flat index of its first element, and how many elements it holds."""


class Source(Protocol):
    """A tensor of base and members, as blocks."""

    @property
    def kernels(self) -> Kernels:
        """What counts in them."""

    def each(self, function: OnBlock) -> Iterator[Any]:
        """Run a function over all blocks; yield its results in order."""

    def at(self, start: int, n: int, function: OnBlock) -> Any:
        """Run it over one block."""

    def sample(self, function: OnBlock) -> list[Any]:
        """Run it over parts of the tensor, or over the one block that is all of it."""


class Ties(NamedTuple):
    """Elements of one block that lie at the threshold."""

    start: int
    n: int
    elements: int


@dataclass(frozen=True, eq=False)
class Threshold:
    """One member's smallest kept |δ|."""

    bits: int
    kept: int
    """How many of the elements at it are kept."""
    blocks: list[Ties]


@dataclass(frozen=True, eq=False)
class _Counted:
    start: int
    n: int
    counts: np.ndarray
    found: list[np.ndarray]


def by_window(codes: np.ndarray, elements: int, wanted: dict[int, int], source: Source) -> dict[int, Threshold]:
    """Thresholds of the members for which the guess holds; `wanted` says of each how many elements are kept."""
    low, high = _windows(codes, elements, wanted, source)
    blocks = _count(codes, wanted, low, high, source)
    found = {}
    for member, count in wanted.items():
        one = _prove(member, count, (int(low[member]), int(high[member])), blocks)
        if one is not None:
            found[member] = one
    return found


def _windows(codes: np.ndarray, elements: int, wanted: dict[int, int], source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Bits (uint32, one a member) between which each wanted member's k-th largest |δ| very likely lies."""
    members = codes.size - 1

    def look(buffer: Buffer, _start: int, n: int) -> np.ndarray:
        stride = max(1, n // min(SAMPLED, max(LEAST, n // 32)))
        found = np.empty((members, -(-n // stride)), np.uint32)
        source.kernels.sample_magnitudes(buffer.rows(codes), stride, found)
        return found

    parts = source.sample(look)
    sample = np.concatenate(parts, axis=1)
    size = sample.shape[1]
    low, high = np.zeros(members, np.uint32), np.full(members, LARGEST, np.uint32)
    for member, count in wanted.items():
        share = count / elements
        margin = (DEVIATIONS if len(parts) == 1 else PIECE_DEVIATIONS) * math.sqrt(size * share * (1 - share)) + 2
        above, below = size - int(share * size + margin) - 1, size - int(share * size - margin) - 1
        places = [min(max(place, 0), size - 1) for place in (above, below)]
        ranked = np.partition(sample[member], places)
        low[member] = ranked[places[0]] if above >= 0 else 0
        high[member] = ranked[places[1]] if below < size else LARGEST
    return low, high


def _count(
    codes: np.ndarray, wanted: dict[int, int], low: np.ndarray, high: np.ndarray, source: Source
) -> list[_Counted]:
    from core.merge import kernels

    members = codes.size - 1
    mask = np.array([member in wanted for member in range(members)])
    room_left = CANDIDATE_BYTES // (4 * members)

    def count(buffer: Buffer, start: int, n: int) -> _Counted:
        room = min(room_left, max(1024, n // 16))
        counts, found = np.zeros((members, 4), np.int64), np.empty((members, room), np.uint32)
        source.kernels.count_window(buffer.rows(codes), n, mask, low, high, counts, found)
        inside = counts[:, kernels.INSIDE]
        return _Counted(start, n, counts, [found[i, : min(inside[i], room)].copy() for i in range(members)])

    blocks, held = [], 0
    for one in source.each(count):
        held += max((part.size for part in one.found), default=0)
        blocks.append(one if held <= room_left else replace(one, found=[np.empty(0, np.uint32)] * members))
    return blocks


def _prove(member: int, count: int, window: tuple[int, int], blocks: list[_Counted]) -> Threshold | None:
    """The threshold that the counts prove, or None where it is not in the window or too much is."""
    from core.merge import kernels

    counts = np.array([one.counts[member] for one in blocks])
    above, at_high, inside, at_low = (int(one) for one in counts.sum(axis=0))
    if not above < count <= above + at_high + inside + at_low:
        return None
    if count <= above + at_high:
        return _at_edge(window[1], count - above, blocks, counts[:, kernels.AT_HIGH])
    if count > above + at_high + inside:
        return _at_edge(window[0], count - above - at_high - inside, blocks, counts[:, kernels.AT_LOW])
    found = np.concatenate([one.found[member] for one in blocks])
    if found.size < inside:
        return None
    rank = count - above - at_high
    bits = int(np.partition(found, inside - rank)[inside - rank])
    ties = np.array([np.count_nonzero(one.found[member] == bits) for one in blocks])
    return _at_edge(bits, rank - int(np.count_nonzero(found > bits)), blocks, ties)


def _at_edge(bits: int, kept: int, blocks: list[_Counted], ties: np.ndarray) -> Threshold:
    return Threshold(bits, kept, [Ties(one.start, one.n, int(n)) for one, n in zip(blocks, ties, strict=True)])

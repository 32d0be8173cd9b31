"""Finds which deltas each member keeps: exactly k by magnitude, ties to the lowest flat index.

Selection is linear: one count around a sampled guess (`window.py`) proves the threshold of nearly every member;
where it fails, two histograms of the fp32 bit patterns (upper 16, then lower 15 magnitude bits) give it. Ties that
straddle it are followed to the position up to which they are kept. Takes blocks of raw bytes; gives thresholds.
No sort, no whole tensor in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from core.merge.blocks import Buffer, BufferPool, Files, codes_of, in_order, spans, thread_count
from core.merge.header import TensorInfo
from core.merge.on_torch import Kernels
from core.merge.window import PIECE, PIECES, OnBlock, Source, Threshold, by_window

KEEP_NOTHING = np.uint32(0x7F800000)
"""Above every finite magnitude."""
MANY = 1 << 62


@dataclass(frozen=True, eq=False)
class Kept:
    """What every member keeps of one tensor."""

    thresholds: np.ndarray
    """uint32 (members,): bits of the smallest kept |δ|; 0 keeps all."""
    cutoffs: np.ndarray
    """int64 (members,): elements at the threshold are kept before this flat index."""


def kept_count(density: float, elements: int) -> int:
    """k = int(density · n), as mergekit; at least 1 unless density is 0."""
    if density >= 1 or elements == 0:
        return elements
    return max(1, int(density * elements)) if density > 0 else 0


def keep_all(members: int) -> Kept:
    """No trimming."""
    return Kept(np.zeros(members, np.uint32), np.zeros(members, np.int64))


def threshold_of(counts: np.ndarray, wanted: int) -> tuple[int, int]:
    """The highest bin such that it and those above hold at least `wanted`; and how many are wanted of it.

    `counts` int64, ascending bins; `wanted` from 1 to their sum.
    """
    from_top = np.cumsum(counts[::-1])
    place = int(np.searchsorted(from_top, wanted))
    above = int(from_top[place - 1]) if place else 0
    return len(counts) - 1 - place, wanted - above


class OneBlock:
    """A tensor that lies in one buffer already."""

    def __init__(self, buffer: Buffer, n: int, kernels: Kernels) -> None:
        self._buffer, self._n, self.kernels = buffer, n, kernels

    def each(self, function: OnBlock) -> Iterator[Any]:
        """See `Source`."""
        yield function(self._buffer, 0, self._n)

    def at(self, start: int, n: int, function: OnBlock) -> Any:
        """See `Source`."""
        return function(self._buffer, start, n)

    def sample(self, function: OnBlock) -> list[Any]:
        """See `Source`."""
        return [function(self._buffer, 0, self._n)]


class ManyBlocks:
    """A tensor that is read again for each pass, block by block, in threads."""

    def __init__(
        self,
        tensors: Sequence[TensorInfo],
        files: Files,
        buffers: BufferPool,
        pool: ThreadPoolExecutor,
        *,
        block: int,
        kernels: Kernels,
    ) -> None:
        self.kernels = kernels
        self._tensors, self._files, self._buffers, self._pool = tensors, files, buffers, pool
        self._spans = spans(tensors[0].elements, block)

    def each(self, function: OnBlock) -> Iterator[Any]:
        """See `Source`."""
        work = (partial(self.at, start, n, function) for start, n in self._spans)
        return in_order(self._pool, work, thread_count() + 1)

    def at(self, start: int, n: int, function: OnBlock) -> Any:
        """See `Source`."""
        buffer = self._buffers.take()
        try:
            buffer.fill(self._files, self._tensors, start, n)
            return function(buffer, start, n)
        finally:
            self._buffers.give(buffer)

    def sample(self, function: OnBlock) -> list[Any]:
        """See `Source`."""
        elements = self._tensors[0].elements
        starts = range(0, elements, max(PIECE, elements // PIECES))
        work = (partial(self.at, start, min(PIECE, elements - start), function) for start in starts)
        return list(in_order(self._pool, work, thread_count() + 1))


def select(tensors: Sequence[TensorInfo], densities: Sequence[float], source: Source) -> Kept:
    """Thresholds and cutoffs of every member; `tensors` has the base first, `densities` one a member."""
    elements = tensors[0].elements
    kept = keep_all(len(densities))
    wanted = [kept_count(density, elements) for density in densities]
    kept.thresholds[[index for index, count in enumerate(wanted) if count == 0 < elements]] = KEEP_NOTHING
    partly = {index: count for index, count in enumerate(wanted) if 0 < count < elements}
    if not partly:
        return kept
    codes = codes_of(tensors)
    found = by_window(codes, elements, partly, source)
    for index, one in found.items():
        kept.thresholds[index] = one.bits
        kept.cutoffs[index] = _cutoff(codes, index, one, elements, source)
    missed = {index: count for index, count in partly.items() if index not in found}
    if missed:
        _by_histogram(codes, elements, missed, kept, source)
    return kept


def _cutoff(codes: np.ndarray, member: int, found: Threshold, elements: int, source: Source) -> int:
    """The flat index before which elements at the threshold are kept."""
    if found.bits == 0 or found.kept == sum(one.elements for one in found.blocks):
        return elements
    left = found.kept
    for block in found.blocks:
        if block.elements >= left:
            position, _ = source.at(block.start, block.n, _scan(codes, member, found.bits, left, source.kernels))
            return block.start + int(position)
        left -= block.elements
    raise AssertionError("more ties are kept than there are")


def _scan(codes: np.ndarray, member: int, bits: int, wanted: int, kernels: Kernels) -> OnBlock:
    """Looks for a member's `wanted`-th element at a magnitude; see `kernels.find_tie`."""

    def scan(buffer: Buffer, _start: int, n: int) -> tuple[int, int]:
        found: tuple[int, int] = kernels.find_tie(buffer.rows(codes), n, member, np.uint32(bits), wanted)
        return found

    return scan


def _by_histogram(codes: np.ndarray, elements: int, missed: dict[int, int], kept: Kept, source: Source) -> None:
    """Thresholds and cutoffs of the members that the guess missed: two counts of all magnitudes, and no guess."""
    upper = _count_high(codes, source)
    high = np.full(codes.size - 1, -1, np.int64)
    wanted = dict(missed)
    for index in missed:
        high[index], wanted[index] = threshold_of(upper[index], wanted[index])
    lower = _count_low(codes, high, source)
    straddling = {}
    for index in missed:
        low, wanted[index] = threshold_of(lower[index], wanted[index])
        kept.thresholds[index] = (int(high[index]) << 15) | low
        kept.cutoffs[index] = elements
        if kept.thresholds[index] and wanted[index] < lower[index, low]:
            straddling[index] = wanted[index]
    if straddling:
        _find_cutoffs(codes, straddling, kept, source)


def _count_high(codes: np.ndarray, source: Source) -> np.ndarray:
    from core.merge import kernels

    def count(buffer: Buffer, _start: int, n: int) -> np.ndarray:
        counts = np.zeros((codes.size - 1, 1 << kernels.HIGH_BITS), np.int64)
        source.kernels.count_high(buffer.rows(codes), n, counts)
        return counts

    return _sum(source.each(count))


def _count_low(codes: np.ndarray, high: np.ndarray, source: Source) -> np.ndarray:
    from core.merge import kernels

    bins = 1 << kernels.LOW_BITS

    def count(buffer: Buffer, _start: int, n: int) -> np.ndarray:
        counts = np.zeros((codes.size - 1, bins + kernels.SPARES), np.int64)
        source.kernels.count_low(buffer.rows(codes), n, high, counts)
        return counts

    return _sum(source.each(count))[:, :bins]


def _sum(parts: Iterable[np.ndarray]) -> np.ndarray:
    parts = iter(parts)
    total = next(parts)
    for one in parts:
        total += one
    return total


def _find_cutoffs(codes: np.ndarray, straddling: dict[int, int], kept: Kept, source: Source) -> None:
    """Set the flat index before which elements at the threshold are kept.

    `straddling` says of each member how many of them. Blocks are first only counted, in parallel, until
    each member's last kept tie is known to lie in one; that one is then read again.
    """

    def count(buffer: Buffer, start: int, n: int) -> tuple[int, int, dict[int, int]]:
        bits = kept.thresholds
        return (
            start,
            n,
            {one: MANY - _scan(codes, one, bits[one], MANY, source.kernels)(buffer, start, n)[1] for one in straddling},
        )

    left = dict(straddling)
    for start, n, ties in source.each(count):
        for one in list(left):
            if ties[one] < left[one]:
                left[one] -= ties[one]
                continue
            position, _ = source.at(start, n, _scan(codes, one, kept.thresholds[one], left[one], source.kernels))
            kept.cutoffs[one] = start + position
            del left[one]
        if not left:
            break
